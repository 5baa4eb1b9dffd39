"""Delivery of timer messages at the moment that they ask for: seconds or days after they were sent.

    rmq_sys_wheel_timer, queue 0     the messages that wait, as 5.x stores them
    timer/                           when to look at which of them, see `timer_files`

    arrived ─> an entry in the file of its ten minutes
    the files of the present and of the next ten minutes are in memory, by tenths of a second:
    a tenth of a second has come ─> each message of it is read from the log and delivered, or, if it is not due yet but
                                    its part of the log is getting old, stored again in the timer topic ("rolled")

Memory holds 32 bytes for each message that is due soon, and nothing for the millions due later. Progress is saved every
second. After a kill the log shows what was delivered since (see `delivered_since`), and the timer topic what arrived
since: nothing is lost or delivered twice. Lost files are rebuilt the same way.

Agrees with 5.3.3's TimerMessageStore in what is stored and when; the files are ours, Apache's wheel and log are not
read. Better on purpose: due to the tenth of a second, retried until stored (Apache gives up after three times), and
rolled in time even where the log is kept for less than two days.
"""

import asyncio
import heapq
import logging
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from hanabi.broker.delay.delivered_since import timers_delivered_since
from hanabi.broker.delay.delivery_pace import NEVER_MS, SLICE_BYTES, SLICE_COUNT, Alarm, Retries, keep_stepping
from hanabi.broker.delay.redelivery import NoDestinationError, after_timer, rolled
from hanabi.broker.delay.repeats import Repeats
from hanabi.broker.delay.timer_files import (
    BUCKET_MS,
    ENTRY,
    KEPT_SLOTS,
    SLOT_MS,
    SLOTS_A_BUCKET,
    Checkpoint,
    Entry,
    TimerFiles,
    decode_entries,
    encode_entry,
)
from hanabi.broker.delay.timer_rules import PRECISION_MS, due_ms, examine_ms
from hanabi.broker.delay.timer_slots import Slots
from hanabi.broker.settings import Settings
from hanabi.errors import RemoteProtocolError, StoreDamaged, StoreError
from hanabi.store.indexer import Dispatched
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import MessageStore, PutResult
from hanabi.wire.message.properties import find_property
from hanabi.wire.message.record import Record, decode_record, decode_records
from hanabi.wire.system_names import TIMER_TOPIC

logger = logging.getLogger(__name__)

SAVE_SECONDS: Final = 1.0  # Apache: timerFlushIntervalMs
_LOAD_AHEAD_MS: Final = 30_000
_SPLIT_BYTES: Final = 1_024 * ENTRY.size  # about a millisecond
_UNSAVED_BYTES_MAX: Final = 8 << 20
_LOG_GROWTH_BYTES: Final = 64 << 20  # a save is due after this much log growth, which bounds the scan after a kill
_ROLL_WINDOW_MS: Final = 2 * 86_400_000  # Apache: timerRollWindowSlot
_ROLL_WINDOW_MS_MIN: Final = 60_000
_HOUR_MS: Final = 3_600_000
_WAIT_FOR_SAVE_MS: Final = 20


class Timer:
    """Keeps the entries and delivers due messages. Everything but file writes runs in the event loop's thread.

    Invariant: each message of the timer topic below `_next_offset` that is not done is in a file, in `_in_flight` or in
    `_unsaved`; and in memory too, if its slot is in a bucket below `_loaded_below`.
    """

    def __init__(
        self,
        store: MessageStore,
        put: Callable[[PendingMessage], PutResult],
        directory: Path,
        settings: Settings,
        now_ms: Callable[[], int],
        *,
        before_step: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """*put* stores a message without diverting it: messages that have waited still carry their delay.
        *before_step* is awaited before each step of `run`."""
        self._before_step = before_step
        self._store, self._put, self._settings, self._now_ms = store, put, settings, now_ms
        self._files = TimerFiles(directory)
        self._alarm = Alarm()
        self._writing = threading.Lock()
        self._save_now = asyncio.Event()
        self._cancelled: dict[tuple[str | None, str], int] = {}  # topic and unique key -> end of its use
        self._retries = Retries()
        self._done_elsewhere: list[tuple[int, int]] = []  # due before, at a queue offset below
        try:
            checkpoint = self._files.open()
        except StoreDamaged as error:
            logger.error("rebuilding the timer's files: %s", error)
            checkpoint = None
        self._begin(checkpoint)

    def _begin(self, checkpoint: Checkpoint | None) -> None:
        """Start from *checkpoint*, or from the timer topic alone."""
        reader = self._store.reader
        low, high = reader.min_offset(TIMER_TOPIC, 0), reader.max_offset(TIMER_TOPIC, 0)
        if checkpoint is not None and checkpoint.queue_offset > high:
            logger.error(
                "%s ends at %d, before the timer's checkpoint: rebuilding the timer's files", TIMER_TOPIC, high
            )
            checkpoint = None
        if checkpoint is None:
            self._files.clear()
            first = reader.log_offset(TIMER_TOPIC, 0, low)
            slot, log_offset = (self._now_ms() // SLOT_MS, self._store.max_log_offset) if first is None else (0, first)
            checkpoint = Checkpoint(low, slot, log_offset, {})
        # State of the files, including the write under way. Replaced as a whole, since a thread does it.
        self._kept: tuple[Checkpoint, dict[int, bytes]] = checkpoint, {}
        self._unsaved: dict[int, bytearray] = {}
        self._unsaved_bytes = 0
        self._next_offset = max(checkpoint.queue_offset, low)
        self._done_below = checkpoint.slot  # all slots below are done
        # The slot that may be saved, and the log's end at that moment. They stay unchanged while there are `_repeats`:
        # after another kill those are found by them.
        self._mark = checkpoint.slot, checkpoint.log_offset
        self._done_since_save = False
        self._slots = Slots()
        self._loaded_below = 0
        self._unloaded = sorted(checkpoint.bucket_bytes)  # a heap
        self._is_unloaded = set(self._unloaded)
        self._loading, self._loading_at = b"", 0
        self._repeats = Repeats(TIMER_TOPIC, self._store, timers_delivered_since, checkpoint.log_offset)
        self._begun_ms = self._now_ms()

    # Calls from other parts

    def arrived(self, dispatched: Dispatched) -> None:
        """Note a stored message if it is a timer message."""
        if dispatched.topic != TIMER_TOPIC or dispatched.queue_id != 0:
            return
        if dispatched.queue_offset > self._next_offset:
            self._alarm.wake()  # earlier messages were not read yet; all will be read
            return
        # Below it only if the queue was deleted and recreated.
        place = dispatched.queue_offset, dispatched.log_offset, dispatched.size
        self._add(*place, dispatched.properties, dispatched.store_timestamp_ms)

    def wake(self) -> None:
        """Check for due messages at once."""
        self._alarm.wake()

    async def run(self) -> None:
        """Deliver, and save every second, until cancelled."""
        await self._look_back()
        async with asyncio.TaskGroup() as tasks:
            stepping = keep_stepping(self.step, self._alarm, self._now_ms, look_back=self._look_back)
            tasks.create_task(stepping)
            tasks.create_task(self._keep_saving())

    async def _look_back(self) -> None:
        await self._repeats.look_in_thread()  # replaced when the files are rebuilt
        if self._before_step is not None:
            await self._before_step()

    def take_over(self, until_ms: int, queue_offset: int) -> None:
        """Leave out the messages that a slave has delivered while this master was away: all that were due before
        *until_ms*, of those below *queue_offset*, up to which it had read the timer topic."""
        self._done_elsewhere.append((until_ms, queue_offset))

    def _is_done_elsewhere(self, record: Record, due: int) -> bool:
        return any(due < until_ms and record.queue_offset < end for until_ms, end in self._done_elsewhere)

    def progress(self) -> tuple[int, int]:
        """Return the time up to which all is delivered, in milliseconds, and the first unread offset of the timer
        topic."""
        return self._done_below * SLOT_MS, self._next_offset

    # Entries

    def _add(self, queue_offset: int, log_offset: int, size: int, properties: bytes, store_ms: int) -> None:
        """Add an entry for the next message of the timer topic."""
        self._next_offset = queue_offset + 1
        due = due_ms(properties, store_ms)
        if due is None:
            logger.error("message %d of %s does not say when it is due: ignored", queue_offset, TIMER_TOPIC)
            return
        slot = self._slot(due, store_ms)
        if b"TIMER_DEL_UNIQKEY\x01" in properties:
            size = -size
        # A slot that counts as done must get no new entries in the files.
        entry = encode_entry(max(slot, self._done_below), queue_offset, log_offset, size)
        bucket = max(slot, self._done_below) // SLOTS_A_BUCKET
        unsaved = self._unsaved.get(bucket)
        if unsaved is None:
            unsaved = self._unsaved[bucket] = bytearray()
        unsaved += entry
        self._unsaved_bytes += ENTRY.size
        if bucket < self._loaded_below:
            self._slots.add(slot, entry, cancels=size < 0)
            self._alarm.wake(slot * SLOT_MS)
        elif bucket not in self._is_unloaded:
            heapq.heappush(self._unloaded, bucket)
            self._is_unloaded.add(bucket)
            self._alarm.wake(bucket * BUCKET_MS - _LOAD_AHEAD_MS)
        if self._unsaved_bytes > _UNSAVED_BYTES_MAX:
            self._save_now.set()

    def _slot(self, due: int, store_ms: int) -> int:
        return -(-examine_ms(due, store_ms, self._roll_window_ms()) // SLOT_MS)

    def _roll_window_ms(self) -> int:
        """Return how long a message may stay at its place in the log: less than the log's retention."""
        kept_ms = self._settings.store.file_reserved_hours * _HOUR_MS
        return max(min(_ROLL_WINDOW_MS, kept_ms * 2 // 3), _ROLL_WINDOW_MS_MIN)

    # One step

    def step(self) -> int:
        """Do a slice of the pending work; return when to call again: now if there is more."""
        self._repeats.look()  # a no-op if `run` has done it in a thread
        now_ms = self._now_ms()
        try:
            if self._next_offset < self._store.reader.max_offset(TIMER_TOPIC, 0):
                return self._follow(now_ms)
            if self._loading:
                self._split()
                return now_ms
            if self._begin_loading(now_ms):
                return now_ms
        except StoreDamaged as error:
            return self._begin_anew(now_ms, error)
        if self._retries.at_ms > now_ms:
            return self._retries.at_ms
        if self._work(now_ms):
            return now_ms
        if self._retries.at_ms > now_ms:
            return self._retries.at_ms
        self._move_on(now_ms)
        return self._next_ms(now_ms)

    def _begin_anew(self, now_ms: int, error: StoreDamaged) -> int:
        """Discard the files; return when to resume. A scan of the whole log comes next."""
        if not self._writing.acquire(blocking=False):
            return now_ms + _WAIT_FOR_SAVE_MS  # a thread waits for the disk; the loop must not
        try:
            logger.error("rebuilding the timer's files: %s", error)
            self._begin(None)
        finally:
            self._writing.release()
        return now_ms

    def _follow(self, now_ms: int) -> int:
        """Add entries for messages of the timer topic that arrived without a notification."""
        if self._unsaved_bytes > _UNSAVED_BYTES_MAX:
            self._save_now.set()
            return now_ms + _WAIT_FOR_SAVE_MS
        result = self._store.get(TIMER_TOPIC, 0, self._next_offset, SLICE_COUNT)
        for piece in result.slices:
            for record in decode_records(piece, check_crc=False):
                place = record.queue_offset, record.log_offset, record.size
                self._add(*place, record.properties, record.store_timestamp_ms)
        # Messages missing among the records are deleted or damaged, as the store has reported.
        self._next_offset = max(self._next_offset + (not result.slices), result.next_offset)
        return now_ms

    # Loading the entries of the near future

    def _begin_loading(self, now_ms: int) -> bool:
        """Read the next file if it is due within ten minutes and all before it is done."""
        # After the clock was set back, new entries go into the file of the first slot not done: load that one too.
        bucket_ahead = max((now_ms + _LOAD_AHEAD_MS) // BUCKET_MS, self._done_below // SLOTS_A_BUCKET)
        if not self._unloaded or self._unloaded[0] > bucket_ahead:
            self._loaded_below = max(self._loaded_below, bucket_ahead + 1)
            return False
        bucket = self._unloaded[0]
        if self._slots.first is not None and self._slots.first // SLOTS_A_BUCKET < bucket - 1:
            return False
        checkpoint, in_flight = self._kept
        parts = self._files.read(checkpoint, bucket), in_flight.get(bucket, b""), self._unsaved.get(bucket, b"")
        self._is_unloaded.discard(heapq.heappop(self._unloaded))  # only now: an unreadable file is retried later
        self._loading, self._loading_at = b"".join(parts), 0
        self._loaded_below = bucket + 1
        return True

    def _split(self) -> None:
        """Sort a slice of the loaded entries into their slots."""
        end = min(self._loading_at + _SPLIT_BYTES, len(self._loading))
        now_slot = self._now_ms() // SLOT_MS
        raw, at = self._loading, self._loading_at
        for entry in decode_entries(raw, at, end):
            # A finished cancellation is kept in memory for as long as it is of use.
            if entry.slot >= self._done_below or (entry.size < 0 and entry.slot >= self._done_below - KEPT_SLOTS):
                # An entry moved to the first slot not done may be due earlier: look at it now.
                slot = min(entry.slot, now_slot) if entry.slot == self._done_below else entry.slot
                self._slots.add(slot, raw[at : at + ENTRY.size], cancels=entry.size < 0)
            at += ENTRY.size
        self._loading_at = end
        if end == len(raw):
            self._loading = b""

    # Working on due entries

    def _work(self, now_ms: int) -> bool:
        """Work on a slice of the due entries; return whether there may be more."""
        count = size = 0
        while count < SLICE_COUNT and size < SLICE_BYTES:
            entry = self._slots.due(now_ms)
            if entry is None or not self._look_at(entry, now_ms):
                return False
            self._slots.done()
            self._done_since_save = True
            count, size = count + 1, size + abs(entry.size)
        return True

    def _look_at(self, entry: Entry, now_ms: int) -> bool:
        """Deliver, roll or drop one message; return False if it must be retried."""
        record = self._read(entry)
        if record is None or self._repeats.skip(record):
            return True
        due = due_ms(record.properties, record.store_timestamp_ms)
        if due is None or self._is_done_elsewhere(record, due):
            return True
        try:
            if due > now_ms:
                if self._put_back(entry, self._slot(due, record.store_timestamp_ms), now_ms):
                    return True
                message = rolled(record, now_ms)
            elif entry.size < 0:
                self._cancel(record, due)
                return True
            elif self._cancelled and self._is_cancelled(record):
                return True
            else:
                message = after_timer(record, now_ms)
        except NoDestinationError as error:
            logger.error("%s: discarded", error)
            return True
        return self._retries.is_over(
            self._put(message), now_ms, lambda: f"message {record.queue_offset} of {TIMER_TOPIC} for {message.topic}"
        )

    def _put_back(self, entry: Entry, slot: int, now_ms: int) -> bool:
        """Move an entry that `_split` made due early to its own *slot*, if that is still to come; return whether it is.

        Rolling it would leave a done message behind that is due after the next start.
        """
        slot = min(slot, entry.slot)
        if slot * SLOT_MS <= now_ms:
            return False
        self._slots.add(slot, encode_entry(*entry), cancels=entry.size < 0)
        return True

    def _read(self, entry: Entry) -> Record | None:
        view = self._store.queries.record(entry.log_offset)
        if view is None:
            reason = "it was deleted" if entry.log_offset < self._store.min_log_offset else "it is damaged"
            logger.error("message %d of %s is lost: %s", entry.queue_offset, TIMER_TOPIC, reason)
            return None
        try:
            record = decode_record(view, check_crc=False)
        except RemoteProtocolError as error:
            logger.error("message %d of %s is lost: %s", entry.queue_offset, TIMER_TOPIC, error)
            return None
        # The end of the log may have been lost in a power cut and overwritten since.
        return record if record.topic == TIMER_TOPIC and record.queue_offset == entry.queue_offset else None

    # Cancelling

    def _cancel(self, record: Record, due: int) -> None:
        key = find_property(record.properties, b"TIMER_DEL_UNIQKEY")
        if key is not None:
            self._cancelled[find_property(record.properties, b"REAL_TOPIC"), key] = due + 2 * PRECISION_MS

    def _is_cancelled(self, record: Record) -> bool:
        """Return whether a cancellation names the record's unique key, from 5.3.2 on prefixed with the topic.

        Unlike in Apache, it must be of the same topic: the right to send to another one is no right to cancel here.
        """
        key, topic = find_property(record.properties, b"UNIQ_KEY"), find_property(record.properties, b"REAL_TOPIC")
        return key is not None and ((topic, key) in self._cancelled or (topic, f"{topic}+{key}") in self._cancelled)

    # Progress

    def _move_on(self, now_ms: int) -> None:
        """Mark all slots up to now, or up to the first one not loaded, as done: no loaded entry is due any more."""
        done_below = now_ms // SLOT_MS + 1
        if self._unloaded:
            done_below = min(done_below, self._unloaded[0] * SLOTS_A_BUCKET)
        self._done_below = max(self._done_below, done_below)
        if done_below * SLOT_MS > self._repeats_until_ms():
            self._repeats.forget()
        if not self._repeats and self._done_below > self._mark[0]:
            self._mark = self._done_below, self._store.max_log_offset
        if self._cancelled:
            self._cancelled = {key: until for key, until in self._cancelled.items() if until > now_ms}

    def _next_ms(self, now_ms: int) -> int:
        next_ms = NEVER_MS if self._slots.first is None else self._slots.first * SLOT_MS
        if self._unloaded:
            next_ms = min(next_ms, max(self._unloaded[0] * BUCKET_MS - _LOAD_AHEAD_MS, 0))
        if self._repeats and self._repeats_until_ms() > now_ms:
            next_ms = min(next_ms, self._repeats_until_ms())
        return next_ms

    def _repeats_until_ms(self) -> int:
        """Return when all that the previous run found due has been due again."""
        return max(self._begun_ms, self._repeats.last_ms)

    # Saving

    async def _keep_saving(self) -> None:
        while True:
            try:
                async with asyncio.timeout(SAVE_SECONDS):
                    await self._save_now.wait()
            except TimeoutError:
                pass
            self._save_now.clear()
            if not self._is_changed():
                continue
            try:
                await asyncio.to_thread(self._write, self._snapshot())
            except StoreError as error:
                logger.error("the files of the timer: %s", error)
                self._done_since_save = True
                await asyncio.sleep(SAVE_SECONDS)

    def save(self) -> None:
        """Write everything that is not in the files yet. Blocks."""
        with self._writing:  # another write may be under way
            snapshot = self._snapshot()
        self._write(snapshot)

    def _is_changed(self) -> bool:
        checkpoint, in_flight = self._kept
        grown = self._mark[1] - checkpoint.log_offset
        return bool(self._unsaved or in_flight or self._done_since_save or grown > _LOG_GROWTH_BYTES)

    def _snapshot(self) -> Checkpoint:
        """Put all new entries in flight; return the checkpoint that holds once they are written."""
        checkpoint, failed = self._kept
        in_flight = {bucket: failed.get(bucket, b"") + entries for bucket, entries in self._unsaved.items()}
        self._kept = checkpoint, {**failed, **in_flight}
        self._unsaved, self._unsaved_bytes = {}, 0
        self._done_since_save = False
        return Checkpoint(self._next_offset, *self._mark, checkpoint.bucket_bytes)

    def _write(self, snapshot: Checkpoint) -> None:
        with self._writing:
            before, in_flight = self._kept
            if before.bucket_bytes is not snapshot.bucket_bytes:
                return  # the timer was rebuilt in between
            # Messages that count as done, or as seen, must not be lost in a power cut.
            self._store.flush(log_only=True)
            self._kept = self._files.write(snapshot, in_flight), {}
