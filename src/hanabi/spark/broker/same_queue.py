"""Check at the end of a task that its queue was not re-created since planning.

A topic that is deleted and created again while a query reads it counts from 0 again: a task then gets different
messages under the planned offsets. No message is missing, so no other check detects it.
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
    """Raise DataLost, or log, if the queue of *part* was re-created after planning.

    Costs one request if it was not.
    """
    planned, cluster = part.planned, Cluster(core, options, options.retry_s)
    if not planned.marks or loop.run(cluster.marks(planned.offsets)) == planned.marks:
        return
    ends = loop.run(cluster.end_offsets(planned.offsets))
    for queue, resume in broken_off(planned, ends, _Asked(cluster, loop)).items():
        began_again(queue, planned.offsets[queue], ends[queue], resume, fail=options.fail_on_data_loss)


class _Asked:
    """`queue_marks.Queues` of a cluster, for a blocking caller."""

    def __init__(self, cluster: Cluster, loop: LoopThread) -> None:
        self._cluster, self._loop = cluster, loop

    def firsts(self, queues: Iterable[MessageQueue]) -> Offsets:
        return self._loop.run(self._cluster.first_offsets(queues))

    def marks(self, offsets: Mapping[MessageQueue, int]) -> Marks:
        return self._loop.run(self._cluster.marks(offsets)) if offsets else {}

    def since(self, times_ms: Mapping[MessageQueue, int], first: Offsets, end: Offsets) -> Offsets:
        return self._loop.run(self._cluster.since(times_ms, first, end)) if times_ms else {}
