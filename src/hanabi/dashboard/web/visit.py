"""A visit: one request of a browser, with the values that pages read from it and the page that they answer with."""

from http.cookies import CookieError, SimpleCookie
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope

from hanabi.dashboard.parts import Parts
from hanabi.dashboard.render.pages import link
from hanabi.dashboard.render.texts import preferred
from hanabi.dashboard.security.guard import Arrival
from hanabi.dashboard.security.roles import Role
from hanabi.errors import InvalidParameter

TEXT_MAX: Final = 1_000
THEMES: Final = ("auto", "light", "dark")


class Visit:
    """One request."""

    def __init__(self, request: Request, parts: Parts) -> None:
        self.request = request
        self.arrival: Arrival = request.scope["arrival"]
        self.parts = _parts_of(parts, self.user) if self.is_account else parts
        self.form = self.arrival.form

    @property
    def role(self) -> Role | None:
        return self.arrival.session.role if self.arrival.session else None

    @property
    def is_account(self) -> bool:
        """Return whether an account of the brokers is logged in: brokers decide what it may."""
        return self.arrival.session is not None and self.arrival.session.account

    @property
    def user(self) -> str:
        return self.arrival.session.user if self.arrival.session else ""

    @property
    def wants_part(self) -> bool:
        """Return whether htmx asks for the part of the page that changes."""
        return "hx-request" in self.request.headers

    def name(self, key: str) -> str:
        """Return a name in the path."""
        return str(self.request.path_params[key])

    def text(self, key: str, default: str = "", most: int = TEXT_MAX) -> str:
        """Return a parameter of the URL or a field of the form, without blanks around it."""
        found = (self.form.get(key) or [None])[0] if self.form else self.request.query_params.get(key)
        value = default if found is None else found.strip()
        if len(value) > most:
            raise InvalidParameter(f"{key} is longer than {most} characters")
        return value

    def number(self, key: str, default: int, low: int, high: int) -> int:
        """Return a whole number between *low* and *high*."""
        text = self.text(key)
        if not text:
            return default
        try:
            value = int(text)
        except ValueError:
            raise InvalidParameter(f"{key} must be a whole number") from None
        if not low <= value <= high:
            raise InvalidParameter(f"{key} must be between {low} and {high}")
        return value

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """Return a page. *values* are what its template shows."""
        shared = {
            **base_values(self.request.scope, self.parts),
            "part": self.wants_part,
            "query": dict(self.request.query_params),
            "here": self.request.url.path + (f"?{self.request.url.query}" if self.request.url.query else ""),
        }
        language = shared.pop("language")
        return HTMLResponse(self.parts.pages.render(template, language, {**shared, **values}), status)

    def to(self, path: str, **query: Any) -> Response:
        """Return the way to another page, after a form."""
        return RedirectResponse(link(path, **query), status_code=303)

    def note(self, action: str, subject: str = "", detail: str = "", verdict: str = "done") -> None:
        """Write to the audit log."""
        self.parts.audit.note(self.user, self.arrival.address, action, subject, verdict, detail)


def _parts_of(parts: Parts, user: str) -> Parts:
    """Return the parts with the cluster as an account of the brokers sees it, by requests signed with it."""
    account = parts.accounts.find(user)
    if account is None:
        raise InvalidParameter("this session has ended: log out, and in again")
    return msgspec.structs.replace(parts, cluster=account.cluster, client=account.client)


def base_values(scope: Scope, parts: Parts) -> dict[str, Any]:
    """Return the values that every template needs."""
    request = Request(scope)
    arrival: Arrival | None = scope.get("arrival")
    session = arrival.session if arrival else None
    cookies = _cookies(request.headers.get("cookie", ""))
    theme = cookies.get("theme", "auto")
    role = session.role if session else None
    read_only = parts.config.read_only
    return {
        "language": preferred(cookies.get("language", ""), request.headers.get("accept-language", "")),
        "theme": theme if theme in THEMES else "auto",
        "user": session.user if session else "",
        "role": role.title if role else "",
        "csrf": session.csrf if session else "",
        "may_operate": role is not None and role >= Role.OPERATOR and not read_only,
        "may_administer": role is not None and role >= Role.ADMINISTRATOR and not read_only,
        "is_administrator": role is Role.ADMINISTRATOR and not (session and session.account),
        "is_account": bool(session and session.account),
        "read_only": read_only,
        "path": scope["path"],
        "here": scope["path"],
        "now_ms": parts.now_ms(),
        "part": False,
        "query": {},
        "namesrv": ";".join(parts.cluster.admin.access.name_servers),
        "alerts": 0 if session and session.account else len(parts.watch.book.active),
        "broker_login": parts.config.broker_login,
        "notice": request.query_params.get("done", "")[:TEXT_MAX],
    }


def _cookies(header: str) -> dict[str, str]:
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(header).items()}
    except CookieError:
        return {}
