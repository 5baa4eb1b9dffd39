"""Audit of the key index: its entries, and whether the hash chains of a file reach all of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hanabi.errors import RemoteProtocolError
from hanabi.spark.decode.fields import Positions
from hanabi.spark.pipelines.audit.rows import found, wrong
from hanabi.store.index.index_file import ENTRY, SLOT
from hanabi.store.inspection.expected import expected_key_hashes
from hanabi.store.inspection.home import FileReader, StoreHome
from hanabi.store.inspection.index_files import IndexOnDisk, find_index_files, find_slots, read_header
from hanabi.store.inspection.log_lookup import LogLookup
from hanabi.wire.message.record import Dispatch, decode_dispatch

ENTRIES_AT_ONCE: Final = 50_000

_ENTRY: Final = np.dtype([("hash", ">i4"), ("log_offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")])


@dataclass(frozen=True)
class KnownIndex:
    """An index file whose number of slots is known."""

    file: IndexOnDisk
    slots: int


def find_index(home: StoreHome) -> tuple[list[KnownIndex], list[pa.RecordBatch]]:
    """Return all index files with entries, and the differences in their headers."""
    known: list[KnownIndex] = []
    problems: list[pa.RecordBatch] = []
    slots_by_size: dict[int, int] = {}
    with FileReader() as reader, FileReader() as log_reader:
        log = LogLookup(home, log_reader)
        for file in find_index_files(home.index, reader):
            if not file.count:
                continue
            name = home.relative(file.path)
            slots = find_slots(file, reader, slots_by_size)
            if slots is None:
                reason = "its header does not agree with any entry: its number of slots is unknown"
                problems.append(wrong("index-header", reason, file=name))
                continue
            known.append(KnownIndex(file, slots))
            problems += [
                wrong("index-header", reason, file=name) for reason in _header_problems(file, slots, reader, log)
            ]
    return known, problems


def _header_problems(file: IndexOnDisk, slots: int, reader: FileReader, log: LogLookup) -> Iterator[str]:
    for number, name, log_offset, time_ms in (
        (1, "begin", file.begin_log_offset, file.begin_ms),
        (file.count, "end", file.end_log_offset, file.end_ms),
    ):
        entry = file.entry(reader, slots, number)
        if entry is None:
            yield f"the file ends before entry {number}"
            return
        record = _record_at(log, log_offset)
        is_right = entry.log_offset == log_offset and (record is None or record.store_timestamp_ms == time_ms)
        if not is_right and read_header(file.path, reader) == file.header:  # otherwise a running broker just changed it
            yield f"its header says {name} at log offset {log_offset}, time {time_ms}; its entries do not"


def audit_entries(home: StoreHome, index: KnownIndex, first: int, end: int, log_end: int) -> Iterator[pa.RecordBatch]:
    """Yield the entries [first, end) of one file. Entries that point behind *log_end* are looked up, as in `queues`."""
    name = home.relative(index.file.path)
    with FileReader() as reader, FileReader() as log_reader:
        log = LogLookup(home, log_reader)
        for start in range(first, end, ENTRIES_AT_ONCE):
            raw = _read(reader, index, start, min(start + ENTRIES_AT_ONCE, end))
            numbers = start + np.arange(len(raw))
            log_offsets = raw["log_offset"].astype(np.int64)
            is_newer = log_offsets >= log_end
            for row in np.flatnonzero(is_newer).tolist():
                yield _judge_newer(name, int(numbers[row]), int(raw["hash"][row]), int(log_offsets[row]), log)
            rest = ~is_newer
            yield found(
                "key",
                int(rest.sum()),
                file=name,
                number=numbers[rest],
                hash=raw["hash"].astype(np.int32)[rest],
                log_offset=log_offsets[rest],
                seconds=raw["seconds"].astype(np.int32)[rest],
                begin_ms=index.file.begin_ms,
            )


def _judge_newer(name: str, number: int, hashed_key: int, log_offset: int, log: LogLookup) -> pa.RecordBatch:
    record = _record_at(log, log_offset)
    place = {"file": name, "number": number, "log_offset": log_offset}
    if record is None:
        return wrong("index-points-nowhere", f"entry {number}: no record begins there", **place)
    if hashed_key not in expected_key_hashes(record):
        return wrong("index-other-key", f"entry {number}: no key of the message has the hash {hashed_key}", **place)
    return found("newer-key", 1, **place)


def audit_chains(home: StoreHome, index: KnownIndex) -> Iterator[pa.RecordBatch]:
    """Yield the slots that do not lead to their newest entry, and the entries that do not lead to the one before.

    A file has at most 20 million entries with Apache's settings: eight bytes of each are kept in memory here.
    """
    name, count = home.relative(index.file.path), index.file.count
    with FileReader() as reader:
        raw = [
            _read(reader, index, at, min(at + ENTRIES_AT_ONCE, count + 1))
            for at in range(1, count + 1, ENTRIES_AT_ONCE)
        ]
        hashes = np.concatenate([each["hash"].astype(np.int32) for each in raw])
        previous = np.concatenate([each["previous"].astype(np.int32) for each in raw])
        newest = _newest_of_slots(reader, index)
        slots = np.where(hashes >= 0, hashes % index.slots, -1).astype(np.int32)
        order = np.argsort(slots, kind="stable")
        follows = np.zeros(len(order), np.bool_)
        follows[1:] = slots[order][1:] == slots[order][:-1]
        before = np.where(follows, np.roll(order, 1) + 1, 0)
        expected = np.empty(len(order), np.int64)
        expected[order] = before
        for row in np.flatnonzero((previous != expected) & (slots >= 0)).tolist():
            reason = f"entry {row + 1} leads to entry {previous[row]} of its slot, the one before it is {expected[row]}"
            yield wrong("index-chain", reason, file=name, number=row + 1)
        last = np.zeros(index.slots, np.int64)
        last[slots[slots >= 0]] = np.flatnonzero(slots >= 0) + 1  # of several entries in a slot, the newest wins
        for slot in np.flatnonzero(newest != last).tolist():
            if _reached(reader, index, slot, int(newest[slot])) != last[slot]:
                reason = f"slot {slot} leads to entry {newest[slot]}, its newest one is {last[slot]}"
                yield wrong("index-chain", reason, file=name)


def _reached(reader: FileReader, index: KnownIndex, slot: int, number: int) -> int:
    """Return the first counted entry of a chain: a broker writes the entry, then its slot, then the header."""
    below = index.file.entries_max(index.slots)
    while index.file.count < number < below:
        entry = index.file.entry(reader, index.slots, number)
        if entry is None or entry.hashed_key < 0 or entry.hashed_key % index.slots != slot:
            return -1
        below, number = number, entry.previous
    return number if number < below else -1


def _newest_of_slots(reader: FileReader, index: KnownIndex) -> Positions:
    newest = np.zeros(index.slots, np.int64)
    data = reader.read(index.file.path, index.file.slot_at(0), index.slots * SLOT.size)
    there = np.frombuffer(data, ">i4", len(data) // SLOT.size)
    newest[: len(there)] = there
    return newest


def _read(reader: FileReader, index: KnownIndex, first: int, end: int) -> NDArray[np.void]:
    data = reader.read(index.file.path, index.file.entry_at(index.slots, first), (end - first) * ENTRY.size)
    return np.frombuffer(data, _ENTRY, len(data) // ENTRY.size)


def _record_at(log: LogLookup, log_offset: int) -> Dispatch | None:
    data = log.read(log_offset)
    if data is None:
        return None
    try:
        record = decode_dispatch(data)
    except RemoteProtocolError:
        return None
    return record if record.log_offset == log_offset else None
