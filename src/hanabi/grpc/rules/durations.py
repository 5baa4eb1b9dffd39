"""Times of requests: timestamps and durations as milliseconds, the header `grpc-timeout`, the time of a long poll."""

from typing import Any, Final

from hanabi.grpc.proto.numbers import Code
from hanabi.grpc.rules.faults import CallRefused

POLL_MS_MIN: Final = 5_000
POLL_MS_MAX: Final = 20_000
INVISIBLE_MS_MIN: Final = 10_000
INVISIBLE_MS_MAX: Final = 12 * 3_600_000
RENEWED_MS: Final = 60_000  # of a message whose invisible time the server renews
_ANSWER_MS: Final = 200  # of the deadline, for the way back

_UNITS: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}


def timeout_seconds(text: str | None) -> float | None:
    """Return the seconds of a header `grpc-timeout`; None if there is none or it is damaged."""
    if not text or text[-1] not in _UNITS or not text[:-1].isdecimal() or len(text) > 9:
        return None
    return int(text[:-1]) * _UNITS[text[-1]]


def milliseconds(value: Any) -> int:
    """Return the milliseconds of a Timestamp or a Duration."""
    seconds: int = value.seconds
    nanos: int = value.nanos
    return seconds * 1000 + nanos // 1_000_000


def set_milliseconds(value: Any, ms: int) -> None:
    """Set a Timestamp or a Duration."""
    value.seconds, value.nanos = ms // 1000, ms % 1000 * 1_000_000


def poll_ms(asked_ms: int | None, left_ms: float | None) -> int:
    """Return how long a receive waits: as asked, within the limits and the time that the client leaves."""
    wait = min(max(asked_ms if asked_ms is not None else POLL_MS_MAX, POLL_MS_MIN), POLL_MS_MAX)
    if left_ms is None:
        return wait
    if left_ms < POLL_MS_MIN:
        raise CallRefused(
            Code.ILLEGAL_POLLING_TIME,
            f"the deadline of the call leaves {left_ms:.0f} ms, a receive needs {POLL_MS_MIN} ms",
        )
    return int(min(wait, left_ms - _ANSWER_MS))


def invisible_ms(asked_ms: int, least_ms: int) -> int:
    """Return an invisible time that is within the limits."""
    if not least_ms <= asked_ms <= INVISIBLE_MS_MAX:
        raise CallRefused(
            Code.ILLEGAL_INVISIBLE_TIME,
            f"an invisible time of {asked_ms} ms is not between {least_ms} ms and {INVISIBLE_MS_MAX} ms",
        )
    return asked_ms
