"""Pipelines: runs of `hanabi pipeline run --report DIR`, seen by their reports."""

import asyncio
from pathlib import Path
from typing import Any, Final

import msgspec
from starlette.responses import Response

from hanabi.dashboard.web.routing import PageRoute
from hanabi.dashboard.web.visit import Visit
from hanabi.errors import QueryNotFound

SHOWN_MAX: Final = 200
BYTES_MAX: Final = 2 << 20
SILENT_MS: Final = 60_000  # a run that goes on writes its report more often


class RunTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table of a result."""

    title: str
    columns: list[str]
    rows: list[list[Any]]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run, as its report tells it."""

    pipeline: str
    began: int
    seen: int
    state: str
    host: str = ""
    pid: int = 0
    step: str = ""
    done: int = 0
    total: int | None = None
    complaint: str | None = None
    facts: dict[str, Any] = {}
    tables: list[RunTable] = []

    def state_at(self, now_ms: int) -> str:
        """Return the state; a run without news for a minute is silent, since its process may be gone."""
        return "silent" if self.state == "running" and now_ms - self.seen > SILENT_MS else self.state


def runs_in(folder: Path) -> tuple[dict[str, Run], int]:
    """Return the newest runs by the names of their files, and how many files are no reports."""
    found: dict[str, Run] = {}
    bad = 0
    files = sorted((path for path in folder.glob("*.json") if path.is_file()), reverse=True)
    for path in files[:SHOWN_MAX]:
        try:
            if path.stat().st_size > BYTES_MAX:
                raise ValueError("too large")
            found[path.stem] = msgspec.json.decode(path.read_bytes(), type=Run)
        except (OSError, ValueError, msgspec.DecodeError):
            bad += 1
    return found, bad


async def listing(visit: Visit) -> Response:
    """Show the runs, the newest first."""
    folder = visit.parts.config.pipelines
    runs, bad = await asyncio.to_thread(runs_in, folder) if folder is not None else ({}, 0)
    return visit.page("pipelines.html", runs=runs, bad=bad, folder=folder, now=visit.parts.now_ms())


async def run(visit: Visit) -> Response:
    """Show one run. Its name must be one of the list: no path is made of it."""
    folder, name = visit.parts.config.pipelines, visit.name("name")
    runs, _ = await asyncio.to_thread(runs_in, folder) if folder is not None else ({}, 0)
    if name not in runs:
        raise QueryNotFound("there is no such run")
    return visit.page("pipeline.html", name=name, run=runs[name], now=visit.parts.now_ms())


PAGES = [PageRoute("/pipelines", listing, local=True), PageRoute("/pipelines/{name}", run, local=True)]
