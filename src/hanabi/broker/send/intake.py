"""Single entry of messages into the store: sends, retries, transactions, delayed messages that are due.

    put ─> delayed? then under the topic of delayed messages ─> store ─> statistics
    durable ─> one wait for the disk, for all puts of a loop iteration

Does not know the source of messages or the replies. Agrees with Java's CommitLog.asyncPutMessage.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Final

from hanabi.broker.delay.divert import may_divert
from hanabi.broker.stats.broker_stats import BrokerStats
from hanabi.errors import MessageRefused, StoreError
from hanabi.store.fast_path.store_side import StoredInQueue
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import PUT_OK, MessageStore, PutResult, PutStatus
from hanabi.wire.message.properties import PROPERTIES_BYTES_MAX

_WORTH_TELLING_SECONDS: Final = 0.001


class Intake:
    """Stores messages and counts them.

    *divert* gets each message that may be delayed; it returns the message to store instead, or the message itself, or
    raises the reason for a refusal.
    """

    def __init__(
        self, store: MessageStore, stats: BrokerStats, divert: Callable[[PendingMessage], PendingMessage]
    ) -> None:
        self.store, self._divert = store, divert
        self._store_put, self.waits_for_disk = store.put, store.is_sync
        self._stats, self._store_stats, self._count = stats, stats.store, stats.put
        self._turn: asyncio.Future[PutStatus] | None = None  # for all puts of the current loop iteration
        self._turn_end = 0

    def put(self, message: PendingMessage) -> PutResult:
        """Store one message. The result carries any fault of the message or the store."""
        properties = message.properties
        if properties.find(b"DEL") >= 0 and may_divert(properties):  # DEL: in all names of delay properties
            message = self._divert(message)
        return self.put_as_is(message)

    def put_as_is(self, message: PendingMessage) -> PutResult:
        """Store one message that has already waited, without diverting it."""
        began = perf_counter()
        result = self._store_put(message)
        took = perf_counter() - began
        self._store_stats.put_seconds += took
        if took >= _WORTH_TELLING_SECONDS:
            self._stats.put_latency_ms(int(took * 1000))
        if result.status is PUT_OK:
            self._count(message.topic, 1, result.appended[0].size, message.queue_id)
        else:
            self._stats.put_failed()
        return result

    def count_run(self, stored: Sequence[StoredInQueue], seconds: float, sends: int, batches: int) -> None:
        """Count the messages that the fast path stored in *sends* sends and *batches* batches, taking *seconds*."""
        for each in stored:
            self._count(*each)
        if sends:  # the time of batches is not counted, see StoreStats
            self._store_stats.put_seconds += seconds * sends / (sends + batches)
            if seconds >= _WORTH_TELLING_SECONDS:
                self._stats.put_latency_ms(int(seconds * 1000))

    def put_batch(self, messages: Sequence[PendingMessage]) -> PutResult:
        """Store several messages of one queue: all of them or none. None of them can be delayed."""
        if any(may_divert(message.properties) and self._divert(message) is not message for message in messages):
            result = PutResult(PutStatus.MESSAGE_ILLEGAL, reason="a message of a batch cannot be delayed")
        else:
            result = self.store.put_batch(messages)
        if result.status is PUT_OK:
            size = sum(appended.size for appended in result.appended)
            self._count(messages[0].topic, len(messages), size, messages[0].queue_id)
        else:
            self._stats.put_failed()
        return result

    def check_for_batch(self, message: PendingMessage) -> None:
        """Raise MessageRefused for a message that no batch can hold, independent of the store's state."""
        if may_divert(message.properties) and self._divert(message) is not message:
            raise MessageRefused("a message of a batch cannot be delayed")
        if len(message.properties) > PROPERTIES_BYTES_MAX:
            raise MessageRefused(
                f"{message.topic}: properties of {len(message.properties)} bytes, limit {PROPERTIES_BYTES_MAX}"
            )

    def durable(self, result: PutResult) -> Awaitable[PutStatus] | None:
        """Return an awaitable for the durability of *result*; None if its messages count as stored already."""
        if not self.waits_for_disk:
            return None
        # Other puts wait for it, too, when this one is cancelled.
        return asyncio.shield(self.flush_of_turn(result.end_offset))

    def flush_of_turn(self, log_offset: int) -> asyncio.Future[PutStatus]:
        """Return a future for the result of flushing the log up to *log_offset*; it must not be cancelled.

        All puts of one loop iteration share one flush, and one call-back from its thread.
        """
        if self._turn is None:
            loop = asyncio.get_running_loop()
            self._turn = loop.create_future()
            loop.call_soon(self._await_flush, self._turn)
        self._turn_end = log_offset  # offsets only grow
        return self._turn

    def _await_flush(self, turn: asyncio.Future[PutStatus]) -> None:
        self._turn = None
        loop = turn.get_loop()

        def flushed(status: PutStatus) -> None:  # in a thread of the store's
            if not loop.is_closed():
                loop.call_soon_threadsafe(turn.set_result, status)

        try:
            self.store.await_flush(self._turn_end, flushed)
        except StoreError:  # the store is closing: flushed on the way, but unconfirmed
            turn.set_result(PutStatus.FLUSH_DISK_TIMEOUT)
