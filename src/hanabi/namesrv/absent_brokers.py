"""Brokers that were here and are missing: gone without unregistering, or replaced by one of their name and id. Pure.

A route table forgets such a broker at once, as clients must not be told of it; `hanabi doctor` asks for it here. It is
listed until it comes back, says goodbye, or was away for a week. Agrees with nothing in RocketMQ.
"""

from typing import Final, Literal

from hanabi.wire.bodies.absent import AbsentBroker

KEPT_MS: Final = 7 * 24 * 3_600_000
KEPT_MAX: Final = 256  # the latest

Why = Literal["gone", "replaced"]


class AbsentBrokers:
    """The brokers that are missing, by name, id and address."""

    def __init__(self) -> None:
        self._absent: dict[tuple[str, int, str], AbsentBroker] = {}

    def add(self, name: str, broker_id: int, address: str, why: Why, seen_ms: int) -> None:
        """Note a broker that is missing, with its last sign of life."""
        place = (name, broker_id, address)
        self._absent.pop(place, None)
        self._absent[place] = AbsentBroker(broker=name, broker_id=broker_id, address=address, why=why, seen_ms=seen_ms)
        if len(self._absent) > KEPT_MAX:
            del self._absent[next(iter(self._absent))]

    def came(self, name: str, broker_id: int, address: str) -> None:
        """Forget a broker that registers, and those of its name and id that are gone: it has taken their place."""
        same = [place for place in self._absent if place[:2] == (name, broker_id)]
        for place in same:
            if place[2] == address or self._absent[place].why == "gone":
                del self._absent[place]

    def left(self, name: str, address: str) -> None:
        """Forget a broker that says goodbye."""
        for place in [place for place in self._absent if (place[0], place[2]) == (name, address)]:
            del self._absent[place]

    def listed(self, now_ms: int) -> list[AbsentBroker]:
        """Return those of the last week."""
        return [absent for absent in self._absent.values() if absent.seen_ms + KEPT_MS >= now_ms]
