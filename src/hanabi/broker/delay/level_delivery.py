"""Delivery of messages with a delay level.

    SCHEDULE_TOPIC_XXXX, queue level - 1     messages of one level in the order they were stored, so in that of their
                                             times; the queue keeps the time of delivery in place of the tags code
    config/delayOffset.json                  level -> the first message that was not delivered: Apache's file
    config/delayDelivered.json               ours: the same, and where the log ended then; see `delivered`

One task serves all levels. It sleeps until the first message is due or `arrived` reports an earlier one. A level keeps
its order: a message that cannot be stored now is retried, and the following ones wait with it.

Agrees with ScheduleMessageService (4.9.8). Better on purpose: messages of a level that the settings no longer have are
delivered too; a message that can never be stored does not block its level; a kill repeats nothing.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from hanabi.broker.delay.delivered_since import levels_delivered_since
from hanabi.broker.delay.delivery_pace import NEVER_MS, SLICE_COUNT, Alarm, Retries, keep_stepping
from hanabi.broker.delay.redelivery import NoDestinationError, after_level
from hanabi.broker.delay.repeats import Repeats
from hanabi.broker.settings import Settings
from hanabi.broker.tables.pretty_json import pretty
from hanabi.durable_table import DurableTable
from hanabi.errors import StoreError
from hanabi.store.indexer import Dispatched
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import MessageStore, PutResult
from hanabi.store.read.queries import QueueEntry
from hanabi.wire.bodies.offsets import DelayOffsetTable
from hanabi.wire.delay_levels import DelayLevels
from hanabi.wire.fastjson import decode_file
from hanabi.wire.message.record import Record, decode_records
from hanabi.wire.system_names import HALF_TOPIC, SCHEDULE_TOPIC

logger = logging.getLogger(__name__)

_LOG_GROWTH_BYTES: Final = 64 << 20  # a save is due after this much log growth, which bounds the scan after a kill


class _Saved(msgspec.Struct, frozen=True, rename="camel"):
    """Delivery progress, and the log's end at that moment."""

    log_offset: int
    offset_table: dict[int, int]


_Marks = list[_Saved]  # content of `delayDelivered.json`: the newest mark and its predecessor


class _Level:
    """Queue and delivery progress of one level."""

    __slots__ = ("delay_ms", "due_ms", "offset", "queue_id", "retries")

    def __init__(self, queue_id: int, offset: int, delay_ms: int | None) -> None:
        self.queue_id, self.offset = queue_id, offset
        self.delay_ms = delay_ms  # None: the settings no longer have this level
        self.due_ms = NEVER_MS  # when the message at `offset` is due, as its queue says
        self.retries = Retries()

    def name(self) -> str:
        """Return the level's position, for logs."""
        return f"message {self.offset} of {SCHEDULE_TOPIC}/{self.queue_id}"

    def next_ms(self, now_ms: int) -> int:
        """Return when the level needs attention next."""
        due_ms = self.correct(self.due_ms, now_ms)
        return due_ms if due_ms > self.retries.at_ms or due_ms == NEVER_MS else self.retries.at_ms

    def correct(self, due_ms: int, now_ms: int) -> int:
        """Return the corrected due time: one later than the level allows is from other settings or from before the
        clock was set back, so it is due now."""
        if due_ms != NEVER_MS and self.delay_ms is not None and due_ms > now_ms + self.delay_ms:
            return now_ms
        return due_ms


class DelayedDelivery:
    """Delivers due messages. Everything but file writes runs in the event loop's thread."""

    def __init__(
        self,
        store: MessageStore,
        put: Callable[[PendingMessage], PutResult],
        levels: DelayLevels,
        config_directory: Path,
        settings: Settings,
        now_ms: Callable[[], int],
        *,
        before_step: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """*put* stores a message without diverting it: messages that have waited still carry their delay.
        *before_step* is awaited before each step of `run`."""
        self._before_step = before_step
        self._store, self._put, self._delays, self._settings, self._now_ms = store, put, levels, settings, now_ms
        self._file = DurableTable(config_directory / "delayOffset.json", encode=pretty, decode=_decode_table)
        self._mark: DurableTable[_Marks] = DurableTable(
            config_directory / "delayDelivered.json", encode=msgspec.json.encode, decode=_decode_marks
        )
        self._alarm = Alarm()
        self._writing = threading.Lock()
        self._levels: dict[int, _Level] = {}
        table = self._file.load()
        offsets = dict(table.offset_table) if table is not None else {}
        for level in sorted(
            {*range(1, levels.highest + 1), *offsets, *(queue_id + 1 for _, queue_id in _queues(store))}
        ):
            corrected = self._correct_offset(level, offsets.get(level, 0))
            self._levels[level] = _Level(level - 1, corrected, levels.delay_ms(level))
            self._begin_level(self._levels[level])
        # If another broker delivered in between, its table is right and our marks are stale.
        marks = (mark for mark in self._mark.load() or [] if mark.offset_table == offsets)
        self._saved: _Saved | None = next(marks, None)
        delivered_from = self._saved.log_offset if self._saved is not None else None
        if table is None:  # never saved, or lost: scan for everything ever delivered
            delivered_from = _first_log_offset(store)
        self._repeats = Repeats(SCHEDULE_TOPIC, store, levels_delivered_since, delivered_from)
        self._new_from = {queue_id: store.reader.max_offset(topic, queue_id) for topic, queue_id in _queues(store)}
        self._touched = set(offsets)  # levels in the table: those with deliveries

    # Calls from other parts

    def arrived(self, dispatched: Dispatched) -> None:
        """Note a stored message if it is a delayed one."""
        if dispatched.topic != SCHEDULE_TOPIC:
            return
        level = self._levels.get(dispatched.queue_id + 1)
        if level is None:
            level = self._levels[dispatched.queue_id + 1] = _Level(dispatched.queue_id, dispatched.queue_offset, None)
        if level.due_ms == NEVER_MS:  # else it waits behind an earlier one
            level.due_ms = dispatched.tags_code
            self._alarm.wake(dispatched.tags_code)

    def wake(self) -> None:
        """Check for due messages at once."""
        self._alarm.wake()

    async def run(self) -> None:
        """Deliver, and save periodically, until cancelled."""
        await self._look_back()
        async with asyncio.TaskGroup() as tasks:
            stepping = keep_stepping(self.step, self._alarm, self._now_ms, look_back=self._look_back)
            tasks.create_task(stepping)
            tasks.create_task(self._keep_saving())

    async def _look_back(self) -> None:
        await self._repeats.look_in_thread()
        if self._before_step is not None:
            await self._before_step()

    async def take_over(self, offsets: Mapping[int, int]) -> None:
        """Take over the progress of the slave that acted while this master was away; our own where it is larger. A new
        `DelayedDelivery` delivers the rest."""
        own = self.table().offset_table
        merged = {level: max(offset, own.get(level, 0)) for level, offset in {**own, **offsets}.items()}
        if merged != own:
            since = self._saved.log_offset if self._saved is not None else _first_log_offset(self._store)
            await self.adopt(merged, since if since is not None else 0)

    async def adopt(self, offsets: Mapping[int, int], log_offset: int) -> None:
        """Take over the progress of a slave's master. The slave's log ended at *log_offset* before it asked.

        A slave does not deliver. When it becomes a master, the log from there on shows what was delivered since.
        """
        for number, offset in offsets.items():
            level = self._levels.setdefault(number, _Level(number - 1, offset, self._delays.delay_ms(number)))
            level.offset = offset
        self._touched = set(offsets)
        adopted = _Saved(log_offset, dict(offsets))
        if self._differs(adopted):
            await asyncio.to_thread(self._write, adopted)

    def table(self) -> DelayOffsetTable:
        """Return the delivery progress of each level, in the format between brokers (GET_ALL_DELAY_OFFSET)."""
        return DelayOffsetTable(offset_table={level: self._levels[level].offset for level in sorted(self._touched)})

    def running_stats(self) -> dict[str, str]:
        """Return each level's line of the runtime info: delivered up to, stored up to."""
        reader = self._store.reader
        return {
            f"scheduleMessageOffset_{number}": f"{level.offset},{reader.max_offset(SCHEDULE_TOPIC, level.queue_id)}"
            for number, level in self._levels.items()
            if number in self._touched
        }

    # Delivering

    def step(self) -> int:
        """Deliver a slice of due messages; return when to call again: now if there are more."""
        self._repeats.look()  # a no-op if `run` has done it in a thread
        now_ms = self._now_ms()
        first = min(self._levels.values(), key=lambda level: level.next_ms(now_ms))
        if first.next_ms(now_ms) > now_ms:
            return min(first.next_ms(now_ms), self._forget_repeats(now_ms))
        try:
            self._deliver(first, now_ms)
        except StoreError as error:  # the queue cannot be read now; its messages are not lost
            first.retries.postpone(now_ms, first.name, str(error))
        return min(level.next_ms(now_ms) for level in self._levels.values())

    def _forget_repeats(self, now_ms: int) -> int:
        """Forget the repeats once all messages that the previous run found due are done; return when to look again."""
        if not self._repeats:
            return NEVER_MS
        if now_ms < self._repeats.last_ms:  # the clock was set back: delivered messages are due once more
            return self._repeats.last_ms
        if all(level.correct(level.due_ms, now_ms) > now_ms for level in self._levels.values()):
            self._repeats.forget()
        return NEVER_MS

    def _deliver(self, level: _Level, now_ms: int) -> None:
        store, queue_id, offset = self._store, level.queue_id, level.offset
        limit = offset + self._count_due(level, now_ms)
        result = store.get(SCHEDULE_TOPIC, queue_id, offset, SLICE_COUNT)
        for piece in result.slices:
            for record in decode_records(piece, check_crc=False):
                if record.queue_offset >= limit:
                    break
                if not self._deliver_one(level, record, now_ms):
                    level.offset = record.queue_offset
                    return
                level.offset = record.queue_offset + 1
        # Messages missing among the records are deleted or damaged, as the store has reported.
        level.offset = max(level.offset, min(result.next_offset, limit))
        self._touched.add(queue_id + 1)
        self._look_at_next(level)

    def _count_due(self, level: _Level, now_ms: int) -> int:
        count = 0
        for due_ms in self._deliver_times(level, SLICE_COUNT):
            if due_ms is not None and level.correct(due_ms, now_ms) > now_ms:
                break
            count += 1
        return count

    def _deliver_one(self, level: _Level, record: Record, now_ms: int) -> bool:
        """Deliver one message; return False if it must be retried."""
        if record.queue_offset < self._new_from.get(level.queue_id, 0) and self._repeats.skip(record):
            return True
        try:
            message = after_level(record)
        except NoDestinationError as error:
            logger.error("%s: discarded", error)
            return True
        if message.topic == HALF_TOPIC:  # as Apache: it would be a transaction without a beginning
            logger.error("message %d of %s is for %s: discarded", record.queue_offset, SCHEDULE_TOPIC, HALF_TOPIC)
            return True
        return level.retries.is_over(
            self._put(message),
            now_ms,
            lambda: f"message {record.queue_offset} of {SCHEDULE_TOPIC}/{level.queue_id} for {message.topic}",
        )

    def _begin_level(self, level: _Level) -> None:
        try:
            self._look_at_next(level)
        except StoreError as error:
            level.due_ms = 0  # unknown: `step` looks again
            level.retries.postpone(self._now_ms(), level.name, str(error))

    def _look_at_next(self, level: _Level) -> None:
        reader, queue_id = self._store.reader, level.queue_id
        while not (times := self._deliver_times(level, 1)):
            if level.offset >= reader.max_offset(SCHEDULE_TOPIC, queue_id):
                level.due_ms = NEVER_MS
                return
            # Deleted before delivery, or a damaged file: the store says where to resume.
            resumed = reader.get(SCHEDULE_TOPIC, queue_id, level.offset, 1).next_offset
            logger.error("%s/%d: messages %d to %d are gone", SCHEDULE_TOPIC, queue_id, level.offset, resumed - 1)
            level.offset = max(resumed, level.offset + 1)
        level.due_ms = 0 if times[0] is None else times[0]

    def _deliver_times(self, level: _Level, count: int) -> list[int | None]:
        """Return the due times of the next messages; None where the record is lost: there is nothing to wait for."""
        entries = self._store.queries.entries(SCHEDULE_TOPIC, level.queue_id, level.offset, count) or ()
        known = ((entry.known_tags_code, entry) for entry in entries)
        return [self._time_by_record(level, entry) if code is None else code for code, entry in known]

    def _time_by_record(self, level: _Level, entry: QueueEntry) -> int | None:
        """Return the due time from the record, for a message whose time was lost with the queue's extension file."""
        store_ms = self._store.queries.store_time_at(entry.log_offset)
        return None if store_ms < 0 else self._delays.deliver_time_ms(level.queue_id + 1, store_ms)

    def _correct_offset(self, level: int, offset: int) -> int:
        reader = self._store.reader
        low = reader.min_offset(SCHEDULE_TOPIC, level - 1)
        high = reader.max_offset(SCHEDULE_TOPIC, level - 1)
        if low <= offset <= high:
            return offset
        logger.error("delay level %d is delivered up to %d, but has %d to %d: corrected", level, offset, low, high)
        return low if offset < low else high

    # Saving

    async def _keep_saving(self) -> None:
        while True:
            await asyncio.sleep(self._settings.broker.flush_delay_offset_interval_ms / 1_000)
            saved = self._changed()
            if saved is None:
                continue
            try:
                await asyncio.to_thread(self._write, saved)
            except StoreError as error:
                logger.error("delayOffset.json: %s", error)

    def save(self) -> None:
        """Write the delivery progress. Blocks."""
        saved = self._changed()
        if saved is not None:
            self._write(saved)

    def _changed(self) -> _Saved | None:
        """Return the progress to write; None if the files are current, or must not change yet."""
        if self._repeats:
            return None  # repeats of the previous run are found by the files as they are now
        current = _Saved(self._store.max_log_offset, self.table().offset_table)
        return current if self._differs(current) else None

    def _differs(self, current: _Saved) -> bool:
        """Return whether the files are to be written: there is progress, or the log has grown much."""
        saved = self._saved
        if saved is None or current.offset_table != saved.offset_table:
            return True
        return current.log_offset - saved.log_offset > _LOG_GROWTH_BYTES

    def _write(self, saved: _Saved) -> None:
        with self._writing:
            # Delivered messages must not be lost in a power cut.
            self._store.flush(log_only=True)
            # The mark first: it refers to the table that is there until the new one is written.
            self._mark.save([saved] if self._saved is None else [saved, self._saved])
            self._file.save(DelayOffsetTable(offset_table=saved.offset_table))
            self._saved = saved


def _queues(store: MessageStore) -> list[tuple[str, int]]:
    return [queue for queue in store.queues() if queue[0] == SCHEDULE_TOPIC]


def _first_log_offset(store: MessageStore) -> int | None:
    """Return the log offset of the oldest delayed message, delivered or not; None if there is none."""
    reader = store.reader
    places = [reader.log_offset(*queue, reader.min_offset(*queue)) for queue in _queues(store)]
    return min((place for place in places if place is not None), default=None)


def _decode_table(raw: bytes) -> DelayOffsetTable:
    return decode_file(raw, DelayOffsetTable)


def _decode_marks(raw: bytes) -> _Marks:
    return msgspec.json.decode(raw, type=_Marks)
