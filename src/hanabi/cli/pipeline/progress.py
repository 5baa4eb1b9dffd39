"""Progress of a run on stderr: a bar on a terminal, else a line a step."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hanabi.spark.pipelines.contract import Progress


class Lines:
    """For files and pipes: what is done now, one line each time it changes."""

    def __init__(self) -> None:
        self._last = ""

    def step(self, text: str) -> None:
        if text != self._last:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
            self._last = text

    def advance(self, done: int, total: int | None = None) -> None:
        """Progress that is not shown."""


class Bar:
    """For terminals."""

    def __init__(self, drawn: Any) -> None:
        self._drawn = drawn
        self._task = drawn.add_task("", total=None)

    def step(self, text: str) -> None:
        self._drawn.reset(self._task, description=text, total=None, completed=0)

    def advance(self, done: int, total: int | None = None) -> None:
        self._drawn.update(self._task, completed=done, total=total)


@contextmanager
def shown_progress() -> "Iterator[Progress]":
    if not sys.stderr.isatty():
        yield Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as drawn:
        yield Bar(drawn)
