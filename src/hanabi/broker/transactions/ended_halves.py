"""Marks of ended half messages, and the progress that is committed.

    half queue    0 1 2 3 4 5 6 7 8        a mark for each that ended; below `half_offset` none is pending:
                  x x . x x x . . x        it ended, or was stored again further back, or was given up
                        ^ half_offset
    op queue      0 1 2 3 4                an op message is done when all halves that it names lie below `half_offset`
                  ^ op_offset   ^ next_op  and all before it are done: then a restart need not read it again

A mark also has the log offset where the end was recorded. A half message behind that offset is another one, which got
the queue offset because the queue was deleted and restarted at 0.

Each half message takes nine bytes, each op message a number: a minute of 20,000 transactions a second takes some ten
megabytes. Marks are kept for some time below `half_offset` too, so that a producer that ends a transaction twice, or
after a check-back, does not cause a second message. No I/O.
"""

import enum
from array import array
from collections import deque
from typing import Final

REMEMBERED: Final = 100_000  # marks below `half_offset`
READ_AGAIN: Final = 10_000  # op messages below `op_offset`, after a restart


class End(enum.IntEnum):
    """Known outcome of a transaction. True if it ended."""

    NOT_YET = 0  # or no longer remembered
    SOMEHOW = 1  # an op message says so, without the outcome
    COMMITTED = 2
    ROLLED_BACK = 3


class EndedHalves:
    def __init__(self, half_offset: int, op_offset: int) -> None:
        """Start with all messages below the two offsets done."""
        self.restart(half_offset, op_offset)

    def restart(self, half_offset: int, op_offset: int) -> None:
        """Drop all marks, and start at these offsets."""
        self.half_offset = half_offset
        self.op_offset = op_offset
        self.next_op = max(op_offset - READ_AGAIN, 0)  # op messages read again only add marks
        self._base = max(half_offset - REMEMBERED, 0)
        self._marks = bytearray()
        self._ended_at = array("q")  # of each mark
        self._largest: deque[int] = deque()  # the largest half offset of each op message from `op_offset` on

    def end_of(self, half_offset: int, log_offset: int) -> End:
        """Return the outcome of the half message at *half_offset* of the queue and *log_offset* of the log."""
        index = half_offset - self._base
        if not 0 <= index < len(self._marks) or self._ended_at[index] <= log_offset:
            return End.NOT_YET
        return End(self._marks[index])

    def mark(self, half_offset: int, end: End, log_offset: int) -> None:
        """Record an outcome; *log_offset* is a log offset behind the half message. A known outcome is kept."""
        index = half_offset - self._base
        if index < 0:
            return
        missing = index + 1 - len(self._marks)
        if missing > 0:
            self._marks += bytes(missing)
            self._ended_at.frombytes(bytes(missing * self._ended_at.itemsize))
        if not self._marks[index] or end is not End.SOMEHOW:
            self._marks[index] = end
        self._ended_at[index] = max(self._ended_at[index], log_offset)

    def mark_op(self, op_offset: int, half_offsets: list[int], log_offset: int) -> None:
        """Record that the op message at *op_offset* ended these half messages, in the order of their queue."""
        for half_offset in half_offsets:
            self.mark(half_offset, End.SOMEHOW, log_offset)
        if op_offset >= self.op_offset:
            if not self._largest:
                self.op_offset = op_offset
            self._largest.extend([-1] * (op_offset - self.op_offset - len(self._largest)))  # lost op messages
            self._largest.append(max(half_offsets, default=-1))
        self.next_op = max(self.next_op, op_offset + 1)

    def skip_ended(self) -> None:
        """Advance over all that have ended."""
        index = self.half_offset - self._base
        if 0 <= index < len(self._marks):
            first = self._marks.find(0, index)
            self.half_offset = self._base + (first if first >= 0 else len(self._marks))

    def skip_one(self) -> None:
        """Advance over one that was processed."""
        self.half_offset += 1

    def settle(self) -> None:
        """Advance `op_offset`, and drop marks that are too old to be needed."""
        while self._largest and self._largest[0] < self.half_offset:
            self._largest.popleft()
            self.op_offset += 1
        surplus = self.half_offset - self._base - REMEMBERED
        if surplus > REMEMBERED:
            del self._marks[:surplus], self._ended_at[:surplus]
            self._base += surplus
