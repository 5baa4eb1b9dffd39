"""The comparison of a queue's files with `consumequeue.ends`: finds missing and changed files.

The last file of each queue is read and its checksum compared. Older ones are read within a budget of bytes, so that a
start takes little longer however much is stored. A difference is cut off; recovery rebuilds it from the log.
"""

from collections.abc import Iterator
from typing import Final

from hanabi.store.queues.consume_queue import ENTRY_BYTES, ConsumeQueue
from hanabi.store.queues.queue_ends import UNKNOWN, QueueEnd

LAST_FILES_BYTES_MAX: Final = 128 << 20
OLDER_FILES_BYTES_MAX: Final = 64 << 20


class QueueCheck:
    """Checks queues one after the other, with one allowance for all of them."""

    def __init__(self) -> None:
        self._last_files_bytes, self._older_files_bytes = LAST_FILES_BYTES_MAX, OLDER_FILES_BYTES_MAX

    def compare(self, queue: ConsumeQueue, known: QueueEnd) -> str | None:
        """Cut *queue* before its first fault and return the reason; None if it holds everything in *known*."""
        if queue.first > known.first:
            queue.destroy()
            return f"{queue.path(known.first)} is missing"
        problem = None
        if queue.end < known.end:
            problem = f"messages up to {known.end // ENTRY_BYTES - 1} were in its files"
        wrong = [base for base, checksum in _files(queue, known) if not self._is_right(queue, known, base, checksum)]
        if wrong:
            problem = f"{queue.path(min(wrong))} was changed, as its checksum says"
            queue.truncate_to_offset(min(wrong) // ENTRY_BYTES)
        return problem

    def complete(self, queue: ConsumeQueue) -> None:
        """Take the checksums of *queue* that are not known."""
        for base in queue.unknown_files():
            size = queue.bytes_in_file(base)
            if self._may_read(queue, base, size):
                queue.note_checksum(base, queue.checksums_of(base, size, size)[1])

    def _is_right(self, queue: ConsumeQueue, known: QueueEnd, base: int, checksum: int) -> bool:
        size, then = queue.bytes_in_file(base), min(known.end - base, queue.family.file_bytes)
        if size < then:
            return True  # cut short, and rebuilt from its end on
        if not self._may_read(queue, base, size):
            if size == then:
                queue.note_checksum(base, checksum)
            return True
        found, now = queue.checksums_of(base, then, size)
        queue.note_checksum(base, now)
        return checksum in (UNKNOWN, found)

    def _may_read(self, queue: ConsumeQueue, base: int, size: int) -> bool:
        if base + queue.family.file_bytes >= queue.end:
            self._last_files_bytes -= size
            return self._last_files_bytes >= 0
        self._older_files_bytes -= size
        return self._older_files_bytes >= 0


def _files(queue: ConsumeQueue, known: QueueEnd) -> Iterator[tuple[int, int]]:
    """Yield the files whose checksums are known and that *queue* has: where they begin, newest first."""
    file_bytes = queue.family.file_bytes
    base = (known.end - 1) // file_bytes * file_bytes
    for checksum in reversed(known.checksums):
        if queue.first <= base < queue.end:
            yield base, checksum
        base -= file_bytes
