"""The check of the key index: every entry leads to a message with that key, and every chain to its entries."""

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from hanabi.errors import RemoteProtocolError
from hanabi.store.inspection.expected import expected_key_hashes
from hanabi.store.inspection.home import FileReader, StoreHome
from hanabi.store.inspection.index_files import IndexEntry, IndexOnDisk, find_index_files, find_slots, read_header
from hanabi.store.inspection.log_lookup import LogLookup
from hanabi.store.inspection.verify.damage import Damage, DamageList
from hanabi.wire.message.record import decode_dispatch

_SECONDS_MAX: Final = 2**31 - 1


class IndexCounts(msgspec.Struct, rename="camel"):
    """Counts of the check of the index."""

    files: int = 0
    entries: int = 0  # of messages that the log has
    expired: int = 0  # of messages that the log no longer has
    chains: int = 0


class _Keys(NamedTuple):
    """The fields of one record that the index keeps."""

    hashes: set[int]
    stored_ms: int


class IndexChecks:
    """Compares the key index with the log."""

    def __init__(self, home: StoreHome, damage: DamageList) -> None:
        self.counts = IndexCounts()
        self._home, self._damage = home, damage
        self._reader, self._log_reader = FileReader(), FileReader()
        self._log = LogLookup(home, self._log_reader)
        self._files = find_index_files(home.index, self._reader)
        self._last_record: tuple[int, _Keys | str] = (-1, "")

    @property
    def bytes_total(self) -> int:
        return sum(file.size for file in self._files)

    def finish(self, log_offset_min: int, on_bytes: Callable[[int], None]) -> None:
        """Check every file. The log begins at *log_offset_min*."""
        slots_by_size: dict[int, int] = {}
        self._log.refresh()
        for file in self._files:
            self.counts.files += 1
            if file.count:
                slots = find_slots(file, self._reader, slots_by_size)
                if slots is None:
                    reason = "its header does not agree with any entry: its number of slots is unknown"
                    self._report(file, 0, reason)
                else:
                    self._check_header(file, slots, log_offset_min)
                    self._check_entries(file, slots, log_offset_min)
                    self._check_chains(file, slots)
            on_bytes(file.size)

    def close(self) -> None:
        self._reader.close()
        self._log_reader.close()

    def _report(self, file: IndexOnDisk, position: int, reason: str, log_offset: int | None = None) -> None:
        self._damage.add(Damage("index", self._home.relative(file.path), position, reason, log_offset))

    def _check_header(self, file: IndexOnDisk, slots: int, log_offset_min: int) -> None:
        for number, name, log_offset, time_ms in (
            (1, "begin", file.begin_log_offset, file.begin_ms),
            (file.count, "end", file.end_log_offset, file.end_ms),
        ):
            entry = file.entry(self._reader, slots, number)
            if entry is None:
                self._report(file, file.size, f"the file ends before entry {number}")
                return
            found = log_offset, time_ms
            if entry.log_offset != log_offset:
                found = entry.log_offset, time_ms
            elif log_offset >= log_offset_min:
                keys = self._keys_at(log_offset)
                found = log_offset, time_ms if isinstance(keys, str) else keys.stored_ms
            if found != (log_offset, time_ms) and read_header(file.path, self._reader) == file.header:
                reason = f"its header says {name} at log offset {log_offset}, time {time_ms}, its entries {found}"
                self._report(file, 0, reason)

    def _check_entries(self, file: IndexOnDisk, slots: int, log_offset_min: int) -> None:
        for entry in file.entries(self._reader, slots):
            if 0 <= entry.log_offset < max(log_offset_min, self._log.min_offset):
                self.counts.expired += 1
                continue
            self.counts.entries += 1
            reason = self._wrong_record(file, entry)
            if reason is not None:
                self._report(file, file.entry_at(slots, entry.number), reason, entry.log_offset)

    def _wrong_record(self, file: IndexOnDisk, entry: IndexEntry) -> str | None:
        """Return the reason why the record at *entry* is the wrong one; None if it has the key."""
        keys = self._keys_at(entry.log_offset)
        if isinstance(keys, str):
            return f"entry {entry.number} points at log offset {entry.log_offset}, {keys}"
        if entry.hashed_key not in keys.hashes:
            return (
                f"entry {entry.number} has the hash {entry.hashed_key},"
                f" but no key of the message at log offset {entry.log_offset} has"
            )
        seconds = min(max(keys.stored_ms - file.begin_ms, 0) // 1000, _SECONDS_MAX)
        if entry.number > 1 and entry.seconds != seconds:  # those of the first count from the end of the file before
            return f"entry {entry.number} is of second {entry.seconds}, but its message of second {seconds}"
        return None

    def _keys_at(self, log_offset: int) -> _Keys | str:
        """Return the keys of the message at *log_offset*, or why there is none."""
        if self._last_record[0] != log_offset:  # the entries of one message lie side by side
            self._last_record = log_offset, self._read_keys(log_offset)
        return self._last_record[1]

    def _read_keys(self, log_offset: int) -> _Keys | str:
        data = self._log.read(log_offset)
        if data is None:
            return "but the log does not reach there"
        try:
            record = decode_dispatch(data)
        except RemoteProtocolError:
            return "but there is no whole record"
        if record.log_offset != log_offset:
            return f"but the record there says that it lies at {record.log_offset}"
        return _Keys(expected_key_hashes(record), record.store_timestamp_ms)

    def _check_chains(self, file: IndexOnDisk, slots: int) -> None:
        """Follow every chain. Numbers must fall along it, so no entry is met twice: all are met if the sum is right."""
        met = 0
        for slot, newest in file.newest_of_slots(self._reader, slots):
            self.counts.chains += 1
            number, below = newest, file.entries_max(slots)
            slot_at = file.slot_at(slot)
            while number:
                if not 0 < number < below:
                    self._report(file, slot_at, f"the chain of slot {slot} leads to entry {number}, which cannot be")
                    break
                entry = file.entry(self._reader, slots, number)
                if entry is None or entry.hashed_key < 0 or entry.hashed_key % slots != slot:
                    if number > file.count:  # a broker died, or is, between the slot and the header
                        break
                    self._report(file, slot_at, f"the chain of slot {slot} leads to entry {number} of another slot")
                    break
                met += number <= file.count
                number, below = entry.previous, number
        if met < file.count:
            self._report(
                file, file.slot_at(0), f"{file.count - met} entries are in no chain: searches do not find them"
            )
