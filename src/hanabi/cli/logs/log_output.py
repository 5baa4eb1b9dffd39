"""The destination and format of log lines. Only the command line decides these; every other part just logs.

Much of what is logged was written by peers: names, addresses, remarks. So a message is one line, whatever is in it, of
bounded length, and a kind of line that is repeated without end is left out for the rest of its minute.
"""

import logging
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import TextIO

import msgspec

MESSAGE_CHARACTERS_MAX = 2_000  # the longest sentence of ours has 300, names included
TRACEBACK_CHARACTERS_MAX = 20_000  # some 150 frames
LINES_A_MINUTE_MAX = 1_000  # of one kind: a thousand brokers may all come back in one minute

# Whatever moves the cursor, ends a line somewhere, turns the direction of writing, or is no character (half of one is
# what Python makes of a path that is not UTF-8).
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNPRINTABLE_BUT_LINE_END = re.compile(_UNPRINTABLE.pattern.replace("\x00-\x1f", "\x00-\x09\x0b-\x1f"))

_COLOURS = {logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m", logging.CRITICAL: "\x1b[31m"}
_PLAIN = "\x1b[0m"


class LogLevel(StrEnum):
    """Levels of verbosity."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def on_one_line(text: str) -> str:
    """*text* so that it can do no more than be read: what is unprintable spelled out, what is too long cut off."""
    return _UNPRINTABLE.sub(_spelled_out, _cut(text, MESSAGE_CHARACTERS_MAX))


def _spelled_out(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"


def _traceback(record: logging.LogRecord) -> str | None:
    if not record.exc_info:
        return None
    text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
    return _UNPRINTABLE_BUT_LINE_END.sub(_spelled_out, _cut(text, TRACEBACK_CHARACTERS_MAX))


class TextFormatter(logging.Formatter):
    """One line of text; of a traceback every line is indented, so that nothing in it can pass for a line of its own."""

    def __init__(self, *, in_colour: bool = False) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: ")
        self._colours = _COLOURS if in_colour else {}

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - as the class above has it
        colour = self._colours.get(record.levelno)
        level = f"{colour}{record.levelname}{_PLAIN}" if colour else record.levelname
        return f"{record.asctime} {level} {record.name}: "

    def format(self, record: logging.LogRecord) -> str:
        record.asctime = self.formatTime(record)
        line = self.formatMessage(record) + on_one_line(record.getMessage())
        error = _traceback(record)
        return line if error is None else line + "".join(f"\n    {each}" for each in error.split("\n"))


class _Line(msgspec.Struct, omit_defaults=True):
    time: str
    level: str
    logger: str
    message: str
    error: str | None = None


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = _Line(time, record.levelname, record.name, on_one_line(record.getMessage()), _traceback(record))
        return msgspec.json.encode(line).decode()


class LineLimit:
    """Lets so many lines of one kind a minute pass, and then says how many it left out. A kind is a message's
    template."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._minute = 0
        self._lines: Counter[str] = Counter()

    def passes(self, record: logging.LogRecord) -> list[logging.LogRecord]:
        """Return what is to be written now: *record*, or nothing, and before it what was left out in the minute
        before."""
        records: list[logging.LogRecord] = []
        minute = int(self._now() // 60)
        if minute != self._minute:
            self._minute = minute
            records += self._left_out()
        kind = str(record.msg)[:MESSAGE_CHARACTERS_MAX]
        self._lines[kind] += 1
        if self._lines[kind] <= LINES_A_MINUTE_MAX:
            records.append(record)
        return records

    def _left_out(self) -> list[logging.LogRecord]:
        lines, self._lines = self._lines, Counter()
        message = "%d more lines of this kind were left out: %s"
        return [
            own_record(logging.WARNING, message, count - LINES_A_MINUTE_MAX, kind)
            for kind, count in lines.items()
            if count > LINES_A_MINUTE_MAX
        ]


def own_record(level: int, message: str, *arguments: object) -> logging.LogRecord:
    """Return a line about the log itself, for the writer of the log, which cannot log it."""
    return logging.LogRecord(__name__, level, __file__, 0, message, arguments, None)


class LimitedHandler(logging.StreamHandler[TextIO]):
    """Writes lines at once, as far as the limit of lines goes."""

    def __init__(self, stream: TextIO, *, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._limit = LineLimit(now)

    def emit(self, record: logging.LogRecord) -> None:
        for each in self._limit.passes(record):
            super().emit(each)


def configure_logging(level: LogLevel, *, as_json: bool) -> None:
    """Send every log line of this process to stderr, at once: for commands that end soon. Servers: `server_logs`."""
    handler = LimitedHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
