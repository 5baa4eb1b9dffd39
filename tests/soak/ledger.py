"""Messages that are still expected: bounded by what is under way, so that it can run for hours."""


class Ledger:
    """Each message has a number. `outstanding` were acknowledged, or may be, and have not been consumed."""

    def __init__(self) -> None:
        self._next = 0
        self.outstanding: set[int] = set()
        self.acknowledged = self.in_doubt = self.refused = self.consumed = self.again = 0

    def begin(self) -> int:
        """Return a new number, for a message that is about to be sent."""
        self._next += 1
        self.outstanding.add(self._next)
        return self._next

    def stored(self) -> None:
        self.acknowledged += 1

    def failed(self, number: int, *, maybe_stored: bool) -> None:
        """Nobody must deliver it; if nobody knows whether it is stored, somebody may."""
        self.outstanding.discard(number)
        if maybe_stored:
            self.in_doubt += 1
        else:
            self.refused += 1

    def arrived(self, number: int) -> None:
        if number in self.outstanding:
            self.outstanding.discard(number)
            self.consumed += 1
        else:
            self.again += 1  # or one that was in doubt

    def __str__(self) -> str:
        return (
            f"{self.acknowledged} acknowledged, {self.consumed} consumed, {len(self.outstanding)} outstanding,"
            f" {self.again} again or in doubt, {self.in_doubt} without an answer, {self.refused} refused"
        )
