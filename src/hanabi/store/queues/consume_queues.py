"""All consume queues of a store, by topic and queue id.

    consumequeue/TOPIC/QUEUE/FILE        consumequeue_ext/TOPIC/QUEUE/FILE

Queues are made when the first message for them comes, and found in the directories at the start. Loading costs one
listing and one or two short reads a queue, regardless of its length, so that 40,000 of them load in seconds.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from hanabi.errors import ConfigError, StoreError
from hanabi.store.files.descriptors import Descriptors
from hanabi.store.queues.consume_queue import ENTRY_BYTES, ConsumeQueue
from hanabi.store.queues.consume_queue_ext import ConsumeQueueExt
from hanabi.store.queues.queue_check import QueueCheck
from hanabi.store.queues.queue_ends import QueueEnd, QueueEnds, QueueKey
from hanabi.store.queues.queue_files import QueueFamily, list_bases, remove_empty_directory

logger = logging.getLogger(__name__)

_TOLD_MAX: Final = 20  # of damaged queues, one line each


class DamagedQueue(NamedTuple):
    """A queue with damaged files. The intact part is kept; the rest must be rebuilt from the log."""

    topic: str
    queue_id: int
    problem: str
    log_offset: int  # nothing of this queue below this log offset is missing; -1: the queue is empty


class QueueNameError(StoreError):
    """A topic or a queue id that no files can be named after."""


class _Found(NamedTuple):
    topic: str
    queue_id: int
    bases: list[int]
    last_bytes: int


class ConsumeQueues:
    """The queues of a store, by topic and queue id."""

    def __init__(
        self,
        directory: Path,
        file_bytes: int,
        *,
        descriptors: Descriptors | None = None,
        ext_directory: Path | None = None,
        ext_file_bytes: int = 48 << 20,
        writable: bool = True,
    ) -> None:
        """Open the queues. With an *ext_directory* every queue has an extension. Not *writable*: read only."""
        if file_bytes <= 0 or file_bytes % ENTRY_BYTES:
            raise ConfigError(f"mappedFileSizeConsumeQueue must be a multiple of {ENTRY_BYTES}, not {file_bytes}")
        self.descriptors = Descriptors() if descriptors is None else descriptors
        self._family = QueueFamily(directory, file_bytes, self.descriptors, writable=writable)
        self._ext_family: QueueFamily | None = None
        if ext_directory is not None:
            self._ext_family = QueueFamily(ext_directory, ext_file_bytes, self.descriptors, writable=writable)
        self.by_topic: dict[str, dict[int, ConsumeQueue]] = {}

    # finding

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return the queue, if there is one."""
        queues = self.by_topic.get(topic)
        return queues.get(queue_id) if queues is not None else None

    def open(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return the queue, made now if there was none. No file is made before the first write."""
        queues = self.by_topic.get(topic)
        queue = queues.get(queue_id) if queues is not None else None
        return queue if queue is not None else self._add(topic, queue_id)

    def topics(self) -> list[str]:
        return list(self.by_topic)

    def queues_of(self, topic: str) -> list[ConsumeQueue]:
        return list(self.by_topic.get(topic, {}).values())

    def __iter__(self) -> Iterator[ConsumeQueue]:
        for queues in list(self.by_topic.values()):
            yield from list(queues.values())

    def __len__(self) -> int:
        return sum(map(len, self.by_topic.values()))

    @property
    def max_log_offset(self) -> int:
        """The log offset behind the last message in any queue, -1 if there is none.

        After a crash other queues may end earlier: tails are written queue by queue.
        """
        return max((queue.max_log_offset for queue in self), default=-1)

    def _add(self, topic: str, queue_id: int) -> ConsumeQueue:
        if not topic or topic in (".", "..") or "/" in topic or "\0" in topic or queue_id < 0:
            raise QueueNameError(f"no queue can be named {topic!r}/{queue_id}")
        ext = ConsumeQueueExt(self._ext_family, topic, queue_id) if self._ext_family is not None else None
        queue = ConsumeQueue(self._family, topic, queue_id, ext)
        self.by_topic.setdefault(topic, {})[queue_id] = queue
        return queue

    # loading

    def load(self, *, thorough: bool = False, known: Mapping[QueueKey, QueueEnd] | None = None) -> list[DamagedQueue]:
        """Find all queues in the directories; *thorough* after a crash. Returns those that must be rebuilt.

        *known*: the expected content. A queue that has less counts as damaged, too.

        ConfigError if the files have another size than ours: every one of them would be misread.
        """
        self._family.remove_unfinished()
        if self._ext_family is not None:
            self._ext_family.remove_unfinished()
        found = list(self._list())
        self._check_sizes(found)
        damaged: list[DamagedQueue] = []
        missing = dict(known or {})
        check = QueueCheck()
        for topic, queue_id, bases, last_bytes in found:
            queue = self._add(topic, queue_id)
            problem = None
            end = missing.pop((topic, queue_id), None)
            if last_bytes < self._family.file_bytes:
                problem = f"{queue.path(bases[-1])} is only {last_bytes} bytes long"
                queue.cut_file(bases[-1], last_bytes - last_bytes % ENTRY_BYTES)  # which also gives it its full size
            problem = queue.load(bases, thorough=thorough) or problem
            if end is not None:
                problem = check.compare(queue, end) or problem
            if queue.ext is not None:
                queue.load_ext(list_bases(queue.ext.directory))
            if problem is not None:
                damaged.append(DamagedQueue(topic, queue_id, problem, queue.max_log_offset))
        for topic, queue_id in missing:
            self._add(topic, queue_id)
            damaged.append(DamagedQueue(topic, queue_id, "its files are missing", -1))
        for lost in damaged[:_TOLD_MAX]:
            logger.error("consume queue %s/%d is damaged: %s", lost.topic, lost.queue_id, lost.problem)
        if len(damaged) > _TOLD_MAX:
            logger.error("%d more consume queues are damaged", len(damaged) - _TOLD_MAX)
        return damaged

    def ends(self) -> list[QueueEnd]:
        """Return the end in its files, and the checksums, of each queue that has messages."""
        return [queue.end_in_files(queue.max_log_offset) for queue in self if queue.max_offset]

    def complete_checksums(self) -> None:
        """Take the checksums that are not known, as far as there is time for it. For recovery."""
        check = QueueCheck()
        for queue in self:
            check.complete(queue)

    def report_to(self, ends: QueueEnds) -> None:
        """Report every shortening of a queue to *ends* from now on."""
        self._family.ends = ends

    @property
    def changes(self) -> int:
        """The number of writes and deletions so far."""
        return self._family.changes

    def _list(self) -> Iterator[_Found]:
        root = self._family.root
        for topic in _list_directories(root):
            for name in _list_directories(f"{root}/{topic}"):
                if not (name.isascii() and name.isdigit()):
                    continue
                directory = f"{root}/{topic}/{name}"
                bases = list_bases(directory)
                if bases:
                    last = os.stat(f"{directory}/{bases[-1]:020d}")  # noqa: PTH116
                    yield _Found(topic, int(name), bases, last.st_size)

    def _check_sizes(self, found: list[_Found]) -> None:
        file_bytes = self._family.file_bytes
        sizes = {queue.last_bytes for queue in found}
        # A crash may leave a file shorter than it should be. But not all of them, and all alike.
        all_alike = len(sizes) == 1 and not sizes & {file_bytes, 0} and all(len(queue.bases) == 1 for queue in found)
        wrong = all_alike or max(sizes, default=0) > file_bytes
        for queue in found:
            if wrong and queue.last_bytes != file_bytes:
                place = f"{self._family.root}/{queue.topic}/{queue.queue_id}"
                raise ConfigError(
                    f"mappedFileSizeConsumeQueue is {file_bytes}, but a file in {place} has {queue.last_bytes} bytes"
                )
            if any(base % file_bytes for base in queue.bases):
                place = f"{self._family.root}/{queue.topic}/{queue.queue_id}"
                raise ConfigError(f"mappedFileSizeConsumeQueue is {file_bytes}, but {place} has files of another size")

    # all of them

    def flush(self, *, least_bytes: int = 0, count_max: int | None = None, sync: bool = False) -> None:
        """Write all tails of at least *least_bytes*, or any *count_max* of them. Any thread.

        With *sync*, block until the written bytes are on the disk.

        Raises StoreError when something could not be written. It stays in memory and the next call retries.
        """
        if self._ext_family is not None:  # first: no entry should point at a unit that a crash can still take
            self._ext_family.flush(least_bytes)
        self._family.flush(least_bytes, count_max)
        if sync:
            self.sync()

    def sync(self) -> None:
        """Block until all that `flush` has written is on the disk.

        After a StoreError a second call may succeed without writing: the kernel takes the pages for clean.
        """
        if self._ext_family is not None:
            self._ext_family.sync()
        self._family.sync()

    def truncate(self, log_offset: int) -> list[ConsumeQueue]:
        """Forget all messages that do not end by *log_offset*, the end of the log; return the queues that had some.

        For recovery only. If the log has lost nothing, such a queue was damaged: the messages behind its
        `max_log_offset` must be dispatched to it again.
        """
        return [queue for queue in self if queue.truncate(log_offset)]

    def correct_min(self, log_offset_min: int) -> None:
        """Move each queue's minimum to *log_offset_min*, where the log begins. Deletes nothing."""
        for queue in self:
            queue.correct_min(log_offset_min)

    def delete_expired(self, log_offset_min: int) -> int:
        """Delete the files whose messages the log no longer has; return how many.

        An unreadable queue does not stop the rest; the first error is raised at the end.
        """
        count, first_error = 0, None
        for queue in self:
            try:
                count += queue.delete_expired(log_offset_min)
            except StoreError as error:
                first_error = first_error or error
        if first_error is not None:
            raise first_error
        return count

    def expired(self, log_offset_min: int) -> list[ConsumeQueue]:
        """Return the queues whose messages are all gone from the log. A queue that never had one is not among them."""
        return [queue for queue in self if 0 <= queue.max_log_offset < log_offset_min]

    def delete_queue(self, topic: str, queue_id: int) -> bool:
        """Delete a queue and its files. False if there is none."""
        queues = self.by_topic.get(topic, {})
        queue = queues.pop(queue_id, None)
        if queue is None:
            return False
        queue.destroy()
        if not queues:
            del self.by_topic[topic]
            for family in (self._family, self._ext_family):
                if family is not None and family.writable:
                    family.unsynced_directories.add(family.root)
                    remove_empty_directory(f"{family.root}/{topic}")
        return True

    def delete_topic(self, topic: str) -> int:
        """Delete all queues of a topic; return how many there were."""
        return sum(self.delete_queue(topic, queue.queue_id) for queue in self.queues_of(topic))

    def close(self) -> None:
        """Write and sync everything, and let the files go."""
        try:
            if self._family.writable:
                self.flush(sync=True)
        finally:
            self.close_files()

    def close_files(self) -> None:
        """Close all files."""
        self.descriptors.close()
        for family in (self._family, self._ext_family):
            if family is not None:
                family.close()


def _list_directories(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError.from_os_error(error, f"listing {directory}") from error
