"""A dashboard over a cluster with messages, groups, dead letters and a trace, in a real browser: one for all tests."""

import asyncio
import json
import math
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

import hanabi
from hanabi.client.config import ClientConfig
from hanabi.dashboard.config import DashboardConfig
from hanabi.dashboard.history.ring import Ring
from hanabi.dashboard.server import running
from hanabi.testing.cluster import running_cluster
from hanabi.testing.threads import in_thread
from tests.dashboard.test_messages import make_letters

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PASSWORD = "a long password"  # noqa: S105 - of this test
SCRIPT = "<script>document.title = 'taken'</script>"
LETTERS = 12
NEEDS_CHROMIUM = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None and not os.environ.get("HANABI_CHROMIUM_REQUIRED"), reason="needs chromium"),
]


class Site:
    """The URL of a dashboard, a browser that is logged in, and what its console said."""

    def __init__(self, url: str, namesrv: str, browser: Browser) -> None:
        self.url, self.namesrv, self.browser = url, namesrv, browser
        self.context = self.logged_in()
        self.errors: list[str] = []

    def logged_in(self, **options: Any) -> BrowserContext:
        context = self.browser.new_context(base_url=self.url, **options)
        page = context.new_page()
        page.goto("/login")
        page.get_by_label("Name").fill("admin")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        page.close()
        return context

    def page(self, path: str, context: BrowserContext | None = None) -> Page:
        page = (context or self.context).new_page()
        page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.goto(path)
        return page


async def fill(home: Path) -> None:
    """Write two hours of made-up samples, with a gap, for the pictures of the documents."""
    home.mkdir(parents=True)
    ring = Ring(home / "history.db")
    await ring.open()
    now = time.time()
    for step in range(715, 1, -1):
        wave = math.sin(step / 60)
        lag = max(9_000 * math.sin(step / 120) + 6_000, 0.0)
        values = {"cluster/in": 1_400 + 300 * wave, "cluster/out": 1_350 + 330 * math.sin(step / 60 + 0.4),
                  "cluster/lag": lag * 1.4, "topic/Orders/in": 700 + 150 * wave,
                  "group/billing/lag": lag, "group/billing/behind": lag / 20}  # fmt: skip
        if not 300 < step < 330:
            await ring.write(now - step * 10, values)
    await ring.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("browser")
    (folder / "password").write_text(PASSWORD)
    with in_thread(running_cluster(folder / "cluster")) as cluster:
        namesrv = cluster.it.namesrv
        cluster.run(cluster.it.create_topic("Orders", queues=2))
        with hanabi.Producer("shop", namesrv=namesrv) as producer:
            for number in range(20):
                producer.send(hanabi.Message("Orders", json.dumps({"amount": number}).encode(), keys=[f"k{number}"]))
            producer.send(hanabi.Message("Orders", SCRIPT.encode(), keys=["evil"]))
            producer.send(hanabi.Message("Orders", msgspec.msgpack.encode({"colour": "red"}), keys=["packed"]))
        with hanabi.Producer("shop", namesrv=namesrv, trace=True) as producer:
            producer.send(hanabi.Message("Orders", b"traced", keys=["traced"]))
        for group in ("billing", "reporting"):
            with hanabi.PullConsumer(group, namesrv=namesrv) as consumer:
                consumer.commit(dict.fromkeys(consumer.queues_of("Orders"), 1))
        cluster.run(make_letters(cluster.it, "billing", {"Paid": LETTERS}))
        config = DashboardConfig(home=folder / "home", port=0, password_file=folder / "password", scrypt_log_n=4)
        if os.environ.get("HANABI_PICTURES"):
            (folder / "alerts.yml").write_text("limits: {lag_seconds: 1}\n")
            config = msgspec.structs.replace(config, alerts_file=folder / "alerts.yml")
            asyncio.run(fill(config.home))
        client = ClientConfig(namesrv=namesrv, request_timeout_s=2.5)
        with in_thread(running(config, client)) as dashboard, sync_playwright() as play:
            browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            try:
                yield Site(dashboard.it[0].split()[-1].rstrip("/"), namesrv, browser)
            finally:
                browser.close()
