"""Progress of a master's slaves. Pure: the caller passes moments in seconds of one clock.

The wire names no slave, so a slave is its connection. Positions only grow while a connection lives.
"""

from collections.abc import Collection, Iterable

import msgspec


class SlaveProgress(msgspec.Struct, kw_only=True, eq=False):
    """State of one slave that has asked for a position.

    `held` counts for lag and for being in sync: it begins with the position from which the master sends. `acked` counts
    for puts: a first report is a request and no acknowledgement.
    """

    address: str
    reported: int  # the last report as it came; an empty slave repeats 0 until it has the first bytes
    held: int
    sent: int  # the next byte to send
    heard_at: float
    caught_up_at: float  # the last moment at which the slave held everything
    acked: int = 0
    transferred_bytes: int = 0

    def acknowledge(self, offset: int, *, end: int, now: float) -> None:
        """Record a report that `check_acknowledgement` has accepted; the log ends at *end*."""
        self.reported = self.acked = offset
        self.held = max(self.held, offset)
        self.heard_at = now
        if offset >= end:
            self.caught_up_at = now

    def lag_bytes(self, end: int) -> int:
        """Return the lag of the slave in bytes."""
        return max(end - self.held, 0)

    def lag_seconds(self, end: int, now: float) -> float:
        """Return for how long the slave has lagged; 0 if it holds everything."""
        return max(now - self.caught_up_at, 0.0) if self.held < end else 0.0


def is_in_sync(slave: SlaveProgress, end: int, gap_bytes_max: int) -> bool:
    """Return whether *slave* is less than *gap_bytes_max* behind (haSlaveFallbehindMax, haMaxGapNotInSync)."""
    return end - slave.held < gap_bytes_max


def in_sync_slaves(slaves: Iterable[SlaveProgress], end: int, gap_bytes_max: int) -> list[SlaveProgress]:
    """Return the slaves that are in sync with a log that ends at *end*."""
    return [slave for slave in slaves if is_in_sync(slave, end, gap_bytes_max)]


def acked_by(slaves: Collection[SlaveProgress], count: int) -> int:
    """Return the offset up to which at least *count* slaves have acknowledged the log; 0 if fewer have."""
    if count == 1:  # the usual case, on the hot path of acknowledgements
        return max((slave.acked for slave in slaves), default=0)
    if not 0 < count <= len(slaves):
        return 0
    return sorted((slave.acked for slave in slaves), reverse=True)[count - 1]


class AckMark:
    """The offset that *count* slaves have acknowledged. It never falls: a slave's acknowledgements outlive its
    connection. Agrees with push2SlaveMaxOffset."""

    def __init__(self, count: int) -> None:
        self.count, self.offset = count, 0

    def advance(self, slaves: Collection[SlaveProgress]) -> bool:
        """Apply new acknowledgements; return whether the mark has moved."""
        offset = acked_by(slaves, self.count)
        if offset <= self.offset:
            return False
        self.offset = offset
        return True
