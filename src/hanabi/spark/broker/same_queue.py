"""The check at the end of a task that its queue is still the one that was planned.

A topic that is deleted and made again while a query reads it counts from 0 again: a task that goes on gets other
messages under the offsets that were planned. Nothing is missing then, so nothing else notices.
"""

from collections.abc import Iterable, Mapping

from hanabi.client.blocking.loop_thread import LoopThread
from hanabi.client.cluster.core import Core
from hanabi.message import MessageQueue
from hanabi.spark.broker.cluster import Cluster
from hanabi.spark.broker.options import ReadOptions
from hanabi.spark.shared.data_loss import began_again
from hanabi.spark.shared.offsets import Offsets
from hanabi.spark.shared.queue_marks import Marks, broken_off
from hanabi.spark.shared.ranges import QueueRange


def check_same_queue(part: QueueRange, options: ReadOptions, core: Core, loop: LoopThread) -> None:
    """Raise DataLost, or log, if the queue of *part* began again after it was planned.

    Costs one question where it did not.
    """
    planned, cluster = part.planned, Cluster(core, options, options.retry_s)
    if not planned.marks or loop.run(cluster.marks(planned.offsets)) == planned.marks:
        return
    ends = loop.run(cluster.end_offsets(planned.offsets))
    for queue, resume in broken_off(planned, ends, _Asked(cluster, loop)).items():
        began_again(queue, planned.offsets[queue], ends[queue], resume, fail=options.fail_on_data_loss)


class _Asked:
    """`marks.Queues` of a cluster, for a caller that blocks."""

    def __init__(self, cluster: Cluster, loop: LoopThread) -> None:
        self._cluster, self._loop = cluster, loop

    def firsts(self, queues: Iterable[MessageQueue]) -> Offsets:
        return self._loop.run(self._cluster.first_offsets(queues))

    def marks(self, offsets: Mapping[MessageQueue, int]) -> Marks:
        return self._loop.run(self._cluster.marks(offsets)) if offsets else {}

    def since(self, times_ms: Mapping[MessageQueue, int], first: Offsets, end: Offsets) -> Offsets:
        return self._loop.run(self._cluster.since(times_ms, first, end)) if times_ms else {}
