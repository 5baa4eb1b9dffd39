"""Cached view of a stream's queues on the driver. Spark asks for their ends fifty times a second.

So ends are cached for a moment, and the list of queues for longer. The view lives as long as the driver's process:
Spark does not notify a source when its stream ends.
"""

import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from hanabi.client.blocking.loop_thread import LoopThread
from hanabi.client.cluster.core import Core
from hanabi.message import MessageQueue
from hanabi.spark.broker.cluster import Cluster
from hanabi.spark.broker.options import StreamOptions
from hanabi.spark.shared.offsets import Offsets
from hanabi.spark.shared.queue_marks import Marks

T = TypeVar("T")


class ClusterView:
    """Repeated requests to a cluster, through one set of connections."""

    def __init__(self, options: StreamOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options, self._clock = options, clock
        self._loop: LoopThread | None = None
        self._core: Core | None = None
        self._was_answered = False
        self._queues: list[MessageQueue] = []
        self._queues_until = self._ends_until = float("-inf")
        self._ends: Offsets = {}

    def queues(self) -> list[MessageQueue]:
        """Return all queues, cached for a while."""
        if self._clock() >= self._queues_until:
            self._queues = self.ask(lambda cluster: cluster.queues())
            self._queues_until = self._clock() + self._options.discovery_s
            self._ends_until = float("-inf")
        return self._queues

    def ends(self) -> Offsets:
        """Return the end of each queue."""
        queues = self.queues()
        if self._clock() >= self._ends_until:
            self._ends = self.ask(lambda cluster: cluster.end_offsets(queues))
            self._ends_until = self._clock() + self._options.poll_s
        return self._ends

    def firsts(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the first offsets of these queues, not cached."""
        wanted = list(queues)
        return self.ask(lambda cluster: cluster.first_offsets(wanted)) if wanted else {}

    def marks(self, offsets: Mapping[MessageQueue, int]) -> Marks:
        """Return the message before each offset, not cached."""
        return self.ask(lambda cluster: cluster.marks(offsets)) if offsets else {}

    def since(self, times_ms: Mapping[MessageQueue, int], first: Offsets, end: Offsets) -> Offsets:
        """Return the first offset of each queue stored at its time or later."""
        return self.ask(lambda cluster: cluster.since(times_ms, first, end)) if times_ms else {}

    def ask(self, question: Callable[[Cluster], Coroutine[Any, Any, T]]) -> T:
        """Run a request. The first one fails at once; later ones wait for a broker that restarts."""
        if self._loop is None:
            self._loop = LoopThread.acquire()
        if self._core is None:
            self._core = self._loop.run(Core.acquire(self._options.read.client))
        patience_s = self._options.read.retry_s if self._was_answered else 0.0
        answer = self._loop.run(question(Cluster(self._core, self._options.read, patience_s)))
        self._was_answered = True
        return answer
