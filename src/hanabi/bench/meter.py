"""Counters of a measurement: in total, and since the last look. Reads no clock."""

from hanabi.bench.histogram import Histogram
from hanabi.bench.results import MEGABYTE, Failure, Second
from hanabi.errors import SendFailed


class Meter:
    """Messages, their bytes, their times, and those that failed."""

    def __init__(self, what: str, began: float) -> None:
        self.messages = self.body_bytes = self.failed = 0
        self.last = began  # when something was counted
        self._what, self._began = what, began
        self._times, self._recent = Histogram(), Histogram()
        self._failures: dict[str, Failure] = {}
        self._last_second = (began, 0, 0, 0)

    def add(self, now: float, seconds: float, messages: int, body_bytes: int) -> None:
        """*messages* were done at *now*, and took *seconds*."""
        self.messages += messages
        self.body_bytes += body_bytes
        self.last = now
        self._recent.add(round(seconds * 1e6))

    def fail(self, error: Exception, messages: int) -> None:
        reason = reason_of(error)
        known = self._failures.get(reason)
        self._failures[reason] = Failure(
            reason=reason,
            messages=messages + (known.messages if known else 0),
            example=known.example if known else str(error),
        )
        self.failed += messages

    @property
    def failures(self) -> list[Failure]:
        """The most frequent first."""
        return sorted(self._failures.values(), key=lambda failure: (-failure.messages, failure.reason))

    @property
    def times(self) -> Histogram:
        """All times."""
        self._times.merge(self._recent)
        self._recent = Histogram()
        return self._times

    def second(self, now: float) -> Second:
        """Return the counts since the last call."""
        before, messages, body_bytes, failed = self._last_second
        self._last_second = (now, self.messages, self.body_bytes, self.failed)
        per_second = 1 / max(now - before, 1e-9)
        p99_ms = self._recent.percentile(99) / 1000
        self._times.merge(self._recent)
        self._recent = Histogram()
        return Second(
            what=self._what,
            at_seconds=now - self._began,
            messages_per_second=(self.messages - messages) * per_second,
            megabytes_per_second=(self.body_bytes - body_bytes) / MEGABYTE * per_second,
            failed=self.failed - failed,
            p99_ms=p99_ms,
        )


def reason_of(error: Exception) -> str:
    """Return the kind of error, in a word; of a send that failed, that of its last try."""
    if isinstance(error, SendFailed) and error.attempts:
        error = error.attempts[-1].error
    return type(error).__name__
