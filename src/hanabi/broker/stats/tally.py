"""One counter with its history: messages, bytes and calls in the last minute, hour and day.

Counting is three integer adds in place. The history is a few samples taken by `Sampler`; figures are computed on
demand. Does not know topics or groups. Agrees with Java's StatsItem: the same number of samples per window, the same
first sample (zero, one step back), the same figures from the first and the last of them. But the sum of an hour or a
day extends to now: in Java it lacks everything after the last sample, up to an hour.
"""

from array import array
from enum import Enum
from typing import Final, NamedTuple

_FIELDS: Final = 4  # of a sample: milliseconds, times, messages, bytes


class Window(Enum):
    """A time window: the distance of its samples, and their number."""

    MINUTE = (10_000, 7)
    HOUR = (600_000, 7)
    DAY = (3_600_000, 25)

    def __init__(self, step_ms: int, samples_max: int) -> None:
        self.step_ms = step_ms
        self.items_max = samples_max * _FIELDS


class Figures(NamedTuple):
    """Figures of one counter in a window. `average` is per call."""

    sum: int = 0
    tps: float = 0.0
    average: float = 0.0
    times: int = 0


class Tally:
    """Counter of calls, messages and bytes. Add to the three numbers directly; they only grow."""

    __slots__ = ("_samples", "bytes", "messages", "phase", "times")

    def __init__(self, phase: int = 0) -> None:
        self.messages = 0
        self.bytes = 0
        self.times = 0
        self.phase = phase  # the tenth of the counters that it is sampled with
        self._samples: dict[Window, array[int]] = {}

    def sample(self, window: Window, now_ms: int) -> None:
        """Store the current numbers as a sample, and drop the oldest."""
        samples = self._samples.get(window)
        if samples is None:
            samples = self._samples[window] = array("q", (now_ms - window.step_ms, 0, 0, 0))
        samples.extend((now_ms, self.times, self.messages, self.bytes))
        if len(samples) > window.items_max:
            del samples[:_FIELDS]

    def message_figures(self, window: Window) -> Figures:
        """Return the message figures of the window."""
        return self._figures(window, 2, self.messages)

    def byte_figures(self, window: Window) -> Figures:
        """Return the byte figures of the window."""
        return self._figures(window, 3, self.bytes)

    def _figures(self, window: Window, field: int, now: int) -> Figures:
        samples = self._samples.get(window)
        if samples is None:  # younger than the first sample of an hour or a day: count from its creation
            return Figures() if window is Window.MINUTE else Figures(sum=now, times=self.times)
        last = len(samples) - _FIELDS
        span_ms = samples[last] - samples[0]
        times = samples[last + 1] - samples[1]
        total = samples[last + field] - samples[field]
        return Figures(
            sum=total if window is Window.MINUTE else now - samples[field],
            tps=total * 1000 / span_ms if span_ms > 0 else 0.0,
            average=total / times if times > 0 else 0.0,
            times=times,
        )
