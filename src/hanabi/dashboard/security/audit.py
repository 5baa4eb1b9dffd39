"""The audit log: one JSON line for each login, refusal and change, in a file with one predecessor."""

import logging
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

logger = logging.getLogger(__name__)

FILE_BYTES_MAX: Final = 8 << 20
SHOWN_MAX: Final = 1_000
TEXT_MAX: Final = 2_000


class AuditEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event. `detail` says what changed, old and new."""

    time_ms: int
    user: str
    address: str
    action: str
    subject: str = ""
    verdict: str = "done"
    detail: str = ""


class Audit:
    """Events, the newest of them in memory for the page."""

    def __init__(self, path: Path, now_ms: Callable[[], int]) -> None:
        self._path, self._now_ms = path, now_ms
        self.newest: deque[AuditEvent] = deque(_tail(path), maxlen=SHOWN_MAX)

    def note(
        self, user: str, address: str, action: str, subject: str = "", verdict: str = "done", detail: str = ""
    ) -> None:
        """Write an event. An event that cannot be written is in the log of the process."""
        event = AuditEvent(
            time_ms=self._now_ms(),
            user=user[:TEXT_MAX],
            address=address,
            action=action,
            subject=subject[:TEXT_MAX],
            verdict=verdict[:TEXT_MAX],
            detail=detail[:TEXT_MAX],
        )
        self.newest.append(event)
        try:
            self._write(msgspec.json.encode(event) + b"\n")
        except OSError as error:
            logger.error("audit event cannot be written to %s (%s): %s", self._path, error.strerror, event)

    def _write(self, line: bytes) -> None:
        if self._path.exists() and self._path.stat().st_size > FILE_BYTES_MAX:
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        with os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
            file.write(line)


def _tail(path: Path) -> list[AuditEvent]:
    """Return the newest events of the file; a line that was cut by a crash is left out."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - SHOWN_MAX * 400, 0))
        lines = file.read().splitlines()
    events = []
    for line in lines[-SHOWN_MAX:]:
        try:
            events.append(msgspec.json.decode(line, type=AuditEvent))
        except msgspec.DecodeError:
            continue
    return events
