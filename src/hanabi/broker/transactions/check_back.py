"""Check-back: asks producers for the outcome of pending transactions.

A round scans the half queue from where the last one stopped. Ended messages are skipped; a message that is too young
stops the round; for the rest the producer is asked, after a copy was stored at the end of the queue. So the round never
waits for an answer, and the next one finds the copy. The progress in both queues is committed as the offsets of the
group CID_RMQ_SYS_TRANS. A crash loses at most the offsets of some seconds; the round may then meet messages that have
copies, and skips the older ones.

A round is a generator: it yields after every few messages, so that the loop can serve requests in between.
Agrees with TransactionalMessageServiceImpl.check, AbstractTransactionalMessageCheckListener and Broker2Client (4.9.8).
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from hanabi.broker.settings import Settings
from hanabi.broker.tables.topics import PERM_READ, PERM_WRITE
from hanabi.broker.transactions.copies import Copies
from hanabi.broker.transactions.ended_halves import End, EndedHalves
from hanabi.broker.transactions.ending import Ending
from hanabi.broker.transactions.half_message import (
    QUEUE_ID,
    HalfMessage,
    can_be_renewed,
    check_request,
    ended_offsets,
    given_up,
    renewed,
    renewed_unasked,
)
from hanabi.broker.transactions.ports import Intake, Offsets, Producers, TopicMaker
from hanabi.broker.transactions.verdict import Verdict, judge
from hanabi.errors import MQError, TransportError
from hanabi.store.log.commit_log import AppendResult, PendingMessage
from hanabi.store.message_store import MessageStore, PutResult, PutStatus
from hanabi.wire.codes import RequestCode
from hanabi.wire.headers.transaction import CheckTransactionStateHeader
from hanabi.wire.message.record import Record, decode_records
from hanabi.wire.system_names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_GROUP

logger = logging.getLogger(__name__)

_HALVES_A_TURN: Final = 16  # each may cost two searches in the index, a put and a send
_OPS_A_READ: Final = 32
_PRODUCERS_TRIED_MAX: Final = 3
_HOUR_MS: Final = 3_600_000


class CheckBack:
    def __init__(
        self,
        store: MessageStore,
        intake: Intake,
        offsets: Offsets,
        producers: Producers,
        topics: TopicMaker,
        settings: Settings,
        now_ms: Callable[[], int],
        *,
        ended: EndedHalves,
        copies: Copies,
        ending: Ending,
    ) -> None:
        self._store, self._intake, self._offsets = store, intake, offsets
        self._producers, self._topics, self._settings, self._now_ms = producers, topics, settings, now_ms
        self._ended, self._copies, self._ending = ended, copies, ending
        self._unasked: Counter[str] = Counter()  # in this round, by group

    def follow_ops(self) -> Iterator[None]:
        """Read the op messages that have not been read yet."""
        ended, reader = self._ended, self._store.reader
        while ended.next_op < reader.max_offset(OP_HALF_TOPIC, QUEUE_ID):
            result = self._store.get(OP_HALF_TOPIC, QUEUE_ID, ended.next_op, _OPS_A_READ)
            half_end = reader.max_offset(HALF_TOPIC, QUEUE_ID)
            for piece in result.slices:
                for op in decode_records(piece, check_crc=False):
                    ended_now = ended_offsets(op)
                    if not ended_now:
                        logger.warning("op message %d names no half message: %r", op.queue_offset, op.body[:40])
                    # Offsets beyond the end of the queue were never stored here: do not mark them for a later message.
                    ended.mark_op(op.queue_offset, [offset for offset in ended_now if offset < half_end], op.log_offset)
            if result.next_offset <= ended.next_op and not result.count:
                return
            ended.next_op = max(ended.next_op, result.next_offset)
            yield

    def round(self) -> Iterator[None]:
        """Check all pending half messages once, yielding between slices."""
        end = self._store.reader.max_offset(HALF_TOPIC, QUEUE_ID)
        self._unasked.clear()
        self._topics.create_on_send_back(HALF_TOPIC, 1, PERM_READ | PERM_WRITE)
        self._stay_inside()
        yield from self.follow_ops()
        left = _HALVES_A_TURN
        while True:
            self._ended.skip_ended()
            half = self._next_half()
            if half is None or not self._deal_with(half, end):
                break
            self._ended.skip_one()
            left -= 1
            if not left:
                left = _HALVES_A_TURN
                self._save()
                yield
        self._save()
        for group, count in self._unasked.items():
            logger.warning("%d half messages of group %s: no producer could be asked how they ended", count, group)

    async def escape(self, send: Callable[[PendingMessage], Awaitable[PutResult]]) -> bool:
        """Send all pending half messages that are old enough to another master, which checks them; return False if one
        could not be sent, and waits. A slave that acts as master stores no copies of its own."""
        end = self._store.reader.max_offset(HALF_TOPIC, QUEUE_ID)
        self._stay_inside()
        for _ in self.follow_ops():
            await asyncio.sleep(0)
        while True:
            self._ended.skip_ended()
            half = self._next_half()
            if half is None or self._judge(half, end) is Verdict.LATER:
                return True
            if not self._has_ended_before(half):
                result = await send(renewed_unasked(half))
                if result.status is not PutStatus.PUT_OK:
                    logger.warning("half message %s waits: %s", half.unique_key, result.reason)
                    return False
            self._ended.skip_one()
            self._save()

    def _has_ended_before(self, half: HalfMessage) -> bool:
        return self._has_first_copy_ended(half) or self._copies.has_newer(half) or self._copies.is_committed(half)

    def _stay_inside(self) -> None:
        """Reset progress to the ends of the queues: a crash may have lost their ends, and messages there now are
        new."""
        ended, reader = self._ended, self._store.reader
        half_end, op_end = reader.max_offset(HALF_TOPIC, QUEUE_ID), reader.max_offset(OP_HALF_TOPIC, QUEUE_ID)
        if ended.half_offset <= half_end and ended.op_offset <= op_end:
            return
        logger.warning(
            "half messages are processed up to %d and op messages up to %d, but the queues end at %d and %d",
            ended.half_offset,
            ended.op_offset,
            half_end,
            op_end,
        )
        ended.restart(min(ended.half_offset, half_end), min(ended.op_offset, op_end))
        self._offsets.reset(TRANSACTION_GROUP, HALF_TOPIC, QUEUE_ID, ended.half_offset)
        self._offsets.reset(TRANSACTION_GROUP, OP_HALF_TOPIC, QUEUE_ID, ended.op_offset)

    def _next_half(self) -> HalfMessage | None:
        """Return the half message at `half_offset`, which advances if there is none; None at the end of the queue."""
        ended, reader = self._ended, self._store.reader
        while ended.half_offset < reader.max_offset(HALF_TOPIC, QUEUE_ID):
            result = self._store.get(HALF_TOPIC, QUEUE_ID, ended.half_offset, 1)
            if result.count:
                record: Record = decode_records(result.slices[0], check_crc=False)[0]
                ended.half_offset = record.queue_offset
                return HalfMessage.of(record)
            if result.next_offset <= ended.half_offset:
                return None
            ended.half_offset = result.next_offset  # deleted by age, or damaged and reported
        return None

    def _deal_with(self, half: HalfMessage, round_end: int) -> bool:
        """Process *half*; return False if the round must stop before it. *round_end*: end of the queue when the round
        began."""
        verdict = self._judge(half, round_end)
        if verdict is Verdict.LATER:
            return False
        if self._has_ended_otherwise(half):
            return True
        if verdict is Verdict.GIVE_UP or not can_be_renewed(half):
            return self._give_up(half)
        if verdict is Verdict.IMMUNE:
            return self._put(renewed_unasked(half)) is not None
        return self._ask(half)

    def _judge(self, half: HalfMessage, round_end: int) -> Verdict:
        broker = self._settings.broker
        return judge(
            half,
            now_ms=self._now_ms(),
            round_end=round_end,
            timeout_ms=broker.transaction_timeout_ms,
            check_max=broker.transaction_check_max,
            kept_ms=self._settings.store.file_reserved_hours * _HOUR_MS,
        )

    def _has_ended_otherwise(self, half: HalfMessage) -> bool:
        """Return whether another copy of *half* has decided its outcome."""
        if self._has_first_copy_ended(half):
            return True
        if self._copies.has_newer(half):
            return True
        if self._copies.is_committed(half):
            self._ending.write_op(half, End.COMMITTED)
            return True
        return False

    def _has_first_copy_ended(self, half: HalfMessage) -> bool:
        first = half.prepared_queue_offset
        if first is None:
            return False
        log_offset = self._store.reader.log_offset(HALF_TOPIC, QUEUE_ID, first)  # None: deleted by age
        return bool(self._ended.end_of(first, log_offset or 0))

    def _give_up(self, half: HalfMessage) -> bool:
        self._topics.create_on_send_back(CHECK_MAX_TIME_TOPIC, 1, PERM_READ | PERM_WRITE)
        if self._put(given_up(half)) is None:
            return False
        logger.error(
            "half message %s of group %s for topic %s is given up after %d checks and moved to %s",
            half.unique_key,
            half.group,
            half.real_topic,
            half.check_times,
            CHECK_MAX_TIME_TOPIC,
        )
        return True

    def _ask(self, half: HalfMessage) -> bool:
        copy = renewed(half)
        place = self._put(copy)
        if place is None:
            return False
        group = half.group or ""
        request = check_request(half, copy, place)
        if request is None or not self._send(group, *request):
            self._unasked[group] += 1
        return True

    def _send(self, group: str, header: CheckTransactionStateHeader, body: bytes) -> bool:
        for _ in range(_PRODUCERS_TRIED_MAX):
            connection = self._producers.pick(group)
            if connection is None:
                return False
            try:
                connection.send_oneway(RequestCode.CHECK_TRANSACTION_STATE, header, body)
            except TransportError:  # it left just now, or does not read: try another member
                continue
            return True
        return False

    def _put(self, message: PendingMessage) -> AppendResult | None:
        """Store the message and return its position; None if it cannot be stored now, which is logged."""
        try:
            result = self._intake.put(message)
        except MQError as error:
            logger.error("the check of half messages stops until the next round: %s", error)
            return None
        if result.status is not PutStatus.PUT_OK:
            logger.error(
                "the check of half messages stops until the next round: %s", result.reason or result.status.value
            )
            return None
        return result.appended[0]

    def _save(self) -> None:
        ended = self._ended
        ended.settle()
        self._offsets.commit(TRANSACTION_GROUP, HALF_TOPIC, QUEUE_ID, ended.half_offset)
        self._offsets.commit(TRANSACTION_GROUP, OP_HALF_TOPIC, QUEUE_ID, ended.op_offset)
