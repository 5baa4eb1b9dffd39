"""The log of a server: stderr, and files next to its data.

with server_logs(LogLevel.INFO, as_json=False) as logs:     stderr from here on; lines for the file wait
    ...read settings, find the home...
    logs.open_file(home / "logs" / "broker.log")            written from here on, what waited first
"""

import errno
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from hanabi.cli.logs.log_file import FILE_BYTES_MAX, FILES_MAX, LogFile
from hanabi.cli.logs.log_output import JsonFormatter, LogLevel, TextFormatter, own_record
from hanabi.cli.logs.log_queue import QueuedHandler

_FULL_SECONDS = 0.05


class ServerLogs:
    """The handlers of one process."""

    def __init__(self, level: LogLevel, *, as_json: bool) -> None:
        self._as_json = as_json
        stderr = sys.stderr
        self._stderr = QueuedHandler("stderr", lambda lines: _write_text(stderr, lines))
        self._stderr.setFormatter(JsonFormatter() if as_json else TextFormatter(in_colour=_has_colours(stderr)))
        self._log_file: LogFile | None = None
        self._file = QueuedHandler("file", self._write_file, on_trouble=self._report)
        self._file.setFormatter(JsonFormatter() if as_json else TextFormatter())
        logging.basicConfig(level=level.upper(), handlers=[self._stderr, self._file], force=True)
        self._stderr.start()

    def open_file(self, path: Path, *, bytes_max: int = FILE_BYTES_MAX, files_max: int = FILES_MAX) -> None:
        """Write to *path* too, from here on. OSError if that cannot be, but for a full disk: it may get room."""
        self._log_file = LogFile(path, bytes_max=bytes_max, files_max=files_max)
        try:
            self._log_file.open()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
        self._file.start()

    def without_file(self) -> None:
        """Write no file."""
        logging.getLogger().removeHandler(self._file)

    def note_failure(self, sentence: str) -> None:
        """Write to the file why the server did not start, or ended; the caller prints it to the terminal."""
        if self._log_file is not None:
            self._file.handle(own_record(logging.ERROR, "%s", sentence))

    def close(self) -> None:
        for handler in (self._file, self._stderr):
            logging.getLogger().removeHandler(handler)
            handler.close()
        if self._log_file is not None:
            self._log_file.close()

    def _write_file(self, lines: bytes) -> None:
        if self._log_file is not None:
            self._log_file.write(lines)

    def _report(self, reason: str) -> None:
        if self._log_file is not None:
            message = "log file %s cannot be written, its lines are lost until it can be: %s"
            self._stderr.handle(own_record(logging.ERROR, message, self._log_file.path, reason))


class RelayedLines:
    """Lines that other processes logged, as they are, on stderr. Like all logging it never waits."""

    def __init__(self) -> None:
        stderr = sys.stderr
        self._handler = QueuedHandler("relay", lambda lines: _write_text(stderr, lines))
        self._handler.setFormatter(logging.Formatter("%(message)s"))
        self._handler.start()

    def write(self, line: str) -> None:
        """Write one line."""
        self._handler.handle(logging.makeLogRecord({"msg": line}))

    def close(self) -> None:
        """Write what waits, but do not wait long for it."""
        self._handler.close()


@contextmanager
def server_logs(level: LogLevel, *, as_json: bool) -> Iterator[ServerLogs]:
    """Logs until the end of the block, when what waits is written."""
    logs = ServerLogs(level, as_json=as_json)
    try:
        yield logs
    finally:
        logs.close()


def _write_text(stream: TextIO, lines: bytes) -> None:
    """Past the stream's own buffer, which would keep what cannot be written and fail with it again."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # no stream of the system: a program embeds us
        stream.write(lines.decode())
        stream.flush()
        return
    while lines:
        try:
            lines = lines[os.write(descriptor, lines) :]
        except BlockingIOError:  # a process that shares it made it so, and it is full
            time.sleep(_FULL_SECONDS)


def _has_colours(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
