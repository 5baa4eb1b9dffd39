"""One counter and its recent past: how many messages, bytes and calls in the last minute, hour and day.

Counting is three integer adds in place. The past is a few samples taken by `Sampler`, so that asking costs nothing
until somebody asks. Knows neither topics nor groups. Agrees with Java's StatsItem: the same number of samples a
window, the same first sample (zero, one step back), the same figures from the first and the last of them. But the sum
of an hour or a day goes up to now: in Java it lacks what came after the last sample, up to an hour.
"""

from array import array
from enum import Enum
from typing import Final, NamedTuple

_FIELDS: Final = 4  # of a sample: milliseconds, times, messages, bytes


class Window(Enum):
    """A stretch of the past: how far apart its samples are, and how many are kept."""

    MINUTE = (10_000, 7)
    HOUR = (600_000, 7)
    DAY = (3_600_000, 25)

    def __init__(self, step_ms: int, samples_max: int) -> None:
        self.step_ms = step_ms
        self.items_max = samples_max * _FIELDS


class Figures(NamedTuple):
    """What one counter did in a window. `average` is per call."""

    sum: int = 0
    tps: float = 0.0
    average: float = 0.0
    times: int = 0


class Tally:
    """Counts calls and what they carried. Add to the three numbers directly; they only ever grow."""

    __slots__ = ("_samples", "bytes", "messages", "phase", "times")

    def __init__(self, phase: int = 0) -> None:
        self.messages = 0
        self.bytes = 0
        self.times = 0
        self.phase = phase  # which tenth of the counters it is sampled with
        self._samples: dict[Window, array[int]] = {}

    def sample(self, window: Window, now_ms: int) -> None:
        """Remember what the numbers are now, and forget the oldest."""
        samples = self._samples.get(window)
        if samples is None:
            samples = self._samples[window] = array("q", (now_ms - window.step_ms, 0, 0, 0))
        samples.extend((now_ms, self.times, self.messages, self.bytes))
        if len(samples) > window.items_max:
            del samples[:_FIELDS]

    def message_figures(self, window: Window) -> Figures:
        """Return what the messages were in that window."""
        return self._figures(window, 2, self.messages)

    def byte_figures(self, window: Window) -> Figures:
        """Return what the bytes were in that window."""
        return self._figures(window, 3, self.bytes)

    def _figures(self, window: Window, field: int, now: int) -> Figures:
        samples = self._samples.get(window)
        if samples is None:  # younger than the first sample: of an hour or a day that is all there is
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
