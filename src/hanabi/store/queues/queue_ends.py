"""The file `consumequeue.ends`: where each consume queue ended at the last checkpoint, with checksums of its files.

    owner                                    the content of `lock` when this was written
    [[topic, queue id, first byte, end byte, log offset, [CRC of each file]], ...]
    [topic, queue id, first byte]            changes since: older files were deleted,
    [topic, queue id, null]                  or the whole queue

One JSON value a line, each behind its own CRC. A start compares the queues with it, and what lacks or differs is built
again from the log. It says the least that must be there: queues only grow, and what makes them shorter adds a line
before it is done.

Apache's broker knows no such file. It writes "lock" over ours at its start, and then this file has another owner and
is ignored: every change of the queues since then is right.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from hanabi.errors import StoreDamaged, StoreError
from hanabi.store.files.segment import sync_file
from hanabi.wire.message.crc import crc32

logger = logging.getLogger(__name__)

_CRC_DIGITS: Final = 8
UNKNOWN: Final = -1  # a checksum that was not taken

QueueKey = tuple[str, int]


class QueueEnd(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The known facts about one queue's files."""

    topic: str
    queue_id: int
    first: int  # where the oldest file begins
    end: int  # behind the last entry that is in a file
    log_offset: int  # behind the last message, or one that came a moment later
    checksums: tuple[int, ...]  # of the last files, up to `end`; UNKNOWN


class QueueEnds:
    """The file. One thread writes it; the lines of changes come from any thread."""

    def __init__(self, path: Path, owner: str) -> None:
        self.path, self.owner = path, owner
        self._temporary = path.with_name(path.name + ".tmp")
        self._lock = threading.Lock()
        self._descriptor: int | None = None  # for the lines of changes
        self._meanwhile: list[bytes] | None = None  # lines that came while the file is being replaced
        self._is_synced = True
        self._last_error = ""

    def load(self) -> dict[QueueKey, QueueEnd]:
        """Return the known facts about each queue; none if the file is missing, damaged or another owner's."""
        try:
            raw = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StoreError.from_os_error(error, f"reading {self.path}") from error
        try:
            owner, known = _decode(raw)
        except (StoreDamaged, msgspec.MsgspecError) as error:
            logger.warning("%s is damaged, so the consume queues are not compared with it: %s", self.path, error)
            return {}
        if owner != self.owner:
            logger.info("another broker has used %s: the consume queues are taken as they are", self.path.parent)
            return {}
        return known

    def write(self, snapshot: Callable[[], Iterable[QueueEnd]]) -> bool:
        """Replace the file by the result of *snapshot*. False, and one log line, if it cannot be written: the old
        content is still true then."""
        with self._lock:
            self._meanwhile = []
        try:
            descriptor = self._write_temporary(_line(self.owner) + _line(list(snapshot())))
            self._replace(descriptor)
        except OSError as error:
            reason = error.strerror or str(error)
            if reason != self._last_error:
                logger.warning("%s cannot be written, so damage since is not found at a start: %s", self.path, reason)
            self._last_error = reason
            return False
        finally:
            self._meanwhile = None
        self._last_error = ""
        return True

    def _write_temporary(self, content: bytes) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(self._temporary, flags, 0o644)
        try:
            _write_all(descriptor, content)
            sync_file(descriptor)
        except OSError:
            os.close(descriptor)
            self._temporary.unlink(missing_ok=True)
            raise
        return descriptor

    def _replace(self, descriptor: int) -> None:
        with self._lock:
            try:
                _write_all(descriptor, b"".join(self._meanwhile or ()))
                self._temporary.replace(self.path)
            except OSError:
                os.close(descriptor)
                raise
            self._use(descriptor)
            self._meanwhile = None

    # Changes

    def moved(self, topic: str, queue_id: int, first: int) -> None:
        """Record that the queue's files begin at *first* from now on."""
        self._add(_line([topic, queue_id, first]))

    def gone(self, topic: str, queue_id: int) -> None:
        """Record that the queue was deleted or cut: earlier facts about it are void."""
        self._add(_line([topic, queue_id, None]))

    def _add(self, line: bytes) -> None:
        with self._lock:
            if self._meanwhile is not None:
                self._meanwhile.append(line)
            try:
                if self._descriptor is None:
                    self._use(os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC))
                os.write(self._descriptor or 0, line)
                self._is_synced = False
            except FileNotFoundError:
                return  # nothing is said that could become wrong
            except OSError as error:
                logger.warning("%s cannot be written, so it is deleted: %s", self.path, error.strerror or error)
                self._delete()

    def sync(self) -> None:
        """Block until the lines of changes are on the disk."""
        with self._lock:
            descriptor = os.dup(self._descriptor) if self._descriptor is not None and not self._is_synced else None
            self._is_synced = True
        if descriptor is not None:
            try:
                sync_file(descriptor)
            except OSError as error:
                raise StoreError.from_os_error(error, f"syncing {self.path}") from error
            finally:
                os.close(descriptor)

    def delete(self) -> None:
        """Delete the file; there are no known facts until the next `write`."""
        with self._lock:
            self._delete()

    def _delete(self) -> None:
        self._use(None)
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError.from_os_error(error, f"deleting {self.path}") from error

    def close(self) -> None:
        with self._lock:
            self._use(None)

    def _use(self, descriptor: int | None) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._is_synced = descriptor, True


def _line(value: object) -> bytes:
    content = msgspec.json.encode(value)
    return b"%08x %s\n" % (crc32(content), content)


def _decode(raw: bytes) -> tuple[str, dict[QueueKey, QueueEnd]]:
    """Return the file's owner and its content. StoreDamaged, or msgspec's error, if the file is not ours."""
    lines = raw.split(b"\n")
    if len(lines) < 3 or lines.pop():
        raise StoreDamaged(f"its last line is not whole at byte {len(raw)}")
    owner, ends, *changes = map(_content, range(len(lines)), lines)
    known = {(end.topic, end.queue_id): end for end in msgspec.json.decode(ends, type=list[QueueEnd])}
    for topic, queue_id, first in (msgspec.json.decode(change, type=tuple[str, int, int | None]) for change in changes):
        end = known.pop((topic, queue_id), None)
        if end is not None and first is not None:
            known[topic, queue_id] = msgspec.structs.replace(end, first=first)
    return msgspec.json.decode(owner, type=str), known


def _content(number: int, line: bytes) -> bytes:
    crc, _, content = line.partition(b" ")
    if len(crc) != _CRC_DIGITS or b"%08x" % crc32(content) != crc:
        raise StoreDamaged(f"line {number + 1} has another checksum")
    return content


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
