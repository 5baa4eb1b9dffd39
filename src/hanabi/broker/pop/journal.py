"""Journal of what is in flight, so that a kill of the broker forgets neither a pop nor an acknowledgement.

    record      bytes of the content 2 | crc32 of the content 4 | content
    content     Q number, queue id, committed, next offset, topic, group     a queue of a group, or it starts anew
                P number, next offset, pop time, invisible time, offsets     a pop
                D number, offsets                                            acknowledged, or stored again
                C number, offset, pop time, invisible time                   another invisible time

Each record is one write, which the kernel keeps when the process dies. Nothing is synced: after a power cut the end may
be missing, and messages are repeated from the committed offsets on. Reading stops at the first damaged record. The file
is rewritten when it has grown large; its size follows what is in flight.
"""

import contextlib
import logging
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from hanabi.broker.pop.in_flight import QueueFlights

MAGIC: Final = b"HANABIP1"
BYTES_MAX: Final = 16 << 20  # rewritten at this size, or at four times its last rewritten size
_GROWTH: Final = 4
_HEAD: Final = struct.Struct("<HI")
_QUEUE: Final = struct.Struct("<cIiqq")
_POP: Final = struct.Struct("<cIqqqq")
_DONE: Final = struct.Struct("<cIq")
_CHANGE: Final = struct.Struct("<cIqqq")

logger = logging.getLogger(__name__)

States = dict[tuple[str, str, int], QueueFlights]


class Journal:
    """The file. *path* None: nothing is persisted. A write that fails is reported once and retried with a rewrite."""

    def __init__(self, path: Path | None, snapshot: Callable[[], Iterable[QueueFlights]]) -> None:
        """*snapshot* returns all queues with messages in flight."""
        self._path, self._snapshot = path, snapshot
        self._descriptor = -1
        self._bytes = 0
        self._rewrite_at = BYTES_MAX
        self._is_reported = False

    def open(self) -> None:
        """Write what is in flight to a new file, and go on there."""
        if self._path is not None:
            self._rewrite(self._path)

    def close(self) -> None:
        """Close the file; later records are dropped."""
        self._path = None
        self._close_file()

    def queue(self, queue: QueueFlights) -> None:
        """Note a queue, before its first pop and after each leap of its offsets."""
        self._write(_queue(queue))

    def popped(self, queue: QueueFlights, offsets: Sequence[int], pop_ms: int, invisible_ms: int) -> None:
        """Note a pop; the queue's next offset is behind it already."""
        self._write(_pop(queue, offsets, pop_ms, invisible_ms))

    def done(self, queue: QueueFlights, offsets: Sequence[int]) -> None:
        """Note messages that are acknowledged or stored again."""
        self._write(_with_offsets(_DONE.pack(b"D", queue.number, offsets[0]), offsets))

    def changed(self, queue: QueueFlights, offset: int, pop_ms: int, invisible_ms: int) -> None:
        """Note another invisible time of a message."""
        self._write(_CHANGE.pack(b"C", queue.number, offset, pop_ms, invisible_ms))

    def _write(self, content: bytes) -> None:
        if self._path is None:
            return
        record = _framed(content)
        try:
            if self._descriptor < 0 or self._bytes > self._rewrite_at:
                self._rewrite(self._path)  # has the change of this record already, which is written all the same
            written = os.write(self._descriptor, record)
            if written != len(record):
                raise OSError(f"{written} of {len(record)} bytes were written")
            self._bytes += written
        except OSError as error:
            self._failed(error)
        else:
            self._is_reported = False

    def _rewrite(self, path: Path) -> None:
        self._close_file()
        content = b"".join((MAGIC, *map(_framed, _of_all(self._snapshot()))))
        temporary = path.with_name(path.name + ".tmp")
        with temporary.open("wb") as file:
            file.write(content)
        temporary.replace(path)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0))
        self._bytes = len(content)
        self._rewrite_at = max(BYTES_MAX, _GROWTH * len(content))

    def _failed(self, error: OSError) -> None:
        """Drop the file: half a record would hide all records behind it, and an old one would repeat less than it
        should."""
        self._close_file()
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
        if not self._is_reported:
            self._is_reported = True
            logger.error(
                "%s cannot be written (%s): after a crash more messages in flight will be repeated", self._path, error
            )

    def _close_file(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def read_journal(path: Path) -> States:
    """Return what was in flight, by topic, group and queue id; nothing if there is no file of ours."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        logger.error("%s cannot be read (%s): messages in flight are delivered again", path, error)
        return {}
    by_number: dict[int, QueueFlights] = {}
    states: States = {}
    if raw.startswith(MAGIC):
        for content in _contents(raw):
            _apply(content, by_number, states)
    elif raw:
        logger.error("%s is no journal of this version: messages in flight are delivered again", path)
    return states


def _contents(raw: bytes) -> Iterator[bytes]:
    at = len(MAGIC)
    while at + _HEAD.size <= len(raw):
        size, crc = _HEAD.unpack_from(raw, at)
        content = raw[at + _HEAD.size : at + _HEAD.size + size]
        if not size or len(content) < size or zlib.crc32(content) != crc:
            logger.warning("the journal of POP is damaged at byte %d: what follows is delivered again", at)
            return
        yield content
        at += _HEAD.size + size


def _apply(content: bytes, by_number: dict[int, QueueFlights], states: States) -> None:
    kind = content[:1]
    if kind == b"Q":
        _, number, queue_id, committed, next_offset = _QUEUE.unpack_from(content)
        topic, _, group = content[_QUEUE.size :].decode("utf-8", "replace").partition("\0")
        queue = QueueFlights(group, topic, queue_id, committed, number)
        queue.next_offset = next_offset
        by_number[number] = states[topic, group, queue_id] = queue
        return
    (number,) = struct.unpack_from("<I", content, 1)
    known = by_number.get(number)
    if known is None:
        return
    if kind == b"P":
        _, _, next_offset, pop_ms, invisible_ms, first = _POP.unpack_from(content)
        known.hand_out(_offsets(first, content[_POP.size :]), next_offset, pop_ms, invisible_ms)
    elif kind == b"D":
        for offset in _offsets(_DONE.unpack_from(content)[2], content[_DONE.size :]):
            known.close(offset)
    elif kind == b"C":
        _, _, offset, pop_ms, invisible_ms = _CHANGE.unpack_from(content)
        flight = known.flights.get(offset)
        if flight is not None:
            flight.pop_ms, flight.invisible_ms = pop_ms, invisible_ms


def _queue(queue: QueueFlights) -> bytes:
    head = _QUEUE.pack(b"Q", queue.number, queue.queue_id, queue.committed, queue.next_offset)
    return head + f"{queue.topic}\0{queue.group}".encode()


def _pop(queue: QueueFlights, offsets: Sequence[int], pop_ms: int, invisible_ms: int) -> bytes:
    head = _POP.pack(b"P", queue.number, queue.next_offset, pop_ms, invisible_ms, offsets[0])
    return _with_offsets(head, offsets)


def _of_all(queues: Iterable[QueueFlights]) -> Iterator[bytes]:
    for queue in queues:
        yield _queue(queue)
        for flight in queue.flights.values():
            yield _pop(queue, (flight.offset,), flight.pop_ms, flight.invisible_ms)


def _with_offsets(head: bytes, offsets: Sequence[int]) -> bytes:
    """Return *head* and the distances of *offsets* from the first one, which is in the head."""
    first = offsets[0]
    return head + struct.pack(f"<{len(offsets) - 1}I", *(offset - first for offset in offsets[1:]))


def _offsets(first: int, distances: bytes) -> list[int]:
    return [first, *(first + distance for (distance,) in struct.iter_unpack("<I", distances))]


def _framed(content: bytes) -> bytes:
    return _HEAD.pack(len(content), zlib.crc32(content)) + content
