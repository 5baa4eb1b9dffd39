"""The report of a run: a file of JSON that is written while the run goes on, and at its end. The dashboard shows it.

It has no options, which may hold secrets.
"""

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hanabi.errors import ConfigError

if TYPE_CHECKING:
    from hanabi.spark.pipelines.contract import Outcome, Progress

EVERY_S = 2.0
ROWS_MAX = 500  # of a table


class Report:
    """The file of one run."""

    def __init__(self, folder: Path, pipeline: str) -> None:
        began = time.time()
        self._values: dict[str, Any] = {
            "version": 1,
            "pipeline": pipeline,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "began": int(began * 1000),
            "state": "running",
            "step": "",
            "done": 0,
            "total": None,
        }
        stamp = datetime.fromtimestamp(began, UTC).strftime("%Y%m%dT%H%M%S")
        self._path = folder / f"{stamp}-{pipeline}-{secrets.token_hex(3)}.json"
        self._lock = threading.Lock()
        self._written = 0.0
        self._write()

    def note(self, *, at_once: bool = False, **values: Any) -> None:
        """Take news of the run; the file gets them every two seconds, and at a new step."""
        with self._lock:
            self._values.update(values)
            if at_once or time.monotonic() - self._written > EVERY_S:
                self._write()

    def ended(self, outcome: "Outcome") -> None:
        """Take the result."""
        tables = [{**msgspec.to_builtins(table), "rows": table.rows[:ROWS_MAX]} for table in outcome.tables]
        state = "done" if outcome.complaint is None else "complaint"
        self.note(at_once=True, state=state, facts=outcome.facts, tables=tables, complaint=outcome.complaint)

    def _write(self) -> None:
        self._values["seen"] = int(time.time() * 1000)
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text(json.dumps(self._values, default=str))
        temporary.replace(self._path)
        self._written = time.monotonic()


class Reported:
    """Progress that goes to the report, too."""

    def __init__(self, report: Report, shown: "Progress") -> None:
        self._report, self._shown = report, shown

    def step(self, text: str) -> None:
        self._shown.step(text)
        self._report.note(at_once=True, step=text, done=0, total=None)

    def advance(self, done: int, total: int | None = None) -> None:
        self._shown.advance(done, total)
        self._report.note(done=done, total=total)


@contextmanager
def reported(folder: Path | None, pipeline: str, shown: "Progress") -> "Iterator[tuple[Progress, Report | None]]":
    """Provide the progress of a run, with a report if a folder is named; a failure is in the report, too."""
    if folder is None:
        yield shown, None
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        report = Report(folder, pipeline)
    except OSError as error:
        raise ConfigError(f"--report {folder} cannot be written: {error.strerror or error}") from error
    try:
        yield Reported(report, shown), report
    except BaseException as error:
        state = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        report.note(at_once=True, state=state, complaint=f"{error}"[:2_000])
        raise
