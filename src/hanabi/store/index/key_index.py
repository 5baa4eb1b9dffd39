"""The key index of a store: its index files, from "topic#key" to positions in the commit log.

    index/20261115064547147            named by the local time of its making, to the millisecond

Agrees with IndexService.java. Only hashes are compared here: the reader compares the keys in the records. Knows nothing
of records; time comes in as a parameter.

The log is the source of truth, the index only an aid. So an unreadable file is skipped: it stays on the disk, one log
line names it, and searches use the other files.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from hanabi.durable_table import sync_directory
from hanabi.errors import StoreDamaged, StoreError
from hanabi.store.index.index_file import HEADER, IndexFile, index_file_bytes
from hanabi.store.index.key_hash import key_hash, key_hash_after, prefix_code

PREFIXES_MAX: Final = 100_000

logger = logging.getLogger(__name__)


class KeyMatches(NamedTuple):
    """The result of a search: log offsets, newest first. The other fields are the index's in a query answer."""

    log_offsets: list[int]
    last_update_ms: int
    last_update_log_offset: int
    is_complete: bool  # False if the search was stopped before its end


class KeyIndex:
    """All index files of a store, oldest first. Only the last one grows."""

    def __init__(
        self,
        directory: Path,
        *,
        slots: int,
        entries_max: int,
        now_ms: Callable[[], int],
        on_full: Callable[[IndexFile], None] | None = None,
        writable: bool = True,
    ) -> None:
        """*on_full* gets a file that is complete, to sync it (in a thread of its own) and to note its time."""
        self.directory, self._slots, self._entries_max = directory, slots, entries_max
        self._now_ms, self._on_full, self._writable = now_ms, on_full, writable
        self.files: list[IndexFile] = []  # replaced, never changed, while other threads may walk over it
        self._changing = threading.Lock()  # held while it is replaced
        self.growing: IndexFile | None = None  # that the next entries go to, if there is one with room
        self._newest_name = ""  # also of files that are not used
        self._prefixes: dict[str, int] = {}  # of the texts that are hashed, by topic

    @property
    def end_log_offset(self) -> int:
        """The log offset of the last message in the index; 0 if there is none."""
        return self.files[-1].end_log_offset if self.files else 0

    def load(self, *, trusted_until_ms: int | None = None) -> None:
        """Open all files. *trusted_until_ms*, after a crash, is the index time of the checkpoint.

        Files that end later than that are deleted, as by Apache: some of their pages may never have been written. A
        file of another size was made with other settings; it is left alone, and not searched.
        """
        size = index_file_bytes(self._slots, self._entries_max)
        for path in sorted(self.directory.iterdir()) if self.directory.is_dir() else []:
            if not (path.name.isascii() and path.name.isdigit() and path.is_file()):
                continue
            self._newest_name = path.name
            actual = path.stat().st_size
            if actual <= HEADER.size and self._writable:
                path.unlink()  # made, and never filled
                continue
            if actual != size:
                logger.error("%s has %d bytes, maxHashSlotNum and maxIndexNum say %d: not used", path, actual, size)
                continue
            try:
                file = IndexFile.open(path, self._slots, self._entries_max, writable=self._writable)
            except StoreDamaged as error:
                _log_set_aside(error)
                continue
            if trusted_until_ms is not None and file.end_ms > trusted_until_ms and self._writable:
                logger.warning("%s was not synced before the crash: deleted", path)
                file.delete()
                continue
            self.files.append(file)
        self._grow_last()

    def _grow_last(self) -> None:
        self.growing = self.files[-1] if self.files and not self.files[-1].is_full else None

    def _set_aside(self, file: IndexFile, error: StoreDamaged) -> None:
        """Use *file* no more, as it cannot be read. Any thread; a put may still write into it."""
        with self._changing:
            if file not in self.files:
                return
            self.files = [each for each in self.files if each is not file]
            if self.growing is file:
                self.growing = None  # the next put makes a new one
        _log_set_aside(error)

    def put(self, topic: str, keys: Iterable[str], log_offset: int, store_ms: int) -> None:
        """Add one message under all its *keys* (in Apache the unique key comes first).

        A message that is in the index already is skipped. Raises StoreError if a new file cannot be made.
        """
        file = self.growing
        if file is None or log_offset <= file.end_log_offset:
            self._put_again(topic, keys, log_offset, store_ms)
            return
        prefix = self.prefix_of(topic)
        hashed_keys = [key_hash_after(prefix, key) for key in keys]
        if file.next_entry + len(hashed_keys) > file.entries_max:
            for hashed_key in hashed_keys:
                self._file_to_grow().put(hashed_key, log_offset, store_ms)
        elif hashed_keys:
            file.put_all(hashed_keys, log_offset, store_ms)

    def prefix_of(self, topic: str) -> int:
        """Return the hash code of the text before each key of *topic*."""
        code = self._prefixes.get(topic)
        if code is not None:
            return code
        if len(self._prefixes) >= PREFIXES_MAX:
            self._prefixes.clear()
        self._prefixes[topic] = code = prefix_code(f"{topic}#")
        return code

    def _put_again(self, topic: str, keys: Iterable[str], log_offset: int, store_ms: int) -> None:
        """Put a message of which the index may have all keys or, after a crash, some of them."""
        known = self._hashes_at_end(log_offset)
        if known is None:
            return
        for key in keys:
            hashed_key = key_hash(f"{topic}#{key}")
            if hashed_key in known:
                known.remove(hashed_key)
            else:
                self._file_to_grow().put(hashed_key, log_offset, store_ms)

    def _hashes_at_end(self, log_offset: int) -> list[int] | None:
        """Return the hashes under which the last message is known, if it is the one at *log_offset*; None if that is
        older."""
        if log_offset < self.end_log_offset:
            return None
        hashes: list[int] = []
        for file in reversed(self.files):
            try:
                for number in range(file.next_entry - 1, 0, -1):
                    hashed_key, entry_log_offset, _, _ = file.entry(number)
                    if entry_log_offset != log_offset:
                        return hashes
                    hashes.append(hashed_key)
            except StoreDamaged as error:
                self._set_aside(file, error)
        return hashes

    def _file_to_grow(self) -> IndexFile:
        growing = self.growing
        if growing is not None and not growing.is_full:
            return growing
        last = self.files[-1] if self.files else None
        path = self.directory / self._new_name()
        self.make_directory()
        file = IndexFile.create(
            path,
            self._slots,
            self._entries_max,
            end_log_offset=last.end_log_offset if last else 0,
            end_ms=last.end_ms if last else 0,
        )
        with self._changing:
            self.files = [*self.files, file]
        self.growing, self._newest_name = file, path.name
        if last is not None and self._on_full is not None:
            self._on_full(last)
        return file

    @property
    def is_missing(self) -> bool:
        """Return True if the index has no folder. An index without messages may have none, too."""
        return not self.directory.is_dir()

    def make_directory(self) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError.from_os_error(error, f"creating {self.directory}") from error

    def _new_name(self) -> str:
        name = local_time_name(self._now_ms())
        # Names are sorted to know the order of the files, so a clock that goes back must not make a smaller one.
        if self._newest_name and name <= self._newest_name:
            name = f"{int(self._newest_name) + 1:017d}"
        return name

    def search(
        self,
        topic: str,
        key: str,
        begin_ms: int,
        end_ms: int,
        count_max: int,
        *,
        is_wanted: Callable[[int], bool] = lambda _: True,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> KeyMatches:
        """Return the messages that may have *key*, stored in [begin_ms, end_ms], newest first, at most *count_max*.

        *is_wanted* filters by log offset. A chain may have millions of entries: *goes_on* is asked every
        millisecond or so, and at every message.
        """
        last = self.files[-1] if self.files else None
        found: dict[int, None] = {}
        is_complete = True
        for log_offset in self._candidates(key_hash(f"{topic}#{key}"), begin_ms, end_ms):
            if not goes_on():
                is_complete = False
                break
            if log_offset is not None and log_offset not in found and is_wanted(log_offset):
                found[log_offset] = None
                if len(found) >= count_max:
                    break
        return KeyMatches(list(found), last.end_ms if last else 0, last.end_log_offset if last else 0, is_complete)

    def _candidates(self, hashed_key: int, begin_ms: int, end_ms: int) -> Iterator[int | None]:
        """Yield the log offsets under *hashed_key* in all files, newest first; None now and then, see
        `IndexFile.chain`."""
        for file in reversed(self.files):
            if file.has_times_in(begin_ms, end_ms):
                try:
                    yield from file.chain(hashed_key, begin_ms, end_ms)
                except StoreDamaged as error:
                    self._set_aside(file, error)
            if file.begin_ms < begin_ms:
                return

    def allocate_ahead(self) -> None:
        """Give the entries to come their blocks. May block; any thread."""
        file = self.growing
        if file is not None:
            file.allocate_ahead()

    def sync(self) -> int:
        """Sync every file that changed; return the store time up to which the index is then safe. Any thread."""
        until_ms = 0
        for file in list(self.files):
            end_ms = file.end_ms
            if not file.is_synced:
                file.sync()
            until_ms = max(until_ms, end_ms)
        return until_ms

    def truncate(self, log_offset: int) -> int:
        """Take back all entries from *log_offset* of the log on; return how many. For recovery only."""
        taken = 0
        while self.files:
            file = self.files[-1]
            try:
                taken += file.truncate(log_offset)
            except StoreDamaged as error:
                self._set_aside(file, error)
                continue
            if file.next_entry > 1:
                break
            self.files.pop().delete()
        self._grow_last()
        return taken

    def repair(self, log_offset: int) -> None:
        """Remove the entries of messages that do not lie below *log_offset* of the log, and repair slots. After a
        crash: entries put again are also written again, as a failed sync may have left pages in memory only."""
        self.truncate(log_offset)
        if self.files:
            file = self.files[-1]
            try:
                mended = file.repair_slots()
            except StoreDamaged as error:
                self._set_aside(file, error)
                return
            if mended:
                logger.warning("%s: %d slots pointed at entries that are not there: mended", file.path, mended)

    def delete_expired(self, log_offset_min: int) -> int:
        """Delete the files whose messages all lie below *log_offset_min*, but not the last one; return how many."""
        with self._changing:
            files = self.files
            count = 0
            while count < len(files) - 1 and files[count].end_log_offset < log_offset_min:
                count += 1
            expired, self.files = files[:count], files[count:]
        for file in expired:
            file.delete()
        return count

    def close(self) -> None:
        """Sync, and let all files go."""
        try:
            if self._writable:
                self.sync()
                self._sync_directory()
        finally:
            for file in self.files:
                file.close()
            self.files.clear()
            self.growing = None

    def _sync_directory(self) -> None:
        if self.directory.is_dir():
            try:
                sync_directory(self.directory)
            except OSError as error:
                raise StoreError.from_os_error(error, f"syncing {self.directory}") from error

    def destroy(self) -> None:
        """Delete all files, to build the index again."""
        while self.files:
            self.files.pop().delete()
        self.growing = None


def _log_set_aside(error: StoreDamaged) -> None:
    logger.error(
        "%s: this file of the key index is not used, and the messages that it has are not found by key (consumers get "
        "them as ever); to build the index again, stop the broker, repair the disk and delete the folder index",
        error,
    )


def local_time_name(at_ms: int) -> str:
    """Return the local time as yyyyMMddHHmmssSSS, as UtilAll.timeMillisToHumanString."""
    seconds, milliseconds = divmod(at_ms, 1000)
    return f"{time.strftime('%Y%m%d%H%M%S', time.localtime(seconds))}{milliseconds:03d}"
