"""Login, logout, and the preferences of a browser."""

import math

from starlette.responses import Response

from hanabi.dashboard.cluster.accounts import USER_PREFIX, NotAccepted
from hanabi.dashboard.render.texts import LANGUAGES
from hanabi.dashboard.security.guard import COOKIE, SECURE_COOKIE
from hanabi.dashboard.security.passwords import PASSWORD_CHARACTERS_MAX
from hanabi.dashboard.security.roles import Role
from hanabi.dashboard.web.routing import PageRoute
from hanabi.dashboard.web.visit import THEMES, Visit
from hanabi.errors import MQError

YEAR_S = 365 * 86_400


async def form(visit: Visit) -> Response:
    """Show the login."""
    if visit.role is not None:
        return visit.to(_target(visit))
    return visit.page("login.html", next=_target(visit), problem="", name="")


async def login(visit: Visit) -> Response:
    """Begin a session, with a new id; or tell how long to wait after too many failures."""
    name, password = visit.text("name", most=200), (visit.form.get("password") or [""])[0]
    as_account = visit.parts.config.broker_login and visit.text("as") == "account"
    if as_account:
        name = USER_PREFIX + name
    parts, address = visit.parts, visit.arrival.address
    wait = parts.throttle.wait_s(name, address)
    if wait > 0:
        parts.audit.note(name, address, "login", verdict="refused", detail=f"must wait {math.ceil(wait)} s")
        sentence = f"Too many failed logins. Wait {math.ceil(wait)} seconds."
        return visit.page("login.html", status=429, next=_target(visit), problem=sentence, name=name)
    if as_account:
        return await _account_login(visit, name, password)
    parts.throttle.failed(name, address)  # before the check, so that logins at the same time count
    role = None if len(password) > PASSWORD_CHARACTERS_MAX else await parts.users.check(name, password)
    if role is None:
        parts.audit.note(name, address, "login", verdict="refused", detail="wrong name or password")
        sentence = "This name and password do not match."
        return visit.page("login.html", status=401, next=_target(visit), problem=sentence, name=name)
    parts.throttle.succeeded(name, address)
    parts.sessions.end(visit.arrival.cookie)
    parts.audit.note(name, address, "login")
    response = visit.to(_target(visit))
    _set_cookie(visit, response, parts.sessions.begin(name, role))
    return response


async def _account_login(visit: Visit, user: str, secret: str) -> Response:
    """Begin a session of an account of the brokers, if they confirm it."""
    parts, address = visit.parts, visit.arrival.address
    parts.throttle.failed(user, address)
    try:
        if len(secret) > PASSWORD_CHARACTERS_MAX:
            raise NotAccepted("no broker accepts this account and secret", is_wrong=True)
        await parts.accounts.login(user.removeprefix(USER_PREFIX), secret)
    except MQError as error:
        wrong = isinstance(error, NotAccepted) and error.is_wrong
        parts.audit.note(user, address, "login", verdict="refused", detail=str(error))
        sentence = "This name and password do not match." if wrong else str(error)
        name = user.removeprefix(USER_PREFIX)
        return visit.page("login.html", status=401 if wrong else 502, next=_target(visit), problem=sentence, name=name)
    parts.throttle.succeeded(user, address)
    parts.sessions.end(visit.arrival.cookie)
    parts.audit.note(user, address, "login")
    response = visit.to(_target(visit))
    _set_cookie(visit, response, parts.sessions.begin(user, Role.ADMINISTRATOR, account=True))
    return response


async def logout(visit: Visit) -> Response:
    """End the session."""
    visit.parts.sessions.end(visit.arrival.cookie)
    visit.note("logout")
    response = visit.to("/login")
    _set_cookie(visit, response, "", seconds=0)
    return response


async def preferences(visit: Visit) -> Response:
    """Keep theme and language in the browser."""
    back = visit.text("back", "/")
    response = visit.to(back if _is_ours(back) else "/")
    for name, allowed in (("theme", THEMES), ("language", LANGUAGES)):
        if (value := visit.text(name)) in allowed:
            response.set_cookie(name, value, max_age=YEAR_S, samesite="strict", secure=visit.arrival.https)
    return response


def _set_cookie(visit: Visit, response: Response, value: str, seconds: int | None = None) -> None:
    https = visit.arrival.https
    response.set_cookie(
        SECURE_COOKIE if https else COOKIE,
        value,
        max_age=seconds,
        path="/",
        secure=https,
        httponly=True,
        samesite="strict",
    )


def _target(visit: Visit) -> str:
    target = visit.text("next", "/")
    return target if _is_ours(target) and not target.startswith("/log") else "/"


def _is_ours(path: str) -> bool:
    """Return whether a path leads to a page of ours, and to no other host."""
    return path.startswith("/") and not path.startswith(("//", "/\\")) and not any(ord(sign) < 32 for sign in path)


PAGES = [
    PageRoute("/login", form, role=None),
    PageRoute("/login", login, role=None, method="POST"),
    PageRoute("/logout", logout, method="POST"),
    PageRoute("/preferences", preferences, method="POST"),
]
