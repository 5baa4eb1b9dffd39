"""The steps after each append: the entry in the consume queue, the entries in the key index, the call of `on_append`.

    append ─> consume queue (and its extension) ─> key index ─> on_append            one chain of plain calls

For a new message nothing is read back from the log. `dispatch` does the same for records that are already in the log
(recovery, a slave's copy). Agrees with Java's CommitLogDispatcherBuildConsumeQueue and IndexService: a
message of type prepared or rollback gets no place in a queue, one of type rollback is not found by its keys. (Half
messages are none of these: the broker stores them under a topic of its own, with type none.)
"""

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from hanabi.errors import StoreError
from hanabi.store.index.key_index import KeyIndex
from hanabi.store.log.commit_log import AppendResult, PendingMessage
from hanabi.store.queues.consume_queue import ConsumeQueue, QueueOrderError
from hanabi.store.queues.consume_queues import ConsumeQueues
from hanabi.wire.message import sysflag
from hanabi.wire.message.properties import find_property, indexed_properties
from hanabi.wire.message.record import Dispatch
from hanabi.wire.message.tags import tags_code
from hanabi.wire.system_names import SCHEDULE_TOPIC

logger = logging.getLogger(__name__)

_NOT_QUEUED: Final = sysflag.TRANSACTION_PREPARED  # this bit is in both types that get no place in a queue
_HOLE_MAX: Final = 10_000_000
_NOT_INDEXED: Final = sysflag.TRANSACTION_ROLLBACK  # both its bits


class Dispatched(msgspec.Struct, frozen=True, gc=False):
    """A message that readers can find from now on. `properties` are undecoded."""

    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int
    size: int
    tags_code: int  # in the delay topic the time of delivery
    store_timestamp_ms: int
    properties: bytes
    filter_bits: bytes | None = None


def _always(_topic: str, _queue_id: int) -> bool:
    return True


def _never(_topic: str, _queue_id: int) -> bool:
    return False


class Hooks(NamedTuple):
    """The broker's callbacks. All of them are called in the thread that appends."""

    on_append: Callable[[Dispatched], None] | None = None
    listens: Callable[[str, int], bool] | None = None  # whether on_append does anything for a queue; None: always
    deliver_time_ms: Callable[[int, int], int] | None = None  # (delay level, store time) -> when to deliver
    filter_bits: Callable[[Dispatched], bytes | None] | None = None  # for consumequeue_ext


NewQueue = Callable[[str, bool], None]  # of a topic; True: the queue began again, as the topic was deleted


class QueueHoleError(QueueOrderError):
    """Messages of `queue` are missing before the one that should be added."""

    def __init__(self, queue: ConsumeQueue, error: QueueOrderError) -> None:
        super().__init__(str(error))
        self.queue = queue


class _Unindexed(NamedTuple):
    topic: str
    keys: list[str]
    log_offset: int
    store_ms: int


class Indexer:
    """Keeps the consume queues and the key index in step with the log.

    Nothing here fails an append: the message is in the log already. Messages that could not be
    indexed wait in `unindexed`; none should be appended before `catch_up` has emptied it.
    """

    def __init__(self, queues: ConsumeQueues, index: KeyIndex | None, *, hooks: Hooks | None = None) -> None:
        """*index* is None where messageIndexEnable is off."""
        self._queues, self._index, self._hooks = queues, index, hooks or Hooks()
        self._on_append = self._hooks.on_append
        # Returns whether the listener wants notifications of a queue.
        self.listens = (self._hooks.listens or _always) if self._on_append is not None else _never
        self.dispatched_ms = 0  # the store time of the newest message that is in the queues
        self.failure: StoreError | None = None  # a message is in the log, but not in its queue
        self.unindexed: list[_Unindexed] = []
        self.on_new_queue: NewQueue | None = None

    def appended(self, message: PendingMessage, result: AppendResult, queue: ConsumeQueue) -> None:
        """Dispatch *message*, which was just appended; *queue* is its queue."""
        topic, properties, sys_flag = message.topic, message.properties, message.sys_flag
        log_offset, store_ms = result.log_offset, result.store_timestamp_ms
        dispatched = None
        tags, keys, unique_key = indexed_properties(properties)
        if not sys_flag & _NOT_QUEUED:
            code = tags_code(tags) if tags is not None else 0
            if topic == SCHEDULE_TOPIC:
                code = self._deliver_time(properties, store_ms, code)
            dispatched = Dispatched(
                topic, message.queue_id, result.queue_offset, log_offset, result.size, code, store_ms, properties
            )
            try:
                dispatched = self._queue(queue, dispatched)
            except StoreError as error:
                self._fail(error)
                dispatched = None
        if self._index is not None and sys_flag & _NOT_INDEXED != _NOT_INDEXED and (keys or unique_key):
            self._put_keys(topic, keys, unique_key, log_offset, store_ms)
        if dispatched is not None:
            self.notify(dispatched)

    def notify(self, dispatched: Dispatched) -> None:
        """Notify the listener, if there is one, that a message became readable."""
        if self._on_append is not None:
            self._on_append(dispatched)

    def dispatch(
        self,
        record: Dispatch,
        *,
        notify: bool = False,
        fill_holes: bool = True,
        has_message: Callable[[ConsumeQueue, int], bool] | None = None,
    ) -> None:
        """Add a record of the log to queue and index, where it may be already.

        When messages are missing before it in its queue they become blanks, or, without *fill_holes*, QueueHoleError
        is raised and the queue left alone.

        *has_message* returns whether the log has the message of an entry. Such entries are not given up for *record*.
        Exceptions: the last entry of the queue (either may be wrong), and the first message of a queue that was made
        again.
        """
        topic, properties, sys_flag = record.topic, record.properties, record.sys_flag
        store_ms = record.store_timestamp_ms
        dispatched = None
        if not sys_flag & _NOT_QUEUED:
            code = record.tags_code
            if topic == SCHEDULE_TOPIC:
                code = self._deliver_time(properties, store_ms, code)
            place = record.queue_id, record.queue_offset, record.log_offset, record.size
            dispatched = Dispatched(topic, *place, code, store_ms, properties)
            queue = self._queues.open(topic, record.queue_id)
            if self.on_new_queue is not None and _begins(queue, record):
                self.on_new_queue(topic, queue.max_offset > 0)
            try:
                dispatched = self._queue(queue, dispatched)
            except QueueOrderError as error:
                is_far_back = 0 < dispatched.queue_offset < queue.max_offset - 1
                if is_far_back and has_message is not None and has_message(queue, dispatched.queue_offset):
                    raise  # a bad bit in the record's head, which no CRC covers: the entries are right
                dispatched = self._put_newer(queue, dispatched, error, fill_holes=fill_holes)
        self.index(record)
        if notify and dispatched is not None:
            self.notify(dispatched)

    def index(self, record: Dispatch) -> None:
        """Add the keys of a record that lies in the log already to the index, unless they are there."""
        index = self._index
        if index is None or record.sys_flag & _NOT_INDEXED == _NOT_INDEXED or record.log_offset < index.end_log_offset:
            return
        self._put_keys(record.topic, record.keys, record.unique_key, record.log_offset, record.store_timestamp_ms)

    def catch_up(self) -> None:
        """Index messages that could not be indexed before. Raises StoreError if it still cannot be."""
        while self.unindexed and self._index is not None:
            self._index.put(*self.unindexed[0])
            del self.unindexed[0]

    def _queue(self, queue: ConsumeQueue, dispatched: Dispatched) -> Dispatched:
        if queue.ext is None:
            queue.put(dispatched.queue_offset, dispatched.log_offset, dispatched.size, dispatched.tags_code)
        else:
            if self._hooks.filter_bits is not None:
                bits = self._hooks.filter_bits(dispatched)
                dispatched = msgspec.structs.replace(dispatched, filter_bits=bits)
            place = dispatched.queue_offset, dispatched.log_offset, dispatched.size, dispatched.tags_code
            queue.put_extended(*place, dispatched.store_timestamp_ms, dispatched.filter_bits)
        self.dispatched_ms = dispatched.store_timestamp_ms
        return dispatched

    def _put_newer(
        self, queue: ConsumeQueue, dispatched: Dispatched, error: QueueOrderError, *, fill_holes: bool
    ) -> Dispatched:
        """Put the log's message and discard queue entries that contradict it.

        There is a hole when the messages between are gone from the log, and something to give up when a topic was
        deleted and made again, or when the queue's files are damaged.
        """
        hole = dispatched.queue_offset - queue.max_offset
        if hole > 0:
            if not fill_holes:
                raise QueueHoleError(queue, error) from error
            if hole > _HOLE_MAX:
                raise error  # one bad bit in a record's head, which no CRC covers: not worth gigabytes of blanks
            queue.skip_to(dispatched.queue_offset)
        else:
            queue.truncate_to_offset(dispatched.queue_offset)
        logger.error("%s: the log is right, so the queue is changed", error)
        return self._queue(queue, dispatched)

    def _fail(self, error: StoreError) -> None:
        if self.failure is None:
            logger.error("a message is in the log but not in its queue, puts are refused until a restart: %s", error)
        self.failure = error

    def _put_keys(self, topic: str, keys: str | None, unique_key: str | None, log_offset: int, store_ms: int) -> None:
        if keys and unique_key and " " not in keys:
            names = [unique_key, keys]
        elif keys:
            names = [key for key in (unique_key, *keys.split(" ")) if key]
        elif unique_key:
            names = [unique_key]
        else:
            return
        if self._index is None:
            return
        if not self.unindexed:  # else it must wait for its turn: the index takes messages in the order of the log
            try:
                self._index.put(topic, names, log_offset, store_ms)
            except StoreError as error:
                logger.error("the key index cannot grow, messages are refused until it can: %s", error)
            else:
                return
        self.unindexed.append(_Unindexed(topic, names, log_offset, store_ms))

    def _deliver_time(self, properties: bytes, store_ms: int, code: int) -> int:
        """Return the delivery time, which the delay topic's queues keep in place of the tags code."""
        level = find_property(properties, b"DELAY")
        if level is None or self._hooks.deliver_time_ms is None:
            return code
        try:
            number = int(level)
        except ValueError:
            return code
        return self._hooks.deliver_time_ms(number, store_ms) if number > 0 else code


def _begins(queue: ConsumeQueue, record: Dispatch) -> bool:
    """Return whether *record*, which is not in *queue* yet, is the first of it, or the first of its successor."""
    is_first = not queue.max_offset or not record.queue_offset
    return is_first and record.log_offset >= queue.max_log_offset
