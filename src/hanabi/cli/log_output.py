"""Where log lines go and how they look. Only the command line decides that; every other part just logs."""

import logging
import sys
import traceback
from datetime import UTC, datetime
from enum import StrEnum

import msgspec


class LogLevel(StrEnum):
    """How much is told."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class _Line(msgspec.Struct, omit_defaults=True):
    time: str
    level: str
    logger: str
    message: str
    error: str | None = None


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        error = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else None
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = _Line(time, record.levelname, record.name, record.getMessage(), error)
        return msgspec.json.encode(line).decode()


def configure_logging(level: LogLevel, *, as_json: bool) -> None:
    """Send every log line of this process to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    if as_json:
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
