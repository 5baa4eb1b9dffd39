"""Checks of data received on a replication connection. Pure: no socket, no clock, no log line.

A refusal closes the connection. Its text says what happened and what an operator can do; its kind labels a metric.
Apache's master sends heartbeats for ever to a slave that it cannot serve (#3388), and counts acknowledgements of bytes
that it does not have (#1155, #3015); Apache's slave goes on with a master whose log it does not share (#6767).
"""

from enum import StrEnum
from typing import Final, NamedTuple


class RefusalKind(StrEnum):
    """Reason of a refused connection; the label of the metric."""

    ADDRESS = "address"  # the peer is not in the list of allowed addresses
    TLS = "tls"  # the TLS handshake failed
    CONNECTIONS = "connections"  # too many connections
    SILENT = "silent"  # nothing was heard for the housekeeping interval
    NOT_A_SLAVE = "not_a_slave"  # it sent something other than reports
    BELOW_START = "below_start"  # the log no longer has the bytes that the slave needs
    BEYOND_END = "beyond_end"  # the slave has more than the master
    ACK_BEYOND_SENT = "ack_beyond_sent"
    ACK_BACKWARDS = "ack_backwards"
    NOT_A_MASTER = "not_a_master"  # it sent something other than pieces
    OTHER_OFFSET = "other_offset"  # the piece does not continue the slave's log
    DIVERGED = "diverged"  # the content of the piece does not continue the slave's log
    NOT_COMPARED = "not_compared"  # the master does not have the end of the slave's log
    STORE = "store"  # the slave's disk or files refuse the bytes


class Refusal(NamedTuple):
    """A verdict against the peer."""

    kind: RefusalKind
    text: str


class LogRange(NamedTuple):
    """Extent of a log: the bytes from *start* to *end*, in files of *file_bytes*."""

    start: int
    end: int
    file_bytes: int

    @property
    def last_file(self) -> int:
        """Return the start of the last file; the end itself if the last file is full."""
        return self.end - self.end % self.file_bytes


_REPAIR: Final = "stop the slave, empty its store, and let it copy the log again"
COMPARE: Final = f"Compare both logs, and mappedFileSizeCommitLog of both brokers; to follow this master, {_REPAIR}"
_NO_LOG_IS_LONGER: Final = 1 << 56  # 64 PiB: beyond it begin HTTP, TLS and other protocols


def start_position(report: int, log: LogRange) -> int | Refusal:
    """Return where to start sending to a slave whose first report is *report*.

    An empty slave reports 0 and gets the last file only: older ones are not copied. Agrees with HAConnection.
    """
    if report == 0:
        return max(log.last_file, log.start)
    if report < 0 or report > log.end:
        return _beyond(report, log)
    if report < log.start:
        return Refusal(
            RefusalKind.BELOW_START,
            f"it asks for the log from {report} on, but the oldest file here begins at {log.start}: {_REPAIR}",
        )
    return report


def _beyond(report: int, log: LogRange) -> Refusal:
    """Distinguish a peer of another protocol from a slave that has more than its master."""
    if not 0 <= report < _NO_LOG_IS_LONGER:
        opening = report.to_bytes(8, "big", signed=True)
        return Refusal(RefusalKind.NOT_A_SLAVE, f"its first bytes {opening!r} are no position in a log: it is no slave")
    return Refusal(
        RefusalKind.BEYOND_END,
        f"it asks for the log from {report} on, but the log here ends at {log.end}: it follows another master, or this "
        f"master has lost the end of its log. Compare both logs; to go on with this one, {_REPAIR}",
    )


def check_acknowledgement(report: int, *, previous: int, sent: int) -> Refusal | None:
    """Check a later report of a slave that has been sent everything below *sent*."""
    if report > sent:
        return Refusal(
            RefusalKind.ACK_BEYOND_SENT, f"it acknowledges the log up to {report}, but was sent it up to {sent} only"
        )
    if report < previous:
        return Refusal(RefusalKind.ACK_BACKWARDS, f"it acknowledges {report} after {previous}: has its log been cut?")
    return None


def check_piece(offset: int, size: int, *, own_end: int, file_bytes: int) -> Refusal | None:
    """Check that a piece or a heartbeat of the master continues the slave's log, which ends at *own_end*.

    An empty log may begin with any file of the master's.
    """
    if own_end == 0 and offset % file_bytes:
        return Refusal(
            RefusalKind.OTHER_OFFSET,
            f"it starts at {offset}, where no file of {file_bytes} bytes begins: "
            "mappedFileSizeCommitLog must be the same on both sides",
        )
    if own_end in (0, offset):
        return None
    what = "sends bytes for" if size else "is at"
    return Refusal(
        RefusalKind.OTHER_OFFSET,
        f"it {what} offset {offset}, but the log here ends at {own_end}: the two logs differ. {COMPARE}",
    )
