"""The entries of consume queues and index as they are stored, for debugging."""

from collections.abc import Callable, Iterator

import msgspec

from hanabi.errors import StoreError
from hanabi.store.index.key_hash import key_hash
from hanabi.store.inspection.home import FileReader, StoreHome
from hanabi.store.inspection.index_files import IndexEntry, IndexOnDisk, find_index_files, find_slots
from hanabi.store.inspection.messages import Wanted, at_most, check_topic, find_queue
from hanabi.store.inspection.queues import find_queues
from hanabi.store.queues.consume_queue import ENTRY, ENTRY_BYTES


class QueueLine(msgspec.Struct, rename="camel"):
    """An entry of a consume queue as it is stored."""

    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int
    size: int
    tags_code: int


def queue_entries(home: StoreHome, wanted: Wanted) -> Iterator[QueueLine]:
    """Yield the entries of the queues that *wanted* describes by topic, queue, queue offset, log offset and count."""
    if wanted.topic is not None and wanted.queue_id is not None:
        find_queue(home, wanted.topic, wanted.queue_id)
    elif wanted.topic is not None:
        check_topic(home, wanted.topic)
    yield from at_most(_queue_entries(home, wanted), wanted.count)


def _queue_entries(home: StoreHome, wanted: Wanted) -> Iterator[QueueLine]:
    with FileReader() as reader:
        for queue in find_queues(home.queues):
            if wanted.topic not in (None, queue.topic) or wanted.queue_id not in (None, queue.queue_id):
                continue
            for file, position, data in queue.pieces(reader, wanted.queue_offset or 0):
                first = (file.base + position) // ENTRY_BYTES
                for queue_offset, entry in enumerate(ENTRY.iter_unpack(data), first):
                    if any(entry) and (wanted.log_offset is None or entry[0] >= wanted.log_offset):
                        yield QueueLine(queue.topic, queue.queue_id, queue_offset, *entry)


class IndexLine(msgspec.Struct, rename="camel"):
    """An entry of an index file as it is stored; the time is to the second."""

    file: str
    number: int
    key_hash: int
    log_offset: int
    stored_ms: int
    previous: int


def index_entries(home: StoreHome, wanted: Wanted) -> Iterator[IndexLine]:
    """Yield the entries of the index that *wanted* describes by topic and key (both or none), log offset and count.

    The index knows only the hash of both together, so entries of other keys may be among them.
    """
    hashed_key = key_hash(f"{wanted.topic}#{wanted.key}") if wanted.key is not None else None

    def is_wanted(entry: IndexEntry) -> bool:
        return hashed_key in (None, entry.hashed_key) and entry.log_offset >= (wanted.log_offset or 0)

    yield from at_most(_index_entries(home, is_wanted), wanted.count)


def _index_entries(home: StoreHome, is_wanted: Callable[[IndexEntry], bool]) -> Iterator[IndexLine]:
    slots_by_size: dict[int, int] = {}
    with FileReader() as reader:
        for file in find_index_files(home.index, reader):
            if not file.count:
                continue
            slots = find_slots(file, reader, slots_by_size)
            if slots is None:
                raise StoreError(f"{file.path} is damaged: its number of slots is unknown")
            name = file.path.rpartition("/")[2]
            for entry in file.entries(reader, slots):
                if is_wanted(entry):
                    yield _index_line(name, file, entry)


def _index_line(name: str, file: IndexOnDisk, entry: IndexEntry) -> IndexLine:
    return IndexLine(name, entry.number, entry.hashed_key, entry.log_offset, file.time_ms(entry), entry.previous)
