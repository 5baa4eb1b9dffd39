"""The audit log: one line of JSON for each refusal and each administrative change, written by a thread.

Writing never blocks the caller: a line that finds the queue full is counted and not written. A full file becomes
NAME.1, that one NAME.2, and so on; the oldest is deleted.
"""

import logging
import queue
import threading
from pathlib import Path
from typing import BinaryIO, Final

from hanabi.access.audit_line import Line, encode_line

LINES_WAITING_MAX: Final = 10_000
_TOGETHER_MAX: Final = 1_000
_PRIVATE: Final = 0o600

logger = logging.getLogger(__name__)


class AuditLog:
    """One log. `written` and `lost` count its lines."""

    def __init__(self, path: Path, *, file_bytes_max: int, files_max: int) -> None:
        self.path = path
        self._file_bytes_max, self._files_max = file_bytes_max, max(files_max, 2)
        self._waiting: queue.Queue[Line | None] = queue.Queue(LINES_WAITING_MAX)
        self._file: BinaryIO | None = None
        self._thread = threading.Thread(target=self._run, name="audit log", daemon=True)
        self._failure = ""  # the last one, so that each is logged once
        self.written = self.lost = 0

    def start(self) -> None:
        """Open the file and start the thread; raise OSError if it cannot be written."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._opened()
        self._thread.start()

    def write(self, line: Line) -> None:
        """Take a line, to be written soon."""
        try:
            self._waiting.put_nowait(line)
        except queue.Full:
            self.lost += 1

    def stop(self) -> None:
        """Write what waits, and close."""
        if self._thread.is_alive():
            self._waiting.put(None)
            self._thread.join()
        if self._file is not None:
            self._file.close()

    def _run(self) -> None:
        while (line := self._waiting.get()) is not None:
            lines, is_last = self._together(line)
            self._append(lines)
            if is_last:
                return

    def _together(self, first: Line) -> tuple[list[Line], bool]:
        """Return the lines that wait, and whether the end is behind them."""
        lines = [first]
        while len(lines) < _TOGETHER_MAX and not self._waiting.empty():
            line = self._waiting.get()
            if line is None:
                return lines, True
            lines.append(line)
        return lines, False

    def _append(self, lines: list[Line]) -> None:
        try:
            if self._file is None or self._file.tell() >= self._file_bytes_max:
                self._rotate()
            if self._file is not None:
                self._file.write(b"".join(map(encode_line, lines)))
                self._file.flush()
            self.written += len(lines)
            self._failure = ""
        except (OSError, ValueError, TypeError) as error:
            self.lost += len(lines)
            if str(error) != self._failure:
                self._failure = str(error)
                logger.error("%s: lines of the audit log are lost: %s", self.path, error)

    def _rotate(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        for number in range(self._files_max - 1, 0, -1):
            older = self._numbered(number - 1)
            if older.exists():
                older.replace(self._numbered(number))
        self._file = self._opened()

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path

    def _opened(self) -> BinaryIO:
        file = self.path.open("ab")
        self.path.chmod(_PRIVATE)
        return file
