"""The check of the consume queues against the log.

The scan of the log looks up the entry of every record (`QueueChecks.record`), which reads both from front to back.
Then every queue is walked (`finish`). A queue whose counts agree needs no more; in any other queue the records are
looked up one by one.

A message without an entry is not always damage. Its topic may have been deleted since, or deleted and made again; and
behind the end of its queue, in a store that was not stopped cleanly, the next start will make the entry.
"""

from collections.abc import Callable

import msgspec

from hanabi.errors import RemoteProtocolError
from hanabi.store.inspection.expected import ExpectedEntry, expected_entries
from hanabi.store.inspection.home import FileReader, StoreHome, sequence_problems
from hanabi.store.inspection.log_lookup import LogLookup
from hanabi.store.inspection.queues import EntryWindows, QueueExtensions, QueueOnDisk, find_queues
from hanabi.store.inspection.verify.damage import Damage, DamageList
from hanabi.store.queues.consume_queue import ENTRY, ENTRY_BYTES, Entry, is_blank, is_present
from hanabi.store.queues.consume_queue_ext import is_ext_address
from hanabi.store.upkeep.checkpoint import Checkpoint
from hanabi.wire.message.record import Dispatch, decode_dispatch


class QueueCounts(msgspec.Struct, rename="camel"):
    """Counts of the check of the consume queues."""

    queues: int = 0
    entries: int = 0  # of messages that the log has
    expired: int = 0  # of messages that the log no longer has
    blank: int = 0
    pending: int = 0  # messages that have no entry yet, and will get one
    deleted: int = 0  # messages of topics that were deleted since


class _Missing(msgspec.Struct, frozen=True):
    queue_offset: int
    log_offset: int
    stored_ms: int


class _Tally(msgspec.Struct):
    """The scan's findings about one queue."""

    queue: QueueOnDisk
    matched: int = 0
    missing: int = 0
    first_missing: _Missing | None = None
    differing: tuple[int, str] | None = None  # the first entry that is older than the record that should be there


class QueueChecks:
    """Compares the consume queues with the log."""

    def __init__(
        self,
        home: StoreHome,
        damage: DamageList,
        *,
        topics: set[str] | None,
        checkpoint: Checkpoint,
        stopped_cleanly: bool,
        delays_ms: tuple[int, ...] | None,
    ) -> None:
        """*topics* are those that the broker knows, *delays_ms* its delay levels; None if unknown."""
        self.counts = QueueCounts()
        self._home, self._damage = home, damage
        self._topics, self._checkpoint, self._stopped_cleanly = topics, checkpoint, stopped_cleanly
        self._delays_ms = delays_ms
        self._log_reader, self.reader = FileReader(), FileReader()
        self._log = LogLookup(home, self._log_reader)
        self._ext_reader = FileReader()
        self._extensions = QueueExtensions(home.queue_extensions, self._ext_reader)
        self._windows = EntryWindows(self.reader)
        self._tallies = {(queue.topic, queue.queue_id): _Tally(queue) for queue in find_queues(home.queues)}
        self._left_out = not self._tallies  # of a backup: they are rebuilt from the log

    @property
    def bytes_total(self) -> int:
        return sum(file.size for tally in self._tallies.values() for file in tally.queue.files)

    # during the scan of the log

    def record(self, record: Dispatch) -> None:
        """Check that *record*, which lies in the log, is in its queue."""
        for expected in expected_entries(record, self._delays_ms):
            self._expect(expected, record)

    def _expect(self, expected: ExpectedEntry, record: Dispatch) -> None:
        tally = self._tally(expected)
        if tally is None:
            self.counts.deleted += expected.is_certain
            return
        entry = self._windows.entry(tally.queue, expected.queue_offset)
        if entry is not None and self._agrees(entry, expected, record):
            tally.matched += 1
        elif expected.is_certain:
            self._differs(tally, entry, expected, record)

    def _tally(self, expected: ExpectedEntry) -> _Tally | None:
        """Return the queue that *expected* belongs in, None if there need not be one."""
        place = expected.topic, expected.queue_id
        tally = self._tallies.get(place)
        is_known = self._topics is None or expected.topic in self._topics
        if tally is None and expected.is_certain and is_known:
            directory = f"{self._home.queues}/{expected.topic}/{expected.queue_id}"
            tally = self._tallies[place] = _Tally(QueueOnDisk(directory, *place))  # made since we looked, or missing
        return tally

    def _differs(self, tally: _Tally, entry: Entry | None, expected: ExpectedEntry, record: Dispatch) -> None:
        if entry is None or is_blank(entry[0], entry[1]):
            if self._was_made_again(tally.queue, record):
                self.counts.deleted += 1
                return
            tally.missing += 1
            if tally.first_missing is None:
                tally.first_missing = _Missing(expected.queue_offset, record.log_offset, record.store_timestamp_ms)
        elif entry[0] > record.log_offset:
            self.counts.deleted += 1  # a newer message has its place; whether rightly, is seen when that one comes
        elif tally.differing is None:
            right = f"log offset {record.log_offset}, size {record.size}, tags code {expected.tags_code_text}"
            tally.differing = expected.queue_offset, f"{_show(entry)}, but by the log it must be {right}"

    def _agrees(self, entry: Entry, expected: ExpectedEntry, record: Dispatch) -> bool:
        log_offset, size, code = entry
        if log_offset != record.log_offset or size != record.size:
            return False
        if is_ext_address(code):
            return expected.allows(self._extensions.tags_code(expected.topic, expected.queue_id, code))
        return expected.allows(code)

    def _was_made_again(self, queue: QueueOnDisk, record: Dispatch) -> bool:
        first = queue.entry(self.reader, 0) if queue.first_offset == 0 else None
        return first is not None and not is_blank(first[0], first[1]) and first[0] > record.log_offset

    # afterwards

    def finish(self, log_offset_min: int, log_offset_end: int, on_bytes: Callable[[int], None]) -> None:
        """Walk over the queues. The log was seen from *log_offset_min* to *log_offset_end*."""
        self._log.refresh()
        for tally in self._tallies.values():
            if tally.queue.files:
                self.counts.queues += 1
            self._check_files(tally.queue)
            walk = _QueueWalk(self, tally, log_offset_min, log_offset_end)
            walk.run(in_doubt=False, on_bytes=on_bytes)
            if tally.differing is not None or walk.in_log != tally.matched:
                walk.run(in_doubt=True)
            self.counts.entries += walk.in_log + walk.newer
            self.counts.expired += walk.expired
            self.counts.blank += walk.blank
            self._judge_missing(tally, walk.end)

    def close(self) -> None:
        for reader in (self._log_reader, self.reader, self._ext_reader):
            reader.close()

    def _check_files(self, queue: QueueOnDisk) -> None:
        for file, position, reason in sequence_problems(queue.files):
            offset = (file.base + position) // ENTRY_BYTES
            self.report(queue, offset, reason, path=file.path, position=position)

    def _judge_missing(self, tally: _Tally, end: int) -> None:
        missing = tally.first_missing
        if missing is None:
            return
        is_later = missing.queue_offset >= end and missing.stored_ms > self._checkpoint.safe_ms
        if self._left_out or (is_later and not self._stopped_cleanly):
            self.counts.pending += tally.missing
            return
        path, at = tally.queue.file_at(missing.queue_offset)
        more = f" (nor have {tally.missing - 1} later ones)" if tally.missing > 1 else ""
        reason = f"the message at log offset {missing.log_offset} has no entry{more}"
        self.report(tally.queue, missing.queue_offset, reason, path=path, position=at, log_offset=missing.log_offset)

    def report(
        self,
        queue: QueueOnDisk,
        queue_offset: int,
        reason: str,
        *,
        path: str | None = None,
        position: int | None = None,
        log_offset: int | None = None,
    ) -> None:
        if path is None or position is None:
            path, position = queue.file_at(queue_offset)
        self._damage.add(Damage("consumequeue", self._home.relative(path), position, reason, log_offset, queue_offset))

    def wrong_record(self, queue: QueueOnDisk, queue_offset: int, entry: Entry) -> str | None:
        """Return the reason why the record at *entry* is the wrong one; None if it is the right one."""
        log_offset, _, _ = entry
        data = self._log.read(log_offset)
        if data is None:
            is_expired = log_offset < self._log.min_offset  # meanwhile
            return None if is_expired else f"{_show(entry)}, but the log does not reach there"
        try:
            record = decode_dispatch(data)
        except RemoteProtocolError:
            return f"{_show(entry)}, but there is no whole record"
        for expected in expected_entries(record, self._delays_ms):
            place = expected.topic, expected.queue_id, expected.queue_offset
            if place == (queue.topic, queue.queue_id, queue_offset) and record.log_offset == log_offset:
                if self._agrees(entry, expected, record):
                    return None
                return f"{_show(entry)}, but the record has size {record.size}, tags code {expected.tags_code_text}"
        return (
            f"{_show(entry)}, but there lies message {record.queue_offset} of {record.topic}/{record.queue_id}"
            f" of log offset {record.log_offset}"
        )


class _QueueWalk:
    """One walk over the entries of one queue."""

    def __init__(self, checks: QueueChecks, tally: _Tally, log_offset_min: int, log_offset_end: int) -> None:
        self._checks, self._tally, self._queue = checks, tally, tally.queue
        self._log_offset_min, self._log_offset_end = log_offset_min, log_offset_end
        self.in_log = self.newer = self.expired = self.blank = 0
        self.end = 0  # behind the last entry

    def run(self, *, in_doubt: bool, on_bytes: Callable[[int], None] = lambda _: None) -> None:
        """Count the entries and find holes; *in_doubt*, look up the record of each instead."""
        next_offset = self._queue.first_offset
        told = 0
        for file, position, data in self._queue.pieces(self._checks.reader):
            piece_offset = (file.base + position) // ENTRY_BYTES
            if not data.strip(b"\0"):
                continue
            for queue_offset, entry in enumerate(ENTRY.iter_unpack(data), piece_offset):
                log_offset, size, _ = entry
                if not is_present(log_offset, size):
                    if any(entry) and not in_doubt:
                        self._checks.report(self._queue, queue_offset, f"{_show(entry)}: that is no entry")
                        next_offset = queue_offset + 1
                    continue
                if queue_offset > next_offset and not in_doubt and self._has_file(next_offset):
                    self._checks.report(self._queue, next_offset, "no entry here, but entries behind it")
                next_offset = self.end = queue_offset + 1
                if is_blank(log_offset, size):
                    self.blank += not in_doubt
                elif in_doubt:
                    self._look_up(queue_offset, entry)
                else:
                    self._count(queue_offset, entry)
            on_bytes(len(data))
            told += len(data)
        on_bytes(sum(file.size for file in self._queue.files) - told)

    def _has_file(self, queue_offset: int) -> bool:
        """Return False if the file is missing, which is reported once instead of its entries."""
        position = queue_offset * ENTRY_BYTES
        return any(file.base <= position < file.end for file in self._queue.files)

    def _count(self, queue_offset: int, entry: Entry) -> None:
        if entry[0] < self._log_offset_min:
            self.expired += 1
        elif entry[0] < self._log_offset_end:
            self.in_log += 1
        else:
            self.newer += 1
            self._report_wrong_record(queue_offset, entry)

    def _look_up(self, queue_offset: int, entry: Entry) -> None:
        differing = self._tally.differing
        if differing is not None and queue_offset == differing[0]:
            self._checks.report(self._queue, queue_offset, differing[1], log_offset=entry[0])
        elif self._log_offset_min <= entry[0] < self._log_offset_end:
            self._report_wrong_record(queue_offset, entry)

    def _report_wrong_record(self, queue_offset: int, entry: Entry) -> None:
        reason = self._checks.wrong_record(self._queue, queue_offset, entry)
        if reason is not None:
            self._checks.report(self._queue, queue_offset, reason, log_offset=entry[0])


def _show(entry: Entry) -> str:
    log_offset, size, tags_code = entry
    return f"log offset {log_offset}, size {size}, tags code {tags_code}"
