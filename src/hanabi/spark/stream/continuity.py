"""Continuity of a stream: a check that each queue continues after the message that was read last.

Used by the streams over a cluster and over files. Offsets in a checkpoint have marks (`queue_marks.Mark`) for this.
"""

import time
from collections.abc import Callable, Mapping

from hanabi.message import MessageQueue
from hanabi.spark.shared.data_loss import began_again
from hanabi.spark.shared.offsets import Offsets
from hanabi.spark.shared.queue_marks import Positions, Queues, broken_off


class Continuity:
    """Comparison of queues with their read positions. Queues without new messages are compared every *seconds* too."""

    def __init__(self, *, fail: bool, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._fail, self._seconds, self._clock = fail, seconds, clock
        self._idle_until = float("-inf")

    def begin(self, done: Positions, ends: Mapping[MessageQueue, int], queues: Queues) -> Positions:
        """Return *done*, the start of a trigger, with a new position (without a mark) for each re-created queue.

        Raises DataLost for such a queue, or logs.
        """
        is_due = self._clock() >= self._idle_until
        if is_due:
            self._idle_until = self._clock() + self._seconds
        moving = [queue for queue, end in ends.items() if is_due or done.offsets.get(queue) != end]
        broken = self._resumed(done.only(moving), ends, queues)
        marks = {queue: mark for queue, mark in done.marks.items() if queue not in broken}
        return Positions(done.offsets | broken, marks)

    def span(
        self, begin: Positions, stop: Positions, ends: Mapping[MessageQueue, int], queues: Queues
    ) -> tuple[Offsets, Offsets]:
        """Return the start and end of each queue in a batch from *begin* to *stop*, both of which Spark already knows.

        If a queue was re-created after *stop* was returned, its new messages belong to the next batch.
        """
        low = begin.offsets | self._resumed(begin, ends, queues)
        high = stop.offsets | self._resumed(stop.only(stop.marks), ends, queues)
        return low, high

    def _resumed(self, done: Positions, ends: Mapping[MessageQueue, int], queues: Queues) -> Offsets:
        broken = broken_off(done, ends, queues)
        for queue, offset in broken.items():
            began_again(queue, done.offsets[queue], ends[queue], offset, fail=self._fail)
        return broken


def reached(done: Positions, begin: Positions, target: Offsets, queues: Queues) -> Positions:
    """Return *target* with marks: those of *done* for queues that did not move and were not re-created."""
    staying = [queue for queue, offset in target.items() if done.offsets.get(queue) == offset]
    staying = [queue for queue in staying if not begin.differs(done, queue)]
    moving = {queue: offset for queue, offset in target.items() if queue not in set(staying)}
    return Positions(target, done.only(staying).marks | queues.marks(moving))
