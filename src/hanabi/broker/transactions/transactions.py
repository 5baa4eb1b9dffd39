"""Transactional messages for the rest of the broker: store a half message, end it, check it.

Agrees with TransactionalMessageServiceImpl and TransactionalMessageCheckService (4.9.8).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from hanabi.broker.settings import Settings
from hanabi.broker.transactions.check_back import CheckBack
from hanabi.broker.transactions.copies import Copies
from hanabi.broker.transactions.ended_halves import EndedHalves
from hanabi.broker.transactions.ending import Ending
from hanabi.broker.transactions.half_message import QUEUE_ID, ROOM_BYTES_MAX, HalfMessage, revived, to_half
from hanabi.broker.transactions.ports import Intake, Offsets, Producers, TopicMaker
from hanabi.errors import BrokerError, QueryNotFound, RemoteProtocolError, StoreError
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import MessageStore, PutResult, PutStatus
from hanabi.wire.message.message_id import decode_offset_id
from hanabi.wire.message.record import decode_record
from hanabi.wire.system_names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_GROUP

ESCAPE_RETRY_SECONDS: Final = 5.0

logger = logging.getLogger(__name__)


class Transactions:
    """Transactions of one broker. `run` checks periodically; a slave does not run it."""

    def __init__(
        self,
        store: MessageStore,
        intake: Intake,
        offsets: Offsets,
        producers: Producers,
        topics: TopicMaker,
        settings: Settings,
        now_ms: Callable[[], int],
    ) -> None:
        self._store, self._intake, self._settings = store, intake, settings
        self._offsets = offsets
        self._ended = ended = EndedHalves(*self._committed())
        copies = Copies(store.queries)
        ending = Ending(store, intake, ended, copies, now_ms)
        self.end = ending.end
        self._check_back = CheckBack(
            store, intake, offsets, producers, topics, settings, now_ms, ended=ended, copies=copies, ending=ending
        )

    def put_half(self, message: PendingMessage) -> PutResult:
        """Store a message of type prepared, so that no consumer sees it before its transaction is committed.

        Its properties must leave room for the notes of its copies: a message that cannot be copied would block the
        checks of all that follow."""
        half = to_half(message)
        if len(half.properties) > ROOM_BYTES_MAX:
            reason = f"properties of {len(half.properties)} bytes, limit in a transaction {ROOM_BYTES_MAX}"
            return PutResult(PutStatus.PROPERTIES_SIZE_EXCEEDED, reason=f"{message.topic}: {reason}")
        return self._intake.put(half)

    def check(self) -> Iterator[None]:
        """Return one round of check-backs, which works in small slices while it is iterated over."""
        return self._check_back.round()

    def begin_again(self) -> None:
        """Start from the committed offsets, which another broker has moved."""
        self._ended.restart(*self._committed())

    def _committed(self) -> tuple[int, int]:
        half, op = (_dealt_with(self._store, self._offsets, topic) for topic in (HALF_TOPIC, OP_HALF_TOPIC))
        return half, op

    async def run_escape(self, send: Callable[[PendingMessage], Awaitable[PutResult]]) -> None:
        """Send half messages to another master until cancelled: on a slave that acts as master."""
        self.begin_again()
        while True:
            is_done = await self._check_back.escape(send)
            interval = self._settings.broker.transaction_check_interval_ms / 1000
            await asyncio.sleep(interval if is_done else min(interval, ESCAPE_RETRY_SECONDS))

    async def run(self) -> None:
        """Run a round periodically, until cancelled."""
        await self._in_pieces(self._check_back.follow_ops())
        while True:
            await asyncio.sleep(self._settings.broker.transaction_check_interval_ms / 1000)
            await self._in_pieces(self.check())

    async def _in_pieces(self, work: Iterator[None]) -> None:
        try:
            for _ in work:
                await asyncio.sleep(0)
        except StoreError as error:
            logger.error("a round of checking half messages failed, the next one resumes there: %s", error)
        except Exception:
            logger.exception("a round of checking half messages failed, the next one resumes there")

    def resume_check(self, message_id: str) -> PutResult:
        """Resume checks of a half message that was given up: store the one with this id (of host and log offset)
        again."""
        try:
            view = self._store.queries.queued_record(decode_offset_id(message_id).log_offset)
        except RemoteProtocolError as error:
            raise BrokerError(str(error)) from error
        if view is None:
            raise QueryNotFound(f"no message begins at the place that {message_id} names")
        half = HalfMessage.of(decode_record(view))
        topic = half.record.topic
        if topic not in (CHECK_MAX_TIME_TOPIC, HALF_TOPIC) or half.real_topic is None or half.real_queue_id is None:
            raise QueryNotFound(f"{message_id} is a message of topic {topic}, not a half message")
        logger.info("half message %s for topic %s is checked again", half.unique_key, half.real_topic)
        return self._intake.put(revived(half))


def _dealt_with(store: MessageStore, offsets: Offsets, topic: str) -> int:
    """Return the committed progress in a queue of transactions."""
    known = offsets.find(TRANSACTION_GROUP, topic, QUEUE_ID)
    return max(known, store.reader.min_offset(topic, QUEUE_ID))
