"""A dashboard over a cluster in this process, and a browser without JavaScript that is logged in."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from hanabi.client.config import ClientConfig
from hanabi.dashboard.app import application
from hanabi.dashboard.config import DashboardConfig
from hanabi.dashboard.parts import Parts
from hanabi.dashboard.security.roles import Role
from hanabi.dashboard.server import opened

PASSWORD = "correct horse"  # noqa: S105 - of users of these tests
HOST = "http://127.0.0.1"


class Browser:
    """Requests of one browser. `post` takes the token from the last page, as a form of that page would."""

    def __init__(self, app: Any, address: str = "192.0.2.1") -> None:
        transport = httpx.ASGITransport(app, client=(address, 1234))
        self.http = httpx.AsyncClient(transport=transport, base_url=HOST)
        self.csrf = ""

    async def get(self, path: str, **options: Any) -> httpx.Response:
        response = await self.http.get(path, **options)
        if found := re.search(r'name="csrf" value="([^"]+)"', response.text):
            self.csrf = found[1]
        return response

    async def post(self, path: str, fields: dict[str, Any] | None = None, **options: Any) -> httpx.Response:
        return await self.http.post(path, data={"csrf": self.csrf, **(fields or {})}, **options)

    async def login(self, name: str, password: str = PASSWORD) -> httpx.Response:
        response = await self.http.post("/login", data={"name": name, "password": password})
        if response.status_code == 303:
            await self.get("/help")
        return response


class Dashboard:
    """An open dashboard, with one user of each role."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.app = application(parts)

    def browser(self, address: str = "192.0.2.1") -> Browser:
        return Browser(self.app, address)

    async def as_role(self, role: Role) -> Browser:
        browser = self.browser()
        assert (await browser.login(role.title)).status_code == 303
        return browser


@asynccontextmanager
async def dashboard(home: Path, namesrv: str, *, timeout_s: float = 5.0, **settings: Any) -> AsyncIterator[Dashboard]:
    """Open a dashboard of the cluster at *namesrv*."""
    config = DashboardConfig(home=home / "dashboard", scrypt_log_n=4, **settings)
    async with opened(config, ClientConfig(namesrv=namesrv, request_timeout_s=timeout_s)) as (parts, _):
        for role in Role:
            await parts.users.put(role.title, role, PASSWORD)
        yield Dashboard(parts)
