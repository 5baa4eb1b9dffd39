"""Audit of the commit log: every record with its expected entries in queues and index, and every broken stretch.

Ordinary records are handled by the thousand. Delayed messages and those of light queues, whose entries differ, are
handled one by one: `expected_entries` is the specification of both.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hanabi.spark.decode.batches import Rows
from hanabi.spark.decode.checksums import bodies_match
from hanabi.spark.decode.fields import Mask, Positions
from hanabi.spark.decode.layout import Layout, lay_out
from hanabi.spark.pipelines.audit.keys import key_hashes
from hanabi.spark.pipelines.audit.rows import BROKEN, found, wrong
from hanabi.spark.store.chunks import Chunk
from hanabi.spark.store.damage import reason_of
from hanabi.spark.store.log import LogReader
from hanabi.spark.store.log_scan import LogTask, log_chunks
from hanabi.store.inspection.expected import ExpectedEntry, expected_entries
from hanabi.store.inspection.home import FileReader, StoreHome
from hanabi.store.inspection.log_scan import read_record
from hanabi.wire.message import property_names as names
from hanabi.wire.message import sysflag
from hanabi.wire.message.record import RecordState, check_record, decode_dispatch
from hanabi.wire.message.tags import tags_code
from hanabi.wire.system_names import SCHEDULE_TOPIC

_ROWS_MAX = 10_000


def audit_log(
    home: StoreHome, task: LogTask, delays_ms: tuple[int, ...] | None, *, is_last: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of [task.start, task.end). The log ends at the end of the last task."""
    reached = task.start
    with LogReader(home) as log:
        for chunk in log_chunks(task, log, _ROWS_MAX):
            yield from _audit_chunk(home, log, chunk, delays_ms)
            reached = max(reached, int((chunk.log_offsets + chunk.sizes).max(initial=0)))
        if not is_last:
            yield from _unwritten(home, log, reached, task.end)


def _audit_chunk(
    home: StoreHome, log: LogReader, chunk: Chunk, delays_ms: tuple[int, ...] | None
) -> Iterator[pa.RecordBatch]:
    layout, torn = lay_out(chunk.buffer, chunk.starts, chunk.sizes)
    good = (layout.log_offsets == chunk.log_offsets[layout.rows]) & bodies_match(layout)
    for row in sorted([*torn.tolist(), *layout.rows[~good].tolist()]):
        yield _broken(home, log, int(chunk.log_offsets[row]), _reason(chunk, row))
    layout = layout.only(good)
    if len(layout):
        yield from _records(layout, delays_ms)


def _records(layout: Layout, delays_ms: tuple[int, ...] | None) -> Iterator[pa.RecordBatch]:
    rows = Rows(layout)
    properties, topics = rows.properties, layout.topics
    is_waiting = layout.sys_flags & sysflag.TRANSACTION_PREPARED != 0  # prepared or rolled back: both have this bit
    is_taken_back = layout.sys_flags & sysflag.TRANSACTION_ROLLBACK == sysflag.TRANSACTION_ROLLBACK
    is_unusual = _mask(pc.equal(topics, SCHEDULE_TOPIC))
    is_unusual |= _mask(pc.is_valid(properties.find(names.INNER_MULTI_DISPATCH)))
    codes = _tags_codes(rows.tags)
    is_unknown = np.zeros(len(layout), np.bool_)  # due at delay levels that were not given
    additional: list[tuple[int, ExpectedEntry]] = []
    for row in np.flatnonzero(is_unusual & ~is_waiting).tolist():
        first, *more = expected_entries(decode_dispatch(_raw(layout, row)), delays_ms)
        if first.tags_code is None:
            is_unknown[row] = True
        else:
            codes[row] = first.tags_code
        additional += [(row, entry) for entry in more]
    in_queue = pa.array(~is_waiting)
    yield found(
        "record",
        len(layout),
        topic=pc.if_else(in_queue, topics, pa.scalar(None, pa.string())),
        queue_id=layout.queue_ids,
        queue_offset=layout.queue_offsets,
        log_offset=layout.log_offsets,
        size=layout.sizes,
        tags_code=pa.array(codes, mask=is_unknown),
        certain=True,
        stored_ms=layout.store_times_ms,
        keys=key_hashes(
            topics, properties.find(names.KEYS), properties.find(names.UNIQUE_KEY), np.asarray(is_taken_back)
        ),
    )
    if additional:
        at = np.array([row for row, _ in additional])
        yield found(
            "also",
            len(additional),
            topic=[entry.topic for _, entry in additional],
            queue_id=[entry.queue_id for _, entry in additional],
            queue_offset=[entry.queue_offset for _, entry in additional],
            log_offset=layout.log_offsets[at],
            size=layout.sizes[at],
            tags_code=[entry.tags_code for _, entry in additional],
            certain=False,
            stored_ms=layout.store_times_ms[at],
        )


def _tags_codes(tags: pa.Array) -> Positions:
    """Return the hash codes of *tags*. Each distinct tag is hashed once: tags are few, messages many."""
    coded = tags.dictionary_encode()
    by_number = np.array([*(tags_code(each) for each in coded.dictionary.to_pylist()), 0], np.int64)
    codes: Positions = by_number[coded.indices.fill_null(len(by_number) - 1).to_numpy(zero_copy_only=False)]
    return codes


def _unwritten(home: StoreHome, log: LogReader, reached: int, end: int) -> Iterator[pa.RecordBatch]:
    """Yield the damage between the last record of a task and its end. A filler is no damage."""
    with FileReader() as reader:
        while reached < end:
            number = int(log.numbers_of(np.array([reached]))[0])
            if number < 0:  # a missing file is reported once, not by each task
                reached = int(min(log.bases[log.bases > reached], default=end))
                continue
            file = log.files[number]
            checked = check_record(read_record(reader, file, reached - file.base))
            if checked.state is not RecordState.BLANK and reader.is_there(file.path):
                yield _broken(home, log, reached, "nothing is written here, but the log goes on behind it")
            reached = file.end


def _broken(home: StoreHome, log: LogReader, log_offset: int, reason: str) -> pa.RecordBatch:
    number = int(log.numbers_of(np.array([log_offset]))[0])
    path = home.relative(log.files[number].path) if number >= 0 else None
    return wrong(BROKEN, reason, log_offset=log_offset, file=path)


def _reason(chunk: Chunk, row: int) -> str:
    start, size = int(chunk.starts[row]), int(chunk.sizes[row])
    return reason_of(bytes(memoryview(chunk.buffer)[start : start + size]))


def _raw(layout: Layout, row: int) -> bytes:
    start, size = int(layout.starts[row]), int(layout.sizes[row])
    return bytes(memoryview(layout.buffer)[start : start + size])


def _mask(truths: pa.Array) -> Mask:
    found_true: Mask = truths.to_numpy(zero_copy_only=False)
    return found_true
