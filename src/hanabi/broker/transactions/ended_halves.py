"""Which half messages have ended, and how far that has been written down.

    half queue    0 1 2 3 4 5 6 7 8        a mark for each that ended; below `half_offset` none waits for anything:
                  x x . x x x . . x        it ended, or was stored again further back, or was given up
                        ^ half_offset
    op queue      0 1 2 3 4                an op message is done with when all that it tells of lie below `half_offset`
                  ^ op_offset   ^ next_op  and those before it are done with: then a restart need not read it again

A mark also has the place in the log where the end was told. A half message that lies behind that place is another one,
which got the offset because the queue was deleted and began at 0 again.

Nine bytes for each half message and a number for each op message: a minute of 20,000 transactions a second takes some
ten megabytes. Marks are kept for some time below `half_offset` too, so that a producer that ends a transaction twice,
or after it was asked, does not make a second message of it. No I/O.
"""

import enum
from array import array
from collections import deque
from typing import Final

REMEMBERED: Final = 100_000  # marks below `half_offset`
READ_AGAIN: Final = 10_000  # op messages below `op_offset`, after a restart


class End(enum.IntEnum):
    """How a transaction ended, as far as is known. True if it did."""

    NOT_YET = 0  # or nobody remembers
    SOMEHOW = 1  # an op message says so, and not how
    COMMITTED = 2
    ROLLED_BACK = 3


class EndedHalves:
    def __init__(self, half_offset: int, op_offset: int) -> None:
        """Everything below the two offsets is done with."""
        self.restart(half_offset, op_offset)

    def restart(self, half_offset: int, op_offset: int) -> None:
        """Forget all, and begin there."""
        self.half_offset = half_offset
        self.op_offset = op_offset
        self.next_op = max(op_offset - READ_AGAIN, 0)  # what is read again is only remembered
        self._base = max(half_offset - REMEMBERED, 0)
        self._marks = bytearray()
        self._told_at = array("q")  # of each mark
        self._largest: deque[int] = deque()  # of each op message from `op_offset` on, the largest offset it tells of

    def end_of(self, half_offset: int, log_offset: int) -> End:
        """Return how the half message at *half_offset* of the queue, and at *log_offset* of the log, has ended."""
        index = half_offset - self._base
        if not 0 <= index < len(self._marks) or self._told_at[index] <= log_offset:
            return End.NOT_YET
        return End(self._marks[index])

    def mark(self, half_offset: int, end: End, told_at: int) -> None:
        """Note an end; *told_at* is an offset of the log behind the half message. What is known is not forgotten."""
        index = half_offset - self._base
        if index < 0:
            return
        missing = index + 1 - len(self._marks)
        if missing > 0:
            self._marks += bytes(missing)
            self._told_at.frombytes(bytes(missing * self._told_at.itemsize))
        if not self._marks[index] or end is not End.SOMEHOW:
            self._marks[index] = end
        self._told_at[index] = max(self._told_at[index], told_at)

    def op_seen(self, op_offset: int, half_offsets: list[int], told_at: int) -> None:
        """The op message at *op_offset* tells that these have ended. They come in the order of their queue."""
        for half_offset in half_offsets:
            self.mark(half_offset, End.SOMEHOW, told_at)
        if op_offset >= self.op_offset:
            if not self._largest:
                self.op_offset = op_offset
            self._largest.extend([-1] * (op_offset - self.op_offset - len(self._largest)))  # those that are lost
            self._largest.append(max(half_offsets, default=-1))
        self.next_op = max(self.next_op, op_offset + 1)

    def pass_ended(self) -> None:
        """Go forward over all that have ended."""
        index = self.half_offset - self._base
        if 0 <= index < len(self._marks):
            first = self._marks.find(0, index)
            self.half_offset = self._base + (first if first >= 0 else len(self._marks))

    def pass_one(self) -> None:
        """Go forward over one that has been dealt with."""
        self.half_offset += 1

    def settle(self) -> None:
        """Bring `op_offset` up to date, and forget what is too old to be asked for."""
        while self._largest and self._largest[0] < self.half_offset:
            self._largest.popleft()
            self.op_offset += 1
        surplus = self.half_offset - self._base - REMEMBERED
        if surplus > REMEMBERED:
            del self._marks[:surplus], self._told_at[:surplus]
            self._base += surplus
