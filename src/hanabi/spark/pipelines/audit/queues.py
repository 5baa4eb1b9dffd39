"""Audit of the consume queues: their entries, gaps between them, and invalid entries."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from hanabi.errors import RemoteProtocolError
from hanabi.spark.decode.fields import Positions
from hanabi.spark.pipelines.audit.rows import found, wrong
from hanabi.spark.store.entries import ENTRY_DTYPE
from hanabi.store.inspection.expected import expected_entries
from hanabi.store.inspection.home import FileReader, StoreHome
from hanabi.store.inspection.log_lookup import LogLookup
from hanabi.store.inspection.queues import QueueExtensions, QueueOnDisk
from hanabi.store.queues.consume_queue import BLANK_SIZE, ENTRY_BYTES
from hanabi.store.queues.consume_queue_ext import is_ext_address
from hanabi.wire.message.record import decode_dispatch

_EXT_ADDRESS_MAX: Final = -(2**31) - 1


@dataclass(frozen=True)
class QueueFile:
    """One file of one queue."""

    topic: str
    queue_id: int
    base: int
    size: int


def audit_queues(
    home: StoreHome, files: tuple[QueueFile, ...], log_end: int, delays_ms: tuple[int, ...] | None
) -> Iterator[pa.RecordBatch]:
    """Yield the entries of *files*.

    The audit compares the log up to *log_end*; entries that point behind it are looked up.
    """
    with FileReader() as reader, FileReader() as ext_reader, FileReader() as log_reader:
        extensions = QueueExtensions(home.queue_extensions, ext_reader)
        newer = _Newer(LogLookup(home, log_reader), extensions, delays_ms)
        for file in files:
            yield from _audit_file(home, file, reader, extensions, newer, log_end)


def _audit_file(
    home: StoreHome,
    file: QueueFile,
    reader: FileReader,
    extensions: QueueExtensions,
    newer: "_Newer",
    log_end: int,
) -> Iterator[pa.RecordBatch]:
    queue = QueueOnDisk(f"{home.queues}/{file.topic}/{file.queue_id}", file.topic, file.queue_id)
    queue.files = [each for each in queue.files if each.base == file.base]
    place = {"topic": file.topic, "queue_id": file.queue_id}
    span: tuple[int, int] | None = None
    for data_file, position, data in queue.pieces(reader):
        raw = np.frombuffer(data, ENTRY_DTYPE)
        offsets = (data_file.base + position) // ENTRY_BYTES + np.arange(len(raw))
        log_offsets, sizes = raw["log_offset"].astype(np.int64), raw["size"].astype(np.int64)
        codes = raw["tags_code"].astype(np.int64)
        is_present = (log_offsets >= 0) & (sizes > 0)
        is_nothing = (log_offsets == 0) & (sizes == 0) & (codes == 0)
        for row in np.flatnonzero(~is_present & ~is_nothing).tolist():
            reason = f"{_show(log_offsets[row], sizes[row], codes[row])}: that is no entry"
            yield wrong("no-entry-there", reason, queue_offset=int(offsets[row]), **place)
        taken = offsets[~is_nothing]
        if not len(taken):
            continue
        if span is None:
            span = int(taken[0]), int(taken[0])
        for start, stop in _gaps(taken, span[1]):
            yield wrong("gap", gap_reason(start, stop), queue_offset=start, **place)
        span = span[0], int(taken[-1]) + 1
        is_blank = is_present & (sizes == BLANK_SIZE) & (log_offsets == 0)
        if is_blank.any():
            yield found("blank", int(is_blank.sum()), queue_offset=offsets[is_blank], **place)
        is_newer = is_present & ~is_blank & (log_offsets >= log_end)
        for row in np.flatnonzero(is_newer).tolist():
            entry = int(log_offsets[row]), int(sizes[row]), int(codes[row])
            yield newer.judge(file, int(offsets[row]), entry)
        is_entry = is_present & ~is_blank & ~is_newer
        yield found(
            "entry",
            int(is_entry.sum()),
            queue_offset=offsets[is_entry],
            log_offset=log_offsets[is_entry],
            size=sizes[is_entry],
            tags_code=_real_codes(codes[is_entry], file, extensions),
            **place,
        )
    first, end = span if span is not None else (None, None)
    room = {"size": file.base // ENTRY_BYTES, "number": file.size // ENTRY_BYTES}
    yield found("span", 1, queue_offset=first, log_offset=end, **room, **place)


def gap_reason(first: int, end: int) -> str:
    """Return the reason text for positions without an entry that have entries after them."""
    places = "no entry here" if end == first + 1 else f"no entries here and at the next {end - first - 1}"
    return f"{places}, but there are some behind"


def _gaps(taken: Positions, expected: int) -> Iterator[tuple[int, int]]:
    before = np.concatenate([[expected], taken[:-1] + 1])
    for row in np.flatnonzero(taken > before).tolist():
        yield int(before[row]), int(taken[row])


def _real_codes(codes: Positions, file: QueueFile, extensions: QueueExtensions) -> pa.Array:
    """Return the tags codes; null if the extension lacks the code of an entry."""
    is_address = codes <= _EXT_ADDRESS_MAX
    if not is_address.any():
        return pa.array(codes)
    real: list[int | None] = codes.tolist()
    for row in np.flatnonzero(is_address).tolist():
        real[row] = extensions.tags_code(file.topic, file.queue_id, int(codes[row]))
    return pa.array(real, pa.int64())


class _Newer:
    """Entries of messages stored after the audit began, or that point behind the end of the log."""

    def __init__(self, log: LogLookup, extensions: QueueExtensions, delays_ms: tuple[int, ...] | None) -> None:
        self._log, self._extensions, self._delays_ms = log, extensions, delays_ms

    def judge(self, file: QueueFile, queue_offset: int, entry: tuple[int, int, int]) -> pa.RecordBatch:
        """Return a row of kind `newer` for a correct entry; otherwise an entry with its difference."""
        place = {"topic": file.topic, "queue_id": file.queue_id, "queue_offset": queue_offset, "log_offset": entry[0]}
        code: int | None = entry[2]
        if is_ext_address(entry[2]):
            code = self._extensions.tags_code(file.topic, file.queue_id, entry[2])
        difference, reason = self._problem(file, queue_offset, (entry[0], entry[1], code))
        if difference is None:
            return found("newer", 1, **place)
        return found("entry", 1, size=entry[1], tags_code=code, difference=difference, reason=reason, **place)

    def _problem(
        self, file: QueueFile, queue_offset: int, entry: tuple[int, int, int | None]
    ) -> tuple[str | None, str]:
        data = self._log.read(entry[0])
        if data is None:
            return "points-nowhere", ", but the log does not reach there"
        try:
            record = decode_dispatch(data)
        except RemoteProtocolError:
            return "points-nowhere", ", but no record begins there"
        place = (file.topic, file.queue_id, queue_offset)
        is_expected = any(
            expected[:3] == place and expected.allows(entry[2])
            for expected in expected_entries(record, self._delays_ms)
        )
        if is_expected and (record.log_offset, record.size) == entry[:2]:
            return None, ""
        return "other-message", f", but there lies message {record.queue_offset} of {record.topic}/{record.queue_id}"


def _show(log_offset: int, size: int, tags_code: int) -> str:
    return f"log offset {log_offset}, size {size}, tags code {tags_code}"
