"""Single entry of messages into the store: sends, retries, transactions, delayed messages that are due.

    put ─> delayed? then under the topic of delayed messages ─> store ─> statistics
    durable ─> one wait for the disk and the slaves, for all puts of a loop iteration

Does not know the source of messages or the replies. Agrees with Java's CommitLog.asyncPutMessage.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter

from hanabi.broker.delay.divert import may_divert
from hanabi.broker.send.durability import Durability
from hanabi.broker.stats.broker_stats import WORTH_TELLING_SECONDS, BrokerStats
from hanabi.errors import MessageRefused
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import PUT_OK, MessageStore, PutResult, PutStatus
from hanabi.wire.message.properties import PROPERTIES_BYTES_MAX


class Intake:
    """Stores messages and counts them.

    *divert* gets each message that may be delayed; it returns the message to store instead, or the message itself, or
    raises the reason for a refusal.
    """

    def __init__(
        self,
        store: MessageStore,
        stats: BrokerStats,
        divert: Callable[[PendingMessage], PendingMessage],
        durability: Durability | None = None,
    ) -> None:
        self.store, self._divert, self._store_put = store, divert, store.put
        self.durability = durability or Durability(store)
        self._stats, self._store_stats, self._count = stats, stats.store, stats.put
        self.count_runs_of, self.count_slow = stats.put_runs_of, stats.put_latency_ms  # of the fast path

    def put(self, message: PendingMessage) -> PutResult:
        """Store one message. The result carries any fault of the message or the store."""
        properties = message.properties
        if properties.find(b"DEL") >= 0 and may_divert(properties):  # DEL: in all names of delay properties
            message = self._divert(message)
        return self.put_as_is(message)

    def diverted(self, message: PendingMessage) -> PendingMessage:
        """Return the message that `put` would store instead of *message*: `put` takes it, too."""
        return self._divert(message)

    def put_as_is(self, message: PendingMessage) -> PutResult:
        """Store one message that has already waited, without diverting it."""
        began = perf_counter()
        result = self._store_put(message)
        took = perf_counter() - began
        self._store_stats.put_seconds += took
        if took >= WORTH_TELLING_SECONDS:
            self._stats.put_latency_ms(int(took * 1000))
        if result.status is PUT_OK:
            self._count(message.topic, 1, result.appended[0].size, message.queue_id)
        else:
            self._stats.put_failed()
        return result

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
        if not self.durability.is_awaited:
            return None
        # Other puts wait for it, too, when this one is cancelled.
        return asyncio.shield(self.durability.of_turn(result.end_offset))

    def refusal(self) -> PutResult | None:
        """Return the refusal of a message whose sender waits for slaves, if too few are in sync; None if not."""
        reason = self.durability.why_refused()
        return None if reason is None else PutResult(PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH, reason=reason)
