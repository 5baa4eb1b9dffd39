"""The queues of a store that somebody else writes: which there are, and where they begin and end now.

What was seen is believed for a moment: Spark asks fifty times a second, and a store may have thousands of queues.
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

_REST: Final = 9  # a look that takes long is followed by a pause of so many times as long

Queues: TypeAlias = dict[MessageQueue, WantedQueue]
StoreOffsets: TypeAlias = dict[str, dict[str, int | list[int]]]  # by topic and queue: {"Orders": {"0": 1200}}


def to_store_json(positions: Positions) -> StoreOffsets:
    """As `positions_to_json`, without a broker."""
    return {topic: brokers[BROKER] for topic, brokers in positions_to_json(positions).items()}


def from_store_json(told: Any) -> Positions:
    """What `to_store_json` wrote into a checkpoint."""
    brokers = {topic: {BROKER: queues} for topic, queues in told.items()} if isinstance(told, dict) else told
    return positions_from_json(brokers)


class StoreView:
    """What is in the files of a store, seen from the driver."""

    def __init__(self, options: StoreStreamOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options, self._clock = options, clock
        self._queues: Queues = {}
        self._until = float("-inf")

    def queues(self) -> Queues:
        """Return every queue with messages, as it was a moment ago."""
        if self._clock() >= self._until:
            began = self._clock()
            self._queues = self.look(self._options.read.selection)
            took = self._clock() - began
            self._until = self._clock() + max(self._options.poll_s, _REST * took if self._options.poll_s else 0.0)
        return self._queues

    def ends(self) -> Offsets:
        return {queue: each.end for queue, each in self.queues().items()}

    def firsts(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Where these queues begin, as was seen a moment ago."""
        seen = self.queues()
        return {queue: seen[queue].first for queue in queues}

    def marks(self, offsets: Mapping[MessageQueue, int]) -> Marks:
        """Return the message before each offset."""
        return marks_in_store(self._options.read.home, offsets)

    def since(self, times_ms: Mapping[MessageQueue, int], first: Offsets, end: Offsets) -> Offsets:
        """Return the first message of each queue that was stored at its time or later."""
        return since_in_store(self._options.read.home, times_ms, first, end)

    def look(self, selection: Selection) -> Queues:
        """Return every queue with messages that *selection* wants, as it is now."""
        with FileReader() as reader:
            found = wanted_queues(self._options.read.home, selection, reader)
        return {MessageQueue(each.queue.topic, BROKER, each.queue.queue_id): each for each in found}
