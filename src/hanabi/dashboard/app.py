"""The application: all pages behind the guard."""

from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from hanabi.dashboard.pages import (
    alerts,
    brokers,
    groups,
    history,
    login,
    messages,
    overview,
    pipelines,
    topics,
    users,
    waiting,
)
from hanabi.dashboard.pages.operate import changes, dead_letters, jobs, offsets, rights
from hanabi.dashboard.parts import Parts
from hanabi.dashboard.security.guard import Guard
from hanabi.dashboard.web.routing import problem_page, routes

STATIC: Final = Path(__file__).parent / "static"
PAGES: Final = [
    *login.PAGES,
    *overview.PAGES,
    *topics.PAGES,
    *groups.PAGES,
    *brokers.PAGES,
    *history.PAGES,
    *alerts.PAGES,
    *pipelines.PAGES,
    *waiting.PAGES,
    *offsets.PAGES,
    *changes.PAGES,
    *messages.PAGES,
    *dead_letters.PAGES,
    *jobs.PAGES,
    *rights.PAGES,
    *users.PAGES,
]


def application(parts: Parts) -> ASGIApp:
    """Return the ASGI application of the dashboard."""

    async def http_error(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        sentence = {404: "There is no such page.", 405: "This page does not take that."}.get(status, "")
        return problem_page(request.scope, parts, status, sentence or "The request failed; the log says why.")

    def refuse(scope: Scope, status: int, sentence: str) -> Response:
        return problem_page(scope, parts, status, sentence)

    router = Starlette(
        routes=[*routes(PAGES, parts), Mount("/static", StaticFiles(directory=STATIC))],
        exception_handlers={HTTPException: http_error, Exception: http_error},
    )
    return GZipMiddleware(Guard(router, parts.config, parts.sessions, parts.audit, refuse), minimum_size=1_000)
