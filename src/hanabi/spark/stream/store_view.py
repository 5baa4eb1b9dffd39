"""Cached view of the queues of a store that another process writes: their names, first offsets and ends.

Results are cached for a moment: Spark asks fifty times a second, and a store may have thousands of queues.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from hanabi.message import MessageQueue
from hanabi.spark.shared.offsets import Offsets
from hanabi.spark.shared.queue_marks import Marks, Positions
from hanabi.spark.shared.selection import Selection
from hanabi.spark.store.plan import WantedQueue, wanted_queues
from hanabi.spark.store.queue_marks import marks_in_store, since_in_store
from hanabi.spark.stream.positions import positions_from_json, positions_to_json
from hanabi.spark.stream.store_options import BROKER, StoreStreamOptions
from hanabi.store.inspection.home import FileReader

_REST: Final = 9  # a listing is cached for at least this multiple of its duration

Queues: TypeAlias = dict[MessageQueue, WantedQueue]
StoreOffsets: TypeAlias = dict[str, dict[str, int | list[int]]]  # by topic and queue: {"Orders": {"0": 1200}}


def to_store_json(positions: Positions) -> StoreOffsets:
    """Return *positions* as `positions_to_json` does, without a broker."""
    return {topic: brokers[BROKER] for topic, brokers in positions_to_json(positions).items()}


def from_store_json(told: Any) -> Positions:
    """Parse the output of `to_store_json` in a checkpoint."""
    brokers = {topic: {BROKER: queues} for topic, queues in told.items()} if isinstance(told, dict) else told
    return positions_from_json(brokers)


class StoreView:
    """Contents of a store's files, as the driver sees them."""

    def __init__(self, options: StoreStreamOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options, self._clock = options, clock
        self._queues: Queues = {}
        self._until = float("-inf")

    def queues(self) -> Queues:
        """Return every queue with messages, cached for a moment."""
        if self._clock() >= self._until:
            began = self._clock()
            self._queues = self.look(self._options.read.selection)
            took = self._clock() - began
            self._until = self._clock() + max(self._options.poll_s, _REST * took if self._options.poll_s else 0.0)
        return self._queues

    def ends(self) -> Offsets:
        return {queue: each.end for queue, each in self.queues().items()}

    def firsts(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the first offsets of these queues, cached for a moment."""
        seen = self.queues()
        return {queue: seen[queue].first for queue in queues}

    def marks(self, offsets: Mapping[MessageQueue, int]) -> Marks:
        """Return the message before each offset."""
        return marks_in_store(self._options.read.home, offsets)

    def since(self, times_ms: Mapping[MessageQueue, int], first: Offsets, end: Offsets) -> Offsets:
        """Return the first offset of each queue stored at its time or later."""
        return since_in_store(self._options.read.home, times_ms, first, end)

    def look(self, selection: Selection) -> Queues:
        """Return every queue with messages that match *selection*, not cached."""
        with FileReader() as reader:
            found = wanted_queues(self._options.read.home, selection, reader)
        return {MessageQueue(each.queue.topic, BROKER, each.queue.queue_id): each for each in found}
