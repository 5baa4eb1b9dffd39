"""Times of one connection, and the limits that follow from them. Pure: the caller brings the loop's clock.

idle      the peer has sent nothing                       the connection is closed
a frame   it has begun, and is not complete               it is dropped
stalled   the peer does not read what was written         it is dropped
closing   our last bytes were not taken                   it is cut off
silent    a server has not answered, nor sent anything    it is dropped
"""

from math import nextafter

from hanabi.remoting.config import RemotingConfig
from hanabi.remoting.connection.pending import CLOCK_STEP_SECONDS


class Deadlines:
    """The time at which the peer was last heard, and since when it owes something."""

    __slots__ = ("_unanswered_since", "_unheard", "closing_since", "frame_since", "last_active", "stalled_since")

    def __init__(self, now: float) -> None:
        self._unheard = nextafter(now, 0.0)  # before whatever is heard in this turn
        self.last_active = self._unheard  # what we write says nothing about the peer
        self._unanswered_since = 0.0  # when the first request began that timed out after that
        self.stalled_since = self.frame_since = self.closing_since = 0.0

    @property
    def is_unheard(self) -> bool:
        """True until the peer sends its first byte."""
        return self.last_active == self._unheard

    def extend_deadlines(self, seconds: float, now: float) -> None:
        """Extend all deadlines: the loop stalled for *seconds*."""
        self.last_active = min(now, self.last_active + seconds)
        self.frame_since = min(now, self.frame_since + seconds)
        self.stalled_since = min(now, self.stalled_since + seconds)
        self.closing_since = min(now, self.closing_since + seconds)

    def silent_seconds(self, began: float, now: float) -> float:
        """Return for how long the peer has been silent, as a request that began then has no answer; 0: it is not.

        Agrees with Java's closeSocketIfTimeout, but a peer that answers other requests keeps its connection.
        """
        if self._was_heard_after(began):
            return 0.0
        if self._was_heard_after(self._unanswered_since):
            self._unanswered_since = began
        return now - self._unanswered_since

    def why_drop(self, now: float, config: RemotingConfig, *, is_stalled: bool, unsent: int, held: int) -> str | None:
        """Return why an open connection is dropped; None if it is not."""
        if is_stalled:
            if now - self.stalled_since >= config.stalled_peer_seconds:
                return f"has not read for {config.stalled_peer_seconds:g} s, {unsent} bytes wait for it"
        elif held and now - self.frame_since >= config.frame_seconds_max:
            return f"a frame is not complete after {config.frame_seconds_max:g} s"
        return None

    def _was_heard_after(self, moment: float) -> bool:
        """Return whether the peer sent a byte after *moment*. What the clock cannot tell apart came before."""
        return self.last_active > moment + CLOCK_STEP_SECONDS
