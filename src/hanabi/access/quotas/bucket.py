"""A token bucket: an allowance that grows with time and may be overdrawn. Pure: the caller brings the clock."""


class Bucket:
    """An allowance of *rate* a second, of which at most one second's worth is kept.

    A caller may take more than there is, once: a message that is larger than the allowance of a second would else never
    pass. It then owes the rest.
    """

    __slots__ = ("_at", "_left", "rate")

    def __init__(self, rate: int, now: float) -> None:
        self.rate, self._left, self._at = rate, float(rate), now

    def owed_seconds(self, now: float) -> float:
        """Return how long it takes until nothing is owed; 0 if nothing is."""
        if now > self._at:
            self._left = min(self._left + (now - self._at) * self.rate, self.rate)
            self._at = now
        return -self._left / self.rate if self._left < 0 else 0.0

    def take(self, amount: int) -> None:
        """Take *amount*, whether it is there or not."""
        self._left -= amount
