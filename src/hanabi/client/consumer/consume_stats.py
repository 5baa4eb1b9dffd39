"""Consumption rates of a consumer's topics, as shown by `mqadmin consumerStatus`. Pure: the time is a parameter.

Agrees with Java's ConsumerStatsManager in meaning: rates and times of the last minute, failures of the last hour.
"""

from collections import deque
from typing import Final

import msgspec

from hanabi.wire.bodies.clients import ConsumeStatus

SAMPLE_S: Final = 10.0
MINUTE_S: Final = 60.0
HOUR_S: Final = 3_600.0


class Totals(msgspec.Struct):
    """Counters since the start."""

    pulls: int = 0
    pull_s: float = 0.0
    pulled: int = 0
    batches: int = 0
    consume_s: float = 0.0
    succeeded: int = 0
    failed: int = 0


class TopicStats:
    """Statistics of one topic: add to `totals`, and `sample` periodically."""

    def __init__(self, now: float) -> None:
        self.totals = Totals()
        self._samples: deque[tuple[float, Totals]] = deque([(now, Totals())])

    def sample(self, now: float) -> None:
        """Remember the current totals. Calls more frequent than every ten seconds have no effect."""
        if now - self._samples[-1][0] < SAMPLE_S:
            return
        self._samples.append((now, msgspec.structs.replace(self.totals)))
        while len(self._samples) > 1 and now - self._samples[1][0] >= HOUR_S:
            self._samples.popleft()

    def status(self, now: float) -> ConsumeStatus:
        """Return the figures of the last minute, or since the start if that is shorter."""
        began, before = self._before(now, MINUTE_S)
        _, an_hour_ago = self._before(now, HOUR_S)
        seconds = max(now - began, 1.0)
        totals = self.totals
        return ConsumeStatus(
            pull_rt=_average(totals.pull_s - before.pull_s, totals.pulls - before.pulls),
            pull_tps=(totals.pulled - before.pulled) / seconds,
            consume_rt=_average(totals.consume_s - before.consume_s, totals.batches - before.batches),
            consume_ok_tps=(totals.succeeded - before.succeeded) / seconds,
            consume_failed_tps=(totals.failed - before.failed) / seconds,
            consume_failed_msgs=totals.failed - an_hour_ago.failed,
        )

    def _before(self, now: float, seconds: float) -> tuple[float, Totals]:
        return next((sample for sample in reversed(self._samples) if now - sample[0] >= seconds), self._samples[0])


def _average(seconds: float, count: int) -> float:
    """Return the average in milliseconds."""
    return 1_000 * seconds / count if count else 0.0


class ConsumeStats:
    """Statistics of all topics of a consumer."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicStats] = {}

    def of(self, topic: str, now: float) -> TopicStats:
        """Return the statistics of *topic*, created on first use."""
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = TopicStats(now)
        return found

    def sample(self, now: float) -> None:
        for topic in self._topics.values():
            topic.sample(now)
