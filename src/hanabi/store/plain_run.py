"""The short way through a read: all of a run of queue entries, where none of them needs a second look.

A read without filters finds, nearly always, whole records that came since the store was opened, in one log file, within
the limits for messages in memory. They are taken here, and none at all if one of them is anything else: then the read
in `reads` decides, which looks at each of them by itself. So taking none is always right. The compiled function takes
some more: long records, those of topics with a long name, and the first ones of a run that is too long.
"""

import contextlib
import os
import struct
from itertools import pairwise
from typing import Final

from hanabi.store.consume_queue import ENTRY, ENTRY_BYTES, Entry
from hanabi.wire.record import MAGIC
from hanabi.wire.sysflag import HOSTS_V6

# Records in order, in one piece where that is cheaper; how many, how many bytes; the last one's place and store time.
PlainRun = tuple[list[bytes | memoryview], int, int, int, int]

SHORT_SLICE_BYTES: Final = 4096  # so many slices, no longer than this, are copied: see `reads` for what that saves
MANY_SLICES: Final = 4

# Of a record whose hosts are IPv4, see `wire.record`: size, magic, queue id, queue offset, log offset, system flag and,
# unsigned, the length of the body: a negative one leads far out of the record.
_IDENTITY = struct.Struct(">iI4xi4xqqi44xI")
_IDENTITY_BYTES: Final = _IDENTITY.size
_unpack_identity = _IDENTITY.unpack_from
_STORE_TIME = struct.Struct(">q")
_STORE_TIME_AT: Final = 56


def plain_run(
    view: memoryview,
    base: int,
    entries: bytes,
    topic: bytes,
    queue_id: int,
    first_offset: int,
    log_offset_min: int,
    count_max: int,
    bytes_max: int,
) -> PlainRun | None:
    """The records of *entries*, as many as the limits allow; None if one of them needs a second look.

    *view* is a log file that begins at *base*; *topic* is a `topic_field`; the first entry is that of *first_offset*.
    What lies below *log_offset_min* needs one. The first record may be more than *bytes_max*.
    """
    wanted = list(ENTRY.iter_unpack(entries[: count_max * ENTRY_BYTES]))
    records = [view[log_offset - base : log_offset - base + size] for log_offset, size, _ in wanted]
    total = sum(map(len, records))
    if not 0 < total <= min(bytes_max, len(records) * SHORT_SLICE_BYTES):
        return None
    data = b"".join(records)  # before all else: bytes are looked into much faster than views of them
    at, log_offset, offset = 0, 0, first_offset
    try:
        for log_offset, size, _ in wanted:
            found_size, magic, found_queue_id, found_offset, found_log_offset, flags, body_bytes = _unpack_identity(
                data, at
            )
            end = at + size
            if (
                found_log_offset != log_offset
                or found_offset != offset
                or found_size != size
                or found_queue_id != queue_id
                or magic != MAGIC
                or flags & HOSTS_V6
                or log_offset < log_offset_min
                or not data.startswith(topic, at + _IDENTITY_BYTES + body_bytes, end)
            ):
                return None
            at = end
            offset += 1
    except struct.error:  # nothing is there, or half a record
        return None
    if at != total:
        return None
    (store_ms,) = _STORE_TIME.unpack_from(data, at - size + _STORE_TIME_AT)
    slices: list[bytes | memoryview] = [data] if _lie_apart(wanted) else _pieces(view, base, wanted)
    return slices, len(wanted), total, log_offset, store_ms


def _lie_apart(entries: list[Entry]) -> bool:
    """Whether the records are many pieces of the log, which are cheaper to copy than to hand on."""
    pieces = 1
    for (log_offset, size, _), (following, _, _) in pairwise(entries):
        if log_offset + size != following:
            pieces += 1
            if pieces == MANY_SLICES:
                return True
    return False


def _pieces(view: memoryview, base: int, entries: list[Entry]) -> list[bytes | memoryview]:
    """The records as they lie in the log, those side by side as one."""
    pieces: list[bytes | memoryview] = []
    start = end = entries[0][0]
    for log_offset, size, _ in entries:
        if log_offset != end:
            pieces.append(view[start - base : end - base])
            start = log_offset
        end = log_offset + size
    pieces.append(view[start - base : end - base])
    return pieces


python_plain_run = plain_run
if not os.environ.get("HANABI_PURE_PYTHON"):
    with contextlib.suppress(ImportError):
        from hanabi.store._speedups import plain_run  # type: ignore[no-redef]
