"""Comparison of the ends of two logs, before a slave appends anything of a master.

    slave's log    ... │ message │ last message │
    master's log   ... │ message │ last message │ new messages ...
                                 └ the slave asks for the log from here on, not from its end

A master that has lost the end of its log (a power cut) and has taken other messages since may be longer than its slave,
and a message may begin exactly where the slave's log ends: nothing in the protocol shows that the logs differ. So the
master has to send the slave's last message once more, which costs one message a connection and works with Apache's
masters, too. Each message has its place and its store time, so that two equal ones at one place are the same message.
"""

from typing import Final, Protocol

from hanabi.replication.rules.verdicts import COMPARE, Refusal, RefusalKind, check_piece
from hanabi.replication.wire import Piece

_HEARTBEATS_MAX: Final = 2  # Apache's master may send one before it begins


class ComparedLog(Protocol):
    """Log of a slave whose end is compared."""

    @property
    def end_offset(self) -> int:
        """Offset of the next byte to be written; 0 for an empty log."""

    @property
    def compared_from(self) -> int:
        """Where the last message begins; never 0, which asks for the master's last file, unless the log is empty."""

    @property
    def file_bytes(self) -> int:
        """Size of each of its files (mappedFileSizeCommitLog)."""

    def slice(self, offset: int, bytes_max: int) -> memoryview | None:
        """Return the bytes at *offset*, at most *bytes_max* and of one file, without a copy; None outside the log."""


class Overlap:
    """The end of a slave's log that a master sends again. `position` is the end of what was compared."""

    def __init__(self, log: ComparedLog) -> None:
        self._log = log
        self.start = self.position = log.compared_from
        self._end = log.end_offset
        self._heartbeats = 0  # since the last byte

    @property
    def is_over(self) -> bool:
        """Return whether all bytes were compared, and are equal."""
        return self.position >= self._end

    def compare(self, pieces: list[Piece]) -> list[Piece] | Refusal:
        """Compare *pieces* with the log; return those that continue it, or the reason why the master is refused."""
        for number, (offset, data) in enumerate(pieces):
            if self.is_over:
                return pieces[number:]
            refusal = check_piece(offset, len(data), own_end=self.position, file_bytes=self._log.file_bytes)
            refusal = refusal or (self._compare(data) if data else self._note_heartbeat())
            if refusal is not None:
                return refusal
            if offset + len(data) > self._end:  # it goes on behind our log
                return [Piece(self._end, data[self._end - offset :]), *pieces[number + 1 :]]
        return []

    def _compare(self, data: memoryview) -> Refusal | None:
        self._heartbeats = 0
        data = data[: self._end - self.position]
        while data:
            own = self._log.slice(self.position, len(data))
            if not own or own != data[: len(own)]:
                return Refusal(
                    RefusalKind.DIVERGED,
                    f"its log differs from the one here, whose last message lies from {self.start} to {self._end}: this"
                    " master has lost the end of its log and taken other messages since, or it is another master. "
                    + COMPARE,
                )
            self.position += len(own)
            data = data[len(own) :]
        return None

    def _note_heartbeat(self) -> Refusal | None:
        self._heartbeats += 1
        if self._heartbeats < _HEARTBEATS_MAX:
            return None
        return Refusal(
            RefusalKind.NOT_COMPARED,
            f"it sends nothing from {self.position} on, where the log here goes on to {self._end}: this master has lost"
            f" the end of its log, or no longer has files this old. {COMPARE}",
        )
