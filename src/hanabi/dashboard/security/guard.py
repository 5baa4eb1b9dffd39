"""The guard in front of all pages: Host, security headers, session, CSRF, role and read-only mode.

An ASGI application around the router. Pages find the session in the scope; a page that is not in the table of public
ones is never reached without one.
"""

import hmac
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl, quote

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hanabi.dashboard.config import FORM_BYTES_MAX, DashboardConfig
from hanabi.dashboard.security.audit import Audit
from hanabi.dashboard.security.rules import (
    RESPONSE_HEADERS,
    SAFE_METHODS,
    client_address,
    comes_from_our_page,
    host_is_allowed,
    is_https,
)
from hanabi.dashboard.security.sessions import Session, Sessions

COOKIE: Final = "hanabi-session"
SECURE_COOKIE: Final = "__Host-hanabi-session"
FIELDS_MAX: Final = 2_000
OPEN_IN_READ_ONLY: Final = frozenset(
    {"/login", "/logout", "/preferences", "/password", "/messages/search", "/jobs/cancel"}
)  # they change nothing in the cluster
NO_TOUCH_HEADER: Final = "x-hanabi-refresh"  # sent by refreshes that no person asked for

Refuse = Callable[[Scope, int, str], Response]


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about one request that pages need."""

    address: str
    https: bool
    cookie: str  # the id of the session, or empty
    session: Session | None
    form: dict[str, list[str]]


class Guard:
    """Checks each request before the pages see it."""

    def __init__(self, app: ASGIApp, config: DashboardConfig, sessions: Sessions, audit: Audit, refuse: Refuse) -> None:
        self._app, self._config, self._sessions, self._audit, self._refuse = app, config, sessions, audit, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        await self._http(scope, receive, _with_headers(send, scope["path"]))

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not host_is_allowed(host, (*self._config.allowed_hosts, self._config.host)):
            await Response("Host not allowed: name it with --allow-host", 421)(scope, receive, send)
            return
        path: str = scope["path"]
        if path.startswith("/static/"):
            await self._app(scope, receive, send)
            return
        peer = (scope.get("client") or ("", 0))[0]
        trusted = self._config.trusted_proxies
        https = is_https(scope["scheme"], peer, headers, trusted)
        cookie = _cookie(headers.get("cookie", ""), SECURE_COOKIE if https else COOKIE)
        session = self._sessions.find(cookie, touch=NO_TOUCH_HEADER not in headers) if cookie else None
        address = client_address(peer, headers, trusted)
        form: dict[str, list[str]] = {}
        if scope["method"] not in SAFE_METHODS:
            read = await _form(headers, receive)
            form = read or {}
            reason = self._why_not(path, headers, host, session, form)
            if reason is not None or read is None:
                sentence = reason or "the form is too large, or none"
                self._audit.note(session.user if session else "", address, "refused", path, "refused", sentence)
                await self._refuse(scope, 403 if reason else 413, sentence)(scope, receive, send)
                return
        if session is None and path != "/login":
            target = path + (f"?{scope['query_string'].decode(errors='replace')}" if scope["query_string"] else "")
            await _to_login(headers, target)(scope, receive, send)
            return
        scope["arrival"] = Arrival(address=address, https=https, cookie=cookie, session=session, form=form)
        await self._app(scope, receive, send)

    def _why_not(
        self, path: str, headers: Headers, host: str, session: Session | None, form: dict[str, list[str]]
    ) -> str | None:
        """Return why a request that changes something is refused."""
        if not comes_from_our_page(headers, host):
            return "the request comes from a page of another site"
        if session is not None and path != "/login":
            token = headers.get("x-csrf-token") or (form.get("csrf") or [""])[0]
            if not hmac.compare_digest(token.encode(), session.csrf.encode()):
                return "the form is not of this session: load the page again"
        if self._config.read_only and path not in OPEN_IN_READ_ONLY:
            return "the dashboard is in read-only mode (--read-only)"
        return None


def _to_login(headers: Headers, target: str) -> Response:
    """Return the way to the login. A refresh of a part of a page reloads the whole page, which then leads there."""
    if "hx-request" in headers:
        return Response(status_code=204, headers={"hx-refresh": "true"})
    return RedirectResponse(f"/login?next={quote(target, safe='')}", status_code=303)


def _with_headers(send: Send, path: str) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=message["headers"])
            for name, value in RESPONSE_HEADERS.items():
                headers[name] = value
            if not path.startswith("/static/"):
                headers["cache-control"] = "no-store"
            message["headers"] = headers.raw
        await send(message)

    return sending


def _cookie(header: str, name: str) -> str:
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return found.value if found else ""


async def _form(headers: Headers, receive: Receive) -> dict[str, list[str]] | None:
    """Read a form of bounded size; None if it is none."""
    if headers.get("content-type", "").partition(";")[0].strip() not in ("application/x-www-form-urlencoded", ""):
        return None
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if len(body) > FORM_BYTES_MAX:
            return None
        if not message.get("more_body"):
            break
    fields: dict[str, list[str]] = {}
    try:
        for name, value in parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX):
            fields.setdefault(name, []).append(value)
    except (UnicodeDecodeError, ValueError):
        return None
    return fields
