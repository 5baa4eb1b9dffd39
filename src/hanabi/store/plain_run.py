"""The short way through a read: all of a run of queue entries, where none of them needs a second look.

A read without filters finds, nearly always, whole records that came since the store was opened, in one log file, within
the limits for messages in memory. They are taken here, and none at all if one of them is anything else: then the read
in `reads` decides, which looks at each of them by itself. So taking none is always right. The compiled function takes
some more: long records, those of topics with a long name, and the first ones of a run that is too long.
"""

import contextlib
import os
import struct
from typing import Final

from hanabi.store.consume_queue import ENTRY_BYTES
from hanabi.wire.record import MAGIC
from hanabi.wire.sysflag import HOSTS_V6

# Records in order, in one piece where that is cheaper; how many, how many bytes; the last one's place and store time.
PlainRun = tuple[list[bytes | memoryview], int, int, int, int]

SHORT_SLICE_BYTES: Final = 4096  # so many slices, no longer than this, are copied: see `reads` for what that saves
MANY_SLICES: Final = 4

# Of an entry: where in the log its record should be, and how many bytes it has.
Place = tuple[int, int]
_PLACE = struct.Struct(">qi8x")

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
    wanted = places_in(entries[: count_max * ENTRY_BYTES])
    if not wanted:
        return None
    pieces = pieces_of(view, base, wanted)
    total = sum(map(len, pieces))
    if not 0 < total <= min(bytes_max, len(wanted) * SHORT_SLICE_BYTES):
        return None
    data = b"".join(pieces)  # before all else: bytes are looked into much faster than views of them
    if not are_records(data, 0, wanted, topic, queue_id, first_offset, log_offset_min):
        return None
    log_offset, size = wanted[-1]
    slices: list[bytes | memoryview] = [data] if len(pieces) >= MANY_SLICES else list(pieces)
    return slices, len(wanted), total, log_offset, store_time(data, total - size)


def places_in(entries: bytes) -> list[Place]:
    """Where the records of *entries* should be."""
    places: list[Place] = list(_PLACE.iter_unpack(entries))
    return places


def pieces_of(view: memoryview, base: int, places: list[Place]) -> list[memoryview]:
    """What lies at *places*; what lies side by side may be one piece. Some may be missing, or no record at all."""
    first, size = places[0]
    if len(places) > 1 and first + size != places[1][0]:  # others' messages between them, so joining is not worth it
        return [view[(at := log_offset - base) : at + size] for log_offset, size in places]
    pieces: list[memoryview] = []
    start = end = first
    for log_offset, size in places:
        if log_offset != end:
            pieces.append(view[start - base : end - base])
            start = log_offset
        end = log_offset + size
    pieces.append(view[start - base : end - base])
    return pieces


def are_records(
    data: bytes, at: int, places: list[Place], topic: bytes, queue_id: int, offset: int, log_offset_min: int
) -> bool:
    """Whether *data* has, from *at* to its end, the records that should be at *places*, one behind the other. The first
    is that of *offset*, and none of them lies below *log_offset_min*."""
    has_topic = data.startswith
    try:
        for log_offset, size in places:
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
                or not has_topic(topic, at + _IDENTITY_BYTES + body_bytes, end)
            ):
                return False
            at = end
            offset += 1
    except struct.error:  # nothing is there, or half a record
        return False
    return at == len(data)


def store_time(data: bytes, at: int) -> int:
    """When the record at *at* was stored, whose hosts are IPv4."""
    store_ms: int = _STORE_TIME.unpack_from(data, at + _STORE_TIME_AT)[0]
    return store_ms


python_plain_run = plain_run
if not os.environ.get("HANABI_PURE_PYTHON"):
    with contextlib.suppress(ImportError):
        from hanabi.store._speedups import plain_run  # type: ignore[no-redef]
