"""The files of one queue: a sequence of bytes in files of one size, with its newest part in memory.

    consumequeue/TOPIC/QUEUE/00000000000000000000    file_bytes long from the start, zeros behind the data
                             00000000000006000000    named by the position of its first byte, 20 digits

Unlike a commit log segment these are not mapped: 40,000 queues would need 40,000 maps, descriptors and preallocated
megabytes. New bytes collect in a small tail and reach the file with one pwrite; files are sparse, and a full disk
is an error from pwrite that leaves the tail where it is. After a write the bytes on disk are those that Apache's
MappedFile would have. A tail that a crash loses is rebuilt from the commit log.

Threads: one thread appends and deletes; any thread may read, write tails, sync, and delete old files. `truncate_to`
and the loading of files belong to recovery, which runs alone.
"""

import contextlib
import errno
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from hanabi.durable_table import sync_directory
from hanabi.errors import StoreDamaged, StoreError, StoreFull
from hanabi.store.files.descriptors import Descriptor, Descriptors
from hanabi.store.files.file_system import FileSystem
from hanabi.store.files.segment import sync_file
from hanabi.store.queues.queue_ends import UNKNOWN, QueueEnd, QueueEnds
from hanabi.wire.message.crc import crc32

TAIL_BYTES = 4_080  # a tail this long is written at once: one page, a whole number of 20-byte entries
SYNC_EACH_MAX = 256  # with more changed files, one sync of the file system costs less than an fdatasync each
REPORTS_MAX = 1_000
UNFINISHED = ".new"  # suffix of a file that is still being made, outside the tree
ZEROS = bytes(1 << 16)
SUM_BYTES = 1 << 20

logger = logging.getLogger(__name__)


class QueueFamily:
    """The state shared by all queues in one directory: path, file size, open files, queues with unwritten bytes."""

    def __init__(self, root: Path, file_bytes: int, descriptors: Descriptors, *, writable: bool = True) -> None:
        self.root = str(root)
        self.file_bytes = file_bytes
        self.descriptors = descriptors
        self.writable = writable
        self.dirty: set[QueueFiles] = set()
        self.unsynced: set[tuple[QueueFiles, int]] = set()
        self.unsynced_directories: set[str] = set()
        self.ends: QueueEnds | None = None  # notified before a queue is shortened
        self.changes = 0  # how often anything was written or deleted
        self._reported: set[str] = set()
        self._file_system = FileSystem(root) if writable else None

    def flush(self, least_bytes: int = 0, count_max: int | None = None) -> None:
        """Write all tails of at least *least_bytes* to their files, or any *count_max* of them.

        A queue with damaged files does not stop the rest from being written; the first error is raised at the end.
        A full disk stops it at once.
        """
        first_error: StoreError | None = None
        for queue in list(self.dirty)[:count_max]:
            if queue.tail_bytes < least_bytes:
                continue
            self.dirty.discard(queue)
            try:
                queue.write_tail()
            except StoreFull:
                raise
            except StoreError as error:
                first_error = first_error or error
        if first_error is not None:
            raise first_error

    def sync(self) -> None:
        """Block until everything written before the call is on the disk. After an error later calls prove nothing."""
        changed = list(self.unsynced)
        if len(changed) > SYNC_EACH_MAX and self._file_system is not None:
            self._sync_all(self._file_system, changed)
            return
        for queue, base in changed:
            self.unsynced.discard((queue, base))  # first, so that a write meanwhile puts it back
            try:
                queue.sync_file(base)
            except OSError as error:
                self.unsynced.add((queue, base))
                raise StoreError.from_os_error(error, f"syncing {queue.path(base)}") from error
        for directory in list(self.unsynced_directories):
            try:
                with contextlib.suppress(FileNotFoundError):  # deleted since: nothing to keep
                    sync_directory(Path(directory))
            except OSError as error:
                raise StoreError.from_os_error(error, f"syncing {directory}") from error
            self.unsynced_directories.discard(directory)

    def _sync_all(self, file_system: FileSystem, changed: "list[tuple[QueueFiles, int]]") -> None:
        directories = list(self.unsynced_directories)
        self.unsynced.difference_update(changed)  # first, so that a write meanwhile puts it back
        self.unsynced_directories.difference_update(directories)
        try:
            file_system.sync()
        except OSError as error:
            self.unsynced.update(changed)
            self.unsynced_directories.update(directories)
            raise StoreError.from_os_error(error, f"syncing {len(changed)} files of {self.root}") from error

    def close(self) -> None:
        """Release the file system; `descriptors` releases the files."""
        if self._file_system is not None:
            self._file_system.close()

    def remove_unfinished(self) -> None:
        """Remove unfinished files, which a kill leaves outside the tree."""
        root = Path(self.root)
        for path in root.parent.glob(f"{root.name}.*{UNFINISHED}") if self.writable else ():
            logger.info("%s was left unfinished: removed", path)
            path.unlink(missing_ok=True)

    def report(self, problem: str) -> None:
        """Log *problem*, but not again at every read or put that meets it."""
        if problem in self._reported:
            return
        if len(self._reported) >= REPORTS_MAX:
            self._reported.clear()
        self._reported.add(problem)
        logger.error("%s", problem)


class QueueFiles:
    """A byte sequence. Invariant: first <= written <= end; files hold the bytes below written, the tail the rest."""

    __slots__ = (
        "_changing_files",
        "_checksum",
        "_full",
        "_lock",
        "_written",
        "family",
        "first",
        "queue_id",
        "tail",
        "topic",
    )

    def __init__(self, family: QueueFamily, topic: str, queue_id: int) -> None:
        self.family = family
        self.topic = topic
        self.queue_id = queue_id
        self.first = 0  # where the oldest file begins
        self._written = 0
        self._checksum = 0  # CRC of the last file's content; UNKNOWN: some of it was never read
        self._full: list[int] | None = None  # those of the files before it, from `first` on
        # Appending to the tail is one operation of a bytearray and needs no lock. Removing bytes from its front
        # needs the lock, and so does code that needs `_written` and `tail` to agree.
        self.tail = bytearray()
        self._lock = threading.Lock()
        # Held while files are written, made or deleted: a write that is under way must not make a deleted file again.
        # Taken before `_lock`.
        self._changing_files = threading.Lock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.topic}/{self.queue_id} {self.first}..{self.end}>"

    @property
    def directory(self) -> str:
        return f"{self.family.root}/{self.topic}/{self.queue_id}"

    @property
    def tail_bytes(self) -> int:
        return len(self.tail)

    @property
    def end(self) -> int:
        """The position behind the last byte."""
        with self._lock:
            return self._written + len(self.tail)

    def path(self, base: int) -> str:
        return f"{self.family.root}/{self.topic}/{self.queue_id}/{base:020d}"

    def bases(self) -> range:
        """Return the beginning of each file, including one that so far is only in the tail."""
        return range(self.first, max(self.end, self.first), self.family.file_bytes)

    # reading

    def read_bytes(self, start: int, size: int) -> bytes:
        """Return the bytes from *start*, at most *size*. Fewer at the end, and where a file is damaged (which is
        logged).

        StoreError if the system refuses to read: then nothing is known, and the caller tries again later.
        """
        with self._lock:
            written = self._written
            if start >= written:
                return bytes(self.tail[start - written : start - written + size])
            rest = bytes(self.tail[: start + size - written]) if start + size > written else b""
        in_files = min(size, written - start)
        data = self._read_files(start, in_files)
        return data + rest if rest and len(data) == in_files else data

    def _read_files(self, start: int, size: int) -> bytes:
        file_bytes = self.family.file_bytes
        at = start % file_bytes
        if at + size <= file_bytes:
            return self._read_file(start - at, at, size)
        data = b""
        while len(data) < size:
            at = (start + len(data)) % file_bytes
            asked = min(size - len(data), file_bytes - at)
            try:
                piece = self._read_file(start + len(data) - at, at, asked)
            except StoreError:
                if not data:
                    raise
                break  # the next read meets the error
            data += piece
            if len(piece) < asked:
                break
        return data

    def _read_file(self, base: int, at: int, size: int) -> bytes:
        try:
            descriptor = self.family.descriptors.get((self, base)) or self._open(base)
            data = os.pread(descriptor.fd, size, at)
        except FileNotFoundError as error:
            self.family.report(f"{self.path(base)} cannot be read: {error.strerror}")
            return b""
        except OSError as error:
            raise StoreError.from_os_error(error, f"reading {self.path(base)}") from error
        if len(data) < size:
            self.family.report(f"{self.path(base)} was cut to less than {at + size} bytes")
        return data

    def read_in_file(self, base: int, at: int, size: int) -> bytes:
        """Read bytes of one file, for loading. Raises every error: an unreadable file is not yet a damaged one."""
        try:
            descriptor = self.family.descriptors.get((self, base)) or self._open(base)
            return os.pread(descriptor.fd, min(size, self.family.file_bytes - at), at)
        except OSError as error:
            raise StoreError.from_os_error(error, f"reading {self.path(base)}") from error

    # writing

    def append_bytes(self, data: bytes) -> None:
        """Add *data* to the tail, and the tail to its file when it is long enough."""
        tail = self.tail
        tail += data
        # After the append: a write that empties the tail in between then sees the bytes it left behind.
        self.family.dirty.add(self)
        if len(tail) >= TAIL_BYTES:
            self.write_full_tail()

    def write_full_tail(self) -> None:
        """Write the tail, and keep it for the next flush if that fails: the append to the log must not fail for it.

        Nothing is done while another thread writes or deletes this queue's files: a put does not wait for that.
        """
        if not self._changing_files.acquire(blocking=False):
            return
        try:
            self._write_tail()
        except StoreError as error:
            self.family.report(str(error))
        finally:
            self._changing_files.release()

    def write_tail(self) -> None:
        """Hand the tail to the operating system. Unwritten bytes stay in the tail, and the queue stays dirty."""
        with self._changing_files:
            self._write_tail()

    def _write_tail(self) -> None:
        with self._lock:
            start, data = self._written, bytes(self.tail)
        file_bytes = self.family.file_bytes
        done = 0
        try:
            while done < len(data):
                at = (start + done) % file_bytes
                base = start + done - at
                descriptor = self._open_to_write(base, create=at == 0)
                done += os.pwrite(descriptor.fd, data[done : done + file_bytes - at], at)
                self.family.unsynced.add((self, base))
        except OSError as error:
            raise StoreError.from_os_error(error, f"writing {self.path(base)}") from error
        finally:
            self._forget_tail(start + done)

    def _forget_tail(self, until: int) -> None:
        with self._lock:
            if until > self._written:
                self._sum_up(bytes(self.tail[: until - self._written]))
                del self.tail[: until - self._written]
                self._written = until
                self.family.changes += 1
        if self.tail:
            self.family.dirty.add(self)

    def _sum_up(self, data: bytes) -> None:
        """Add *data*, which follows the written bytes, to the checksums. The lock is held."""
        room = self.family.file_bytes - self._written % self.family.file_bytes
        while len(data) >= room:
            self._full = [*(self._full or ()), _added(self._checksum, data[:room])]
            self._checksum = 0
            data, room = data[room:], self.family.file_bytes
        self._checksum = _added(self._checksum, data)

    def sync_file(self, base: int) -> None:
        """Block until the file at *base* is on the disk. A deleted file needs no sync."""
        with contextlib.suppress(FileNotFoundError):
            descriptor = self.family.descriptors.get((self, base)) or self._open(base)
            sync_file(descriptor.fd)

    # files

    def _open(self, base: int) -> Descriptor:
        access = os.O_RDWR if self.family.writable else os.O_RDONLY
        descriptors = self.family.descriptors
        return descriptors.keep((self, base), descriptors.open_file(self.path(base), access))

    def _open_to_write(self, base: int, *, create: bool) -> Descriptor:
        family = self.family
        descriptor = family.descriptors.get((self, base))
        if descriptor is None:
            descriptor = self._create(base) if create else self._open(base)
        status = os.fstat(descriptor.fd)
        if not status.st_nlink or status.st_size < family.file_bytes:
            # Bytes written into a deleted file would be lost without a word.
            family.descriptors.drop((self, base))
            what = f"cut to {status.st_size} bytes" if status.st_nlink else "deleted"
            raise StoreDamaged(f"{self.path(base)} was {what} while the store was using it")
        return descriptor

    def _create(self, base: int) -> Descriptor:
        family = self.family
        if not family.writable:
            raise OSError(errno.EROFS, "the store was opened for reading only")
        path = self.path(base)
        try:
            fd = family.descriptors.open_file(path, os.O_RDWR)
        except FileNotFoundError:
            fd = self._make_whole(path)
        family.unsynced_directories.add(self.directory)
        try:
            if os.fstat(fd).st_size < family.file_bytes:
                os.ftruncate(fd, family.file_bytes)
        except OSError:
            os.close(fd)
            raise
        return family.descriptors.keep((self, base), fd)  # only now: the other thread takes it for whole

    def _make_whole(self, path: str) -> int:
        """Return a new file of full size. It is made outside the tree and moved in: Apache does not start with a
        shorter file, which a kill would leave, nor with a file in the tree that has another name."""
        family = self.family
        if not os.path.isdir(self.directory):  # noqa: PTH112
            os.makedirs(self.directory, exist_ok=True)  # noqa: PTH103 (strings: 40,000 Path objects are 20 MB)
            family.unsynced_directories |= {family.root, f"{family.root}/{self.topic}"}
        fresh = f"{family.root}.{threading.get_native_id()}{UNFINISHED}"
        fd = family.descriptors.open_file(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            os.ftruncate(fd, family.file_bytes)
            os.link(fresh, path)
        except FileExistsError:  # the other thread was faster, and its file is as whole as ours
            os.close(fd)
            fd = family.descriptors.open_file(path, os.O_RDWR)
        except OSError:
            os.close(fd)
            raise
        finally:
            os.unlink(fresh)  # noqa: PTH108
        return fd

    # The files' content, as known at a checkpoint

    def end_in_files(self, log_offset: int) -> QueueEnd:
        """Return the beginning and the end of the files, and their checksums."""
        with self._lock:
            checksums = tuple(self._full or ())
            if self._written % self.family.file_bytes:
                checksums = (*checksums, self._checksum)
            return QueueEnd(self.topic, self.queue_id, self.first, self._written, log_offset, checksums)

    def bytes_in_file(self, base: int) -> int:
        """Return the number of bytes written to the file at *base*."""
        return min(self._written - base, self.family.file_bytes)

    def checksums_of(self, base: int, then: int, now: int) -> tuple[int, int]:
        """Return the checksums of the first *then* and of the first *now* bytes of a file, by reading it."""
        checksum = found = at = 0
        for end in (then, now):
            while at < end:
                data = self.read_in_file(base, at, min(end - at, SUM_BYTES))
                if not data:
                    return UNKNOWN, UNKNOWN  # cut short behind our back
                checksum = crc32(data, checksum)
                at += len(data)
            if end == then:
                found = checksum
        return found, checksum

    def note_checksum(self, base: int, checksum: int) -> None:
        """Record the checksum of the file at *base* as it is now. For recovery, which runs alone."""
        number = (base - self.first) // self.family.file_bytes
        if self._full is not None and number < len(self._full):
            self._full[number] = checksum
        else:
            self._checksum = checksum

    def unknown_files(self) -> list[int]:
        """Return the beginnings of the files without a checksum, newest first."""
        file_bytes = self.family.file_bytes
        unknown = [self.first + number * file_bytes for number, sum_ in enumerate(self._full or ()) if sum_ == UNKNOWN]
        if self._checksum == UNKNOWN:
            unknown.append(self._written - self._written % file_bytes)
        return unknown[::-1]

    def set_range(self, first: int, end: int) -> None:
        """Set the beginning of the files and the end of their content. For a queue without a tail."""
        file_bytes = self.family.file_bytes
        with self._lock:
            self.first, self._written = first, end
            self._full = [UNKNOWN] * ((end - first) // file_bytes) or None
            self._checksum = UNKNOWN if end % file_bytes else 0

    def truncate_to(self, end: int) -> None:
        """Forget everything from *end* on, in memory and on the disk."""
        with self._lock:
            written = self._written
            if end >= written:
                del self.tail[end - written :]
                return
            self.tail.clear()
            self._written = end
            if self.family.ends is not None:
                self.family.ends.gone(self.topic, self.queue_id)
            self.family.changes += 1
            self._full = (self._full or [])[: (end - self.first) // self.family.file_bytes] or None
            self._checksum = UNKNOWN if end % self.family.file_bytes else 0
        file_bytes = self.family.file_bytes
        # From the end backwards, so that a kill leaves no hole. The file at `written` may be there and still be empty.
        for base in range(written - written % file_bytes, self.first - 1, -file_bytes):
            if base < end:
                self.cut_file(base, end - base)
                break
            if base == self.first > 0:
                # Apache would delete this one as well, and then count the queue's offsets from 0 again.
                self.cut_file(base, 0)
            else:
                self.delete_file(base)

    def cut_file(self, base: int, at: int) -> None:
        """Make zeros of everything from *at* on. Old entries must not look like new ones after the next start."""
        family = self.family
        if not family.writable:
            return
        try:
            descriptor = family.descriptors.get((self, base)) or self._open(base)
            clear_from(descriptor.fd, at, family.file_bytes)
        except OSError as error:
            raise StoreError.from_os_error(error, f"cutting {self.path(base)}") from error
        family.unsynced.add((self, base))

    def delete_file(self, base: int) -> None:
        """Unlink one file. Its current readers keep it until they are done."""
        family = self.family
        family.descriptors.drop((self, base))
        family.unsynced.discard((self, base))
        if not family.writable:
            return
        try:
            os.unlink(self.path(base))  # noqa: PTH108
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError.from_os_error(error, f"deleting {self.path(base)}") from error
        family.unsynced_directories.add(self.directory)

    def delete_before(self, position: int) -> int:
        """Remove the files that end at or before *position*, but never the one still written to; return how many."""
        count = 0
        with self._changing_files:
            for base in self.bases()[:-1]:
                if base + self.family.file_bytes > min(position, self._written):
                    break
                self._move_first(base + self.family.file_bytes)
                self.delete_file(base)
                count += 1
        return count

    def _move_first(self, first: int) -> None:
        with self._lock:
            self.first = first
            self._full = (self._full or [])[1:] or None
            self.family.changes += 1
        if self.family.ends is not None:
            self.family.ends.moved(self.topic, self.queue_id, first)

    def delete_all(self) -> None:
        """Remove every file and the directory. The queue is then as new."""
        with self._changing_files:
            bases = self.bases()
            if self.family.ends is not None:
                self.family.ends.gone(self.topic, self.queue_id)
            with self._lock:
                self.tail.clear()
                self._written = self.first = self._checksum = 0
                self._full = None
                self.family.changes += 1
            self.family.dirty.discard(self)
            for base in bases:
                self.delete_file(base)
            self.family.unsynced_directories.discard(self.directory)
            remove_empty_directory(self.directory)


def _added(checksum: int, data: bytes) -> int:
    return UNKNOWN if checksum == UNKNOWN else crc32(data, checksum)


def clear_from(fd: int, at: int, size: int) -> None:
    """Make the file *size* bytes long and everything in it from *at* on zero, wherever a kill may come.

    Cutting it and making it longer again would do, but for a kill between the two: Apache does not start on a file that
    is too short. So the data is overwritten, from its end, and where the file has holes nothing is written.
    """
    if os.fstat(fd).st_size != size:
        os.ftruncate(fd, size)
    for start, end in reversed(list(_data_extents(fd, at, size))):
        for position in range(end, start, -len(ZEROS)):
            first = max(start, position - len(ZEROS))
            os.pwrite(fd, ZEROS[: position - first], first)


def _data_extents(fd: int, at: int, size: int) -> Iterator[tuple[int, int]]:
    if not hasattr(os, "SEEK_DATA"):  # Windows: files have no holes there
        yield at, size
        return
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole up to the end
                return
            raise
        at = min(os.lseek(fd, start, os.SEEK_HOLE), size)
        yield start, at


def list_bases(directory: str) -> list[int]:
    """Return the beginnings of the files in *directory*, oldest first. Names that are not 20 digits are not ours."""
    try:
        names = os.listdir(directory)  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StoreError.from_os_error(error, f"listing {directory}") from error
    return sorted(int(name) for name in names if len(name) == 20 and name.isascii() and name.isdigit())


def remove_empty_directory(directory: str) -> None:
    """Remove *directory* if there is nothing in it."""
    try:
        os.rmdir(directory)  # noqa: PTH106
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
            raise StoreError.from_os_error(error, f"deleting {directory}") from error
