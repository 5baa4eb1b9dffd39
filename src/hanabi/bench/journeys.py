"""A record of messages sent, acknowledged and received. Pure: the caller brings the time."""

from collections import Counter


class Journeys:
    """The messages of one measurement, by number."""

    def __init__(self) -> None:
        self.begun: list[float] = []
        self._outstanding: set[int] = set()  # acknowledged, and not there yet
        self._arrivals: Counter[int] = Counter()

    def begin(self, at: float) -> int:
        """Return the number of the message that is sent now."""
        self.begun.append(at)
        return len(self.begun) - 1

    def acknowledged(self, number: int) -> None:
        if number not in self._arrivals:  # which may be faster than the answer
            self._outstanding.add(number)

    def arrived(self, number: int) -> bool:
        """Return true: for the first time."""
        self._outstanding.discard(number)
        self._arrivals[number] += 1
        return self._arrivals[number] == 1

    @property
    def received(self) -> int:
        """Messages, each counted once."""
        return len(self._arrivals)

    @property
    def duplicated(self) -> int:
        """Arrivals beyond the first of a message."""
        return self._arrivals.total() - len(self._arrivals)

    @property
    def missing(self) -> int:
        """Acknowledged, and not there."""
        return len(self._outstanding)
