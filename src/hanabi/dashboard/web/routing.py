"""Routes of pages: path, method, role and function. Errors of the cluster become pages, too."""

import logging
from collections.abc import Awaitable, Callable

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from hanabi.dashboard.parts import Parts
from hanabi.dashboard.security.roles import Role
from hanabi.dashboard.web.visit import Visit, base_values
from hanabi.errors import (
    ConfigError,
    InvalidMessage,
    InvalidParameter,
    MQError,
    QueryNotFound,
    SubscriptionGroupNotExist,
    TopicNotExist,
)

logger = logging.getLogger(__name__)

Page = Callable[[Visit], Awaitable[Response]]
_NOT_FOUND = (TopicNotExist, QueryNotFound, SubscriptionGroupNotExist)
_BAD_INPUT = (InvalidParameter, ConfigError, InvalidMessage)


class PageRoute(msgspec.Struct, frozen=True):
    """One page. Without a role it is open: only the login is."""

    path: str
    page: Page
    role: Role | None = Role.READER
    method: str = "GET"
    local: bool = False  # only for users of the dashboard, and not for accounts of brokers


def routes(pages: list[PageRoute], parts: Parts) -> list[Route]:
    """Return the routes of *pages*."""
    return [Route(each.path, _endpoint(each, parts), methods=[each.method]) for each in pages]


def _endpoint(route: PageRoute, parts: Parts) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            visit = Visit(request, parts)
        except MQError as error:
            return problem_page(request.scope, parts, 401, str(error))
        if route.role is not None and (visit.role is None or visit.role < route.role):
            visit.note("refused", request.url.path, f"{route.method} needs the role {route.role.title}", "refused")
            return problem_page(request.scope, parts, 403, f"This needs the role {route.role.title}.")
        if route.local and visit.is_account:
            visit.note("refused", request.url.path, "accounts of brokers have no part in it", "refused")
            return problem_page(request.scope, parts, 403, "This is for users of the dashboard only.")
        try:
            return await route.page(visit)
        except MQError as error:
            if route.method != "GET":
                visit.note("failed", request.url.path, str(error), "failed")
            return problem_page(request.scope, parts, _status(error), str(error))

    return endpoint


def _status(error: MQError) -> int:
    if isinstance(error, _NOT_FOUND):
        return 404
    return 400 if isinstance(error, _BAD_INPUT) else 502


def problem_page(scope: Scope, parts: Parts, status: int, sentence: str) -> Response:
    """Return the page of an error."""
    values = base_values(scope, parts)
    language = values.pop("language")
    shown = {**values, "status": status, "sentence": sentence}
    return HTMLResponse(parts.pages.render("problem.html", language, shown), status)
