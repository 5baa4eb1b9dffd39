"""How long it took until things went on after a fault. Counted, not judged."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from chaos.checks.ledger import Ledger


class Recovery(NamedTuple):
    """Seconds from the end of a fault to the first acknowledged send and the first delivery; None: there was none."""

    send_s: float | None
    delivery_s: float | None


class Pulse:
    """When something was acknowledged and delivered, by broker."""

    def __init__(self, ledger: Ledger) -> None:
        self._sends: dict[str, list[float]] = defaultdict(list)
        self._deliveries: dict[str, list[float]] = defaultdict(list)
        for ack in sorted(ledger.acknowledged.values(), key=lambda event: event.at):
            self._sends[ack.broker].append(ack.at)
        for delivery in ledger.deliveries():
            self._deliveries[delivery.broker].append(delivery.at)

    def after(self, moment: float, brokers: Iterable[str]) -> Recovery:
        """Return how long all of *brokers* took to go on after *moment*: the slowest of them counts."""
        names = list(brokers)
        return Recovery(
            _slowest([_next(self._sends[name], moment) for name in names]),
            _slowest([_next(self._deliveries[name], moment) for name in names]),
        )

    def longest_silence_s(self, start: float, end: float) -> float:
        """Return the longest time between *start* and *end* in which no broker acknowledged anything."""
        inside = sorted(at for several in self._sends.values() for at in several if start < at < end)
        edges = [start, *inside, end]
        return max(after - before for before, after in pairwise(edges))


def _next(moments: list[float], moment: float) -> float | None:
    index = bisect_right(moments, moment)
    return moments[index] - moment if index < len(moments) else None


def _slowest(waits: list[float | None]) -> float | None:
    known = [wait for wait in waits if wait is not None]
    return max(known) if known and len(known) == len(waits) else None
