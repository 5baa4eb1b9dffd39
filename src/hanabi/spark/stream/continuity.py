"""Continuity of a stream: each queue goes on behind the message that was read last, or the stream says otherwise.

Used by the streams over a cluster and over files. Offsets in a checkpoint have marks (`marks.Mark`) for this.
"""

import time
from collections.abc import Callable, Mapping

from hanabi.message import MessageQueue
from hanabi.spark.shared.data_loss import began_again
from hanabi.spark.shared.offsets import Offsets
from hanabi.spark.shared.queue_marks import Positions, Queues, broken_off


class Continuity:
    """Compares queues with what was read of them. *seconds*: so often, those without new messages are compared too."""

    def __init__(self, *, fail: bool, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._fail, self._seconds, self._clock = fail, seconds, clock
        self._idle_until = float("-inf")

    def begin(self, done: Positions, ends: Mapping[MessageQueue, int], queues: Queues) -> Positions:
        """*done*, where a trigger begins, or another place in a queue that began again (without a mark).

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
        """What to read of the queues of a batch that goes from *begin* to *stop*, both of which were told before.

        If a queue began again after *stop* was told, what is new belongs to the next batch.
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
    """*target* with marks: those of *done* for queues that stay where they are, and did not begin again."""
    staying = [queue for queue, offset in target.items() if done.offsets.get(queue) == offset]
    staying = [queue for queue in staying if not begin.differs(done, queue)]
    moving = {queue: offset for queue, offset in target.items() if queue not in set(staying)}
    return Positions(target, done.only(staying).marks | queues.marks(moving))
