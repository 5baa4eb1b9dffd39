"""Log lines on their way to a slow target: a full disk, a stopped terminal, a pipe that is not read.

    event loop ─> format ─> queue, bounded ─> thread ─> stderr, or a file

Logging never waits. What does not fit into the queue, or could not be written, is counted, and the count is told
when lines get through again. Tries again once a second, so nothing here ends the serving.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from hanabi.cli.logs.log_output import LineLimit, own_record

LINES_WAITING_MAX: Final = 10_000
LINES_A_WRITE_MAX: Final = 200  # so that a file is hardly longer than it may be
RETRY_SECONDS: Final = 1.0
LAST_WORDS_SECONDS: Final = 2.0  # to write what waits when the process ends

Write = Callable[[bytes], None]


class QueuedHandler(logging.Handler):
    """Hands lines to *write*, in a thread of its own, from `start` to `close`; until then they wait.

    *on_trouble* hears once of each trouble: one sentence. It must not log.
    """

    def __init__(
        self,
        name: str,
        write: Write,
        *,
        on_trouble: Callable[[str], None] | None = None,
        lines_max: int = LINES_WAITING_MAX,
        retry_seconds: float = RETRY_SECONDS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._write, self._on_trouble, self._lines_max, self._retry_seconds = (
            write,
            on_trouble,
            lines_max,
            retry_seconds,
        )
        self._limit = LineLimit(now)
        self._lines: deque[str] = deque()
        self._lost = 0
        self._trouble = ""
        self._is_closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"hanabi-log-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            lines = [self.format(each) + "\n" for each in self._limit.passes(record)]
        except Exception:  # noqa: BLE001 - arguments that do not fit the message: the way of `logging` itself
            self.handleError(record)
            return
        with self._changed:
            for line in lines:
                if len(self._lines) >= self._lines_max:
                    self._lost += 1
                else:
                    self._lines.append(line)
            self._changed.notify()

    def close(self) -> None:
        """Write what waits, but do not wait long for it."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(LAST_WORDS_SECONDS)
        super().close()

    # In the thread

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._lines and not self._lost and not self._is_closed:
                    self._changed.wait()
                lines = [self._lines.popleft() for _ in range(min(len(self._lines), LINES_A_WRITE_MAX))]
                lost, self._lost = self._lost, 0
                if not lines and not lost:
                    return
            if not self._get_through(lines, lost):
                with self._changed:
                    if self._is_closed:
                        return
                    self._lost += lost + len(lines)
                    self._changed.wait_for(lambda: self._is_closed, self._retry_seconds)

    def _get_through(self, lines: list[str], lost: int) -> bool:
        if lost:
            reason = self._trouble or "they came faster than they could be written"
            lines = [
                self.format(own_record(logging.WARNING, "%d lines were lost here: %s", lost, reason)) + "\n",
                *lines,
            ]
        try:
            self._write("".join(lines).encode("utf-8", "backslashreplace"))
        except (OSError, ValueError) as error:  # a closed stream is a ValueError
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            if reason != self._trouble:
                self._trouble = reason
                if self._on_trouble is not None:
                    self._on_trouble(reason)
            return False
        self._trouble = ""
        return True
