"""The facade of the store: put, get, query. It wires the parts together and has little logic of its own.

    put ─> commit log ─> consume queue ─> key index ─> on_append        in the caller's thread, one message at a time
           flush of the log, flush of queues and index, retention       in threads of their own, after `start`

One thread puts, copies and deletes topics; any thread reads. Knows no network and no event loop.
"""

import contextlib
import enum
import errno
import logging
import threading
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from hanabi.clock import wall_ms
from hanabi.errors import MessageRefused, StoreClosed, StoreDamaged, StoreError, StoreFull, StoreUnwritable
from hanabi.memory import memory_bytes as usable_memory_bytes
from hanabi.store.config import FlushMode, StoreConfig
from hanabi.store.copied_log import CopiedLog
from hanabi.store.fast_path.loading import copy_run, record_run, run_writer
from hanabi.store.fast_path.store_side import StoreSide
from hanabi.store.files.disk import used_ratio
from hanabi.store.files.segment import Buffer
from hanabi.store.index.key_index import KeyIndex
from hanabi.store.indexer import Hooks, Indexer, NewQueue
from hanabi.store.log.commit_log import AppendResult, CommitLog, PendingMessage
from hanabi.store.log.walk import record_at
from hanabi.store.queues.consume_queues import ConsumeQueues, QueueNameError
from hanabi.store.queues.queue_ends import QueueEnds
from hanabi.store.read.queries import Queries
from hanabi.store.read.queue_reader import QueueReader
from hanabi.store.read.read_ahead import ReadAhead
from hanabi.store.upkeep.checkpoint import Checkpoint
from hanabi.store.upkeep.flush import LogFlusher, QueueFlusher, Repeater
from hanabi.store.upkeep.lock import StoreLock, has_crashed, has_crashed_as_ours, mark_running, mark_stopped
from hanabi.store.upkeep.preallocation import Preallocation
from hanabi.store.upkeep.recovery import Parts, Recovery, newest_file_ms, recover, restore_queue_offsets
from hanabi.store.upkeep.retention import Retention
from hanabi.store.upkeep.truncation_mark import read_mark, remove_mark, write_mark
from hanabi.wire.message.properties import PROPERTIES_BYTES_MAX
from hanabi.wire.system_names import OP_HALF_TOPIC, SCHEDULE_TOPIC

if TYPE_CHECKING:
    from hanabi.store.fast_path._appends import RunWriter

COPIES_ONLY: Final = "this broker is a slave: send to its master"

logger = logging.getLogger(__name__)

_CHECKPOINT_BYTES: Final = 128 << 20  # so much new log makes a checkpoint due before its time: recovery stays short
_QUEUES_A_FLUSH_MAX: Final = 500  # a write for each: with 40,000 busy queues nothing else would be done
_KEPT_TOPICS: Final = frozenset({SCHEDULE_TOPIC, OP_HALF_TOPIC})
_HOUR_MS: Final = 3_600_000
_SHORT_OF: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # the file could not even be opened


class PutStatus(enum.Enum):
    """The result of a put, by RocketMQ's names. Results that concern slaves are set by the broker.

    OS_PAGECACHE_BUSY never comes from here: it means that another thread has been appending for a second, and there is
    only one.
    """

    PUT_OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    IN_SYNC_REPLICAS_NOT_ENOUGH = "IN_SYNC_REPLICAS_NOT_ENOUGH"
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPPED_FILE_FAILED"
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    OS_PAGECACHE_BUSY = "OS_PAGECACHE_BUSY"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"


PUT_OK: Final = PutStatus.PUT_OK  # for hot paths: an attribute lookup in the enum takes a call


class PutResult(msgspec.Struct, frozen=True, gc=False):
    """The answer to a put. `appended` is where each message went, in order; empty unless the status is PUT_OK."""

    status: PutStatus
    appended: tuple[AppendResult, ...] = ()
    reason: str = ""

    @property
    def end_offset(self) -> int:
        """Everything is durable when the log is flushed up to here."""
        return self.appended[-1].end_offset


class MessageStore:
    """One open store. `open`, then `start`, then `close`; or use it as a context manager, which starts and closes."""

    def __init__(
        self,
        config: StoreConfig,
        lock: StoreLock,
        parts: Parts,
        recovery: Recovery,
        queue_ends: QueueEnds,
        *,
        now_ms: Callable[[], int],
        is_clock_settled: Callable[[], bool],
        disk_ratio: Callable[[Path], float],
        memory_bytes: int,
    ) -> None:
        """Use `open`. The parts have been recovered."""
        self.config, self.recovery, self._lock = config, recovery, lock
        self._commit_log, self._queues, self._index, self._indexer, self._checkpoint = parts
        self._log = self._commit_log.log
        self._queue_ends, self._ends_at = queue_ends, self._queues.changes
        self.reader = QueueReader(self._commit_log, self._queues, config, physical_memory_bytes=memory_bytes)
        self.queries = Queries(self._commit_log, self._queues, self._index, self.reader)
        self.retention = Retention(
            *(self._commit_log, self._queues, self._index, config),
            now_ms=now_ms,
            is_clock_settled=is_clock_settled,
            disk_ratio=disk_ratio,
        )
        self.get = self.reader.get
        self._log_flusher = LogFlusher(self._commit_log, self._checkpoint, config)
        self._queue_flusher = QueueFlusher(
            self._flush_queues, lambda: self._indexer.dispatched_ms, self._checkpoint, config
        )
        self._retention_thread = Repeater("hanabi-retention", self.retention.step)
        self._work_ahead = Preallocation(self._log, self._index)
        self._checkpointed_to = self._log.end_offset
        self._sync_failure: str | None = None
        copies = copy_run()
        self._copied_log = CopiedLog(
            self._commit_log, self._indexer, copies(self._side()) if copies is not None else None
        )
        self.on_growth: Callable[[], None] | None = None  # called after each append, in the thread that puts
        self._closed = False
        self.is_copy = False  # of a master's store: it takes no messages of its own
        self.fence: str | None = None  # why nothing may be put for now
        self._upkeep = threading.Lock()  # held while queues and index are flushed or cut

    @classmethod
    def open(
        cls,
        config: StoreConfig,
        *,
        now_ms: Callable[[], int] = wall_ms,
        hooks: Hooks | None = None,
        is_clock_settled: Callable[[], bool] = lambda: True,
        disk_ratio: Callable[[Path], float] = used_ratio,
        memory_bytes: int | None = None,
    ) -> "MessageStore":
        """Lock the directory, recover its content, and be ready for messages. Nothing is flushed before `start`.

        *is_clock_settled* returns whether *now_ms* is reliable enough to delete messages by age.
        """
        root = Path(config.root)
        with contextlib.ExitStack() as undo:
            lock = undo.enter_context(StoreLock(root))
            crashed = has_crashed(root)
            commit_log = CommitLog.open(config, now_ms=now_ms, crashed=crashed)
            undo.callback(commit_log.log.close)
            # If the clock was set back, the messages' store times are later.
            latest_ms = max(now_ms(), newest_file_ms(commit_log.log) + _HOUR_MS)
            checkpoint = Checkpoint.load(config.checkpoint_path, now_ms=latest_ms)
            queues = ConsumeQueues(
                config.consume_queue_path,
                config.consume_queue_segment_bytes,
                ext_directory=config.consume_queue_ext_path if config.consume_queue_ext_enabled else None,
                ext_file_bytes=config.consume_queue_ext_segment_bytes,
            )
            undo.callback(queues.close_files)
            index = None
            if config.index_enabled:
                index = KeyIndex(
                    config.index_path, slots=config.index_slots, entries_max=config.index_entries, now_ms=now_ms
                )
                undo.callback(index.close)
            parts = Parts(commit_log, queues, index, Indexer(queues, index, hooks=hooks), checkpoint)
            queue_ends = QueueEnds(config.queue_ends_path, lock.owner)
            undo.callback(queue_ends.close)
            cut_at = read_mark(root)
            known_ends = queue_ends.load() if cut_at is None else {}
            recovery = recover(
                parts,
                config,
                crashed=crashed,
                crashed_as_ours=crashed and has_crashed_as_ours(root),
                known_ends=known_ends,
                cut_at=cut_at,
            )
            mark_running(root)
            if queues.changes or not known_ends:
                _renew(queue_ends, queues)
            if cut_at is not None:
                remove_mark(root)
            queues.report_to(queue_ends)
            store = cls(
                config,
                lock,
                parts,
                recovery,
                queue_ends,
                now_ms=now_ms,
                is_clock_settled=is_clock_settled,
                disk_ratio=disk_ratio,
                memory_bytes=memory_bytes or usable_memory_bytes(),
            )
            if crashed:
                store.reader.note_recovered_ends()
            store.retention.check_disk()
            undo.pop_all()
            return store

    # Putting

    def put(self, message: PendingMessage) -> PutResult:
        """Store one message. Never raises for the message or the disk: the result has the status and the reason."""
        if not self._takes_messages():
            refused = self._why_refused()
            if refused is not None:
                return refused
        try:
            queue = self._queues.open(message.topic, message.queue_id)
            appended = self._commit_log.append(message)
        except StoreError as error:
            return _failed(error, [message])
        self._indexer.appended(message, appended, queue)
        self._appended(appended.log_offset)
        return PutResult(PUT_OK, (appended,))

    def put_batch(self, messages: Sequence[PendingMessage]) -> PutResult:
        """Store several messages of one queue: all of them or none."""
        refused = self._why_refused()
        if refused is not None:
            return refused
        try:
            if not messages:
                raise MessageRefused("a batch without messages")
            queue = self._queues.open(messages[0].topic, messages[0].queue_id)
            appended = self._commit_log.append_batch(messages)
        except StoreError as error:
            return _failed(error, messages)
        for message, result in zip(messages, appended, strict=True):
            self._indexer.appended(message, result, queue)
        self._appended(appended[-1].log_offset)
        return PutResult(PUT_OK, tuple(appended))

    def run_writer(self) -> "RunWriter | None":
        """Make a writer for runs of ordinary messages; None where it is not compiled. For the thread that puts."""
        kind = run_writer()
        if kind is None:
            return None
        return kind(self._side())

    def _side(self) -> StoreSide:
        parts = self._commit_log, self._queues, self._index, self._indexer
        return StoreSide(*parts, self._takes_messages, self._appended)

    def _takes_messages(self) -> bool:
        """Return whether a put can skip the checks of the store's faults."""
        indexer = self._indexer
        return not (
            self.is_copy
            or self.fence is not None
            or self._closed
            or self.retention.refuses
            or indexer.failure is not None
            or indexer.unindexed
        )

    def _appended(self, log_offset: int) -> None:
        """Wake the threads that have something to do when the log has grown to *log_offset*."""
        self._log_flusher.appended()
        if self.on_growth is not None:
            self.on_growth()
        if log_offset > self._work_ahead.due_at:
            self._work_ahead.wake()

    def read_ahead(self) -> ReadAhead | None:
        """Make a reader for many pulls that follow each other; None where it is not compiled. For one thread."""
        kind = record_run()
        return ReadAhead(self.reader, self._queues, kind()) if kind is not None else None

    @property
    def is_sync(self) -> bool:
        """True if a message counts as stored only when it is on the disk (SYNC_FLUSH): call `await_flush` then."""
        return self.config.flush_mode is FlushMode.SYNC_FLUSH

    def await_flush(self, end_offset: int, on_done: Callable[[PutStatus], None]) -> None:
        """Call *on_done* once, in another thread: PUT_OK when the log is on the disk up to there, FLUSH_DISK_TIMEOUT
        when that takes too long or fails."""
        self._log_flusher.await_flush(
            end_offset, lambda stored: on_done(PutStatus.PUT_OK if stored else PutStatus.FLUSH_DISK_TIMEOUT)
        )

    def append_copy(self, log_offset: int, *pieces: Buffer) -> None:
        """Store bytes of a master's log, which must follow on ours, and dispatch the records that are now whole.

        LogDiverged if they are of another log; StoreError if they cannot be stored."""
        if self._closed:
            raise StoreClosed(f"{self.config.root} is closed")
        self._work_ahead.makes_pages = False
        self._copied_log.append(log_offset, *pieces)
        self._appended(self._log.end_offset)

    def restore_queue_offsets(self) -> None:
        """Go on counting where the queues end: for a slave that becomes a master."""
        restore_queue_offsets(self._commit_log, self._queues)

    def begin_queues_at(self, ends: Mapping[tuple[str, int], int]) -> int:
        """Let queues without a message begin at the offsets *ends*, and return their number: for a slave whose copy
        lacks the messages of its master's queues, when it becomes a master."""
        begun = 0
        for (topic, queue_id), end in ends.items():
            queue = self._queues.open(topic, queue_id)
            if end > 0 and not queue.max_offset:
                queue.skip_to(end)
                begun += 1
        self.restore_queue_offsets()
        return begun

    def has_messages(self, topic: str, queue_id: int) -> bool:
        """Return whether the queue has, or had, a message here."""
        queue = self._queues.find(topic, queue_id)
        return queue is not None and queue.max_offset > 0

    def on_new_queue(self, notify: NewQueue) -> None:
        """Call *notify* when a copied message opens a queue, or begins one again. In the thread that puts."""
        self._indexer.on_new_queue = notify

    def cut_partial_record(self) -> None:
        """Remove the bytes behind the last whole record of a copy: for a slave that becomes a master, or follows
        another one."""
        if self._copied_log.whole_to < self._log.end_offset:
            self.truncate(self._copied_log.whole_to)

    def truncate(self, log_offset: int) -> None:
        """Forget the messages from *log_offset* on, where a record begins. For the thread that puts; blocks.

        The log is cut first, and is on the disk when the queues are cut. A crash in between leaves a mark, and recovery
        completes the cut.
        """
        if self._closed:
            raise StoreClosed(f"{self.config.root} is closed")
        logger.warning("%s: the log is cut from %d to %d", self.config.root, self._log.end_offset, log_offset)
        root = Path(self.config.root)
        write_mark(root, log_offset)
        with self._upkeep:
            self._checkpoint.lower_to(0)  # a crash until the end of this leads to a recovery of the whole log
            self._log.truncate_to(log_offset)
            self._log.write_again(log_offset)
            self._queues.truncate(log_offset)
            if self._index is not None:
                self._index.truncate(log_offset)
            _renew(self._queue_ends, self._queues)
            self._ends_at = self._queues.changes
            self._checkpointed_to = min(self._checkpointed_to, log_offset)
            self._forget_times()
        remove_mark(root)
        self.reader.note_recovered_ends()
        self.restore_queue_offsets()

    def _forget_times(self) -> None:
        """Set the times of what is stored and flushed back to the newest message that is left: those that follow may be
        older than the messages that were cut, and the checkpoint must not vouch for them."""
        last = self.last_message_offset()
        record = record_at(self._log, last) if last is not None else None
        left_ms = record.store_timestamp_ms if record is not None else 0
        self._commit_log.store_timestamp_ms = self._indexer.dispatched_ms = left_ms
        self._checkpoint.log_ms = self._checkpoint.queues_ms = self._checkpoint.index_ms = left_ms
        self._checkpoint.flush()

    def _why_refused(self) -> PutResult | None:
        """Return why no message can be taken; None if one can again."""
        reason = ""
        if self._closed:
            reason = f"the store {self.config.root} is closed"
        elif self.is_copy:
            reason = COPIES_ONLY
        elif self.fence is not None:
            reason = self.fence
        elif self.retention.refuses:
            reason = f"the disk of {self.config.root} is too full"
        elif self._indexer.failure is not None:
            reason = str(self._indexer.failure)
        else:
            try:
                self._indexer.catch_up()
            except StoreError as error:
                reason = str(error)
        return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason=reason) if reason else None

    # Where things are

    @property
    def min_log_offset(self) -> int:
        return self._log.min_offset

    @property
    def max_log_offset(self) -> int:
        """The log offset of the next message."""
        return self._log.end_offset

    def last_message_offset(self) -> int | None:
        """Return where the newest message of all queues begins in the log; None if no queue has one."""
        newest = max(self._queues, key=lambda queue: queue.max_log_offset, default=None)
        entry = newest.entry(newest.max_offset - 1) if newest is not None and newest.max_offset else None
        return entry[0] if entry is not None else None

    @property
    def flushed_log_offset(self) -> int:
        """Everything below is on the disk."""
        return self._log.flushed_offset

    @property
    def undispatched(self) -> int:
        """The number of messages missing in the key index because it could not be written. Queues never lag."""
        return len(self._indexer.unindexed)

    @property
    def latest_store_ms(self) -> int:
        """The store time of the newest message of all; 0 if there was none."""
        return self._commit_log.store_timestamp_ms

    @property
    def descriptors_max(self) -> int:
        """The most descriptors its files may take: the queues', and two for each mapped file and the next one."""
        file_systems = 2
        mapped = len(self._log.segments) + 1 + (len(self._index.files) + 1 if self._index is not None else 0)
        return self._queues.descriptors.limit + file_systems + 2 * mapped

    def read_log(self, log_offset: int) -> memoryview | None:
        """Return the log's bytes from there to the end of the file, for a slave; empty at the end, None outside."""
        return self._log.read_tail(log_offset)

    def is_log_in_memory(self, log_offset: int, size: int) -> bool:
        """Return whether `read_log` gives bytes that need no access to the disk, for *size* bytes."""
        return self._log.is_in_memory(log_offset, size)

    def load_log(self, log_offset: int, size: int) -> None:
        """Bring *size* bytes of one file into memory. Blocks; any thread. StoreDamaged if they cannot be read."""
        self._log.load(log_offset, size)

    def queues(self) -> Iterator[tuple[str, int]]:
        """Return topic and queue id of all queues."""
        return ((queue.topic, queue.queue_id) for queue in self._queues)

    def queues_since(self, log_offset: int) -> Iterator[tuple[str, int]]:
        """Return topic and queue id of the queues with a message that ends behind *log_offset*."""
        return ((queue.topic, queue.queue_id) for queue in self._queues if queue.max_log_offset > log_offset)

    def queues_of(self, topic: str) -> list[int]:
        """Return the queue ids of one topic."""
        return [queue.queue_id for queue in self._queues.queues_of(topic)]

    # Deleting

    def delete_topic(self, topic: str) -> int:
        """Delete all queues of *topic*; return how many. Its messages stay in the log until they are too old."""
        for queue in self._queues.queues_of(topic):
            self._commit_log.forget_queue(topic, queue.queue_id)
        return self._queues.delete_topic(topic)

    def delete_queue(self, topic: str, queue_id: int) -> bool:
        """Delete one queue; False if there is none. Use instead of delete_topic when the caller must not block."""
        self._commit_log.forget_queue(topic, queue_id)
        return self._queues.delete_queue(topic, queue_id)

    def unused_topics(self, known: Container[str]) -> list[str]:
        """Return the topics with queues that are not *known*."""
        return [topic for topic in self._queues.topics() if topic not in known and topic not in _KEPT_TOPICS]

    def delete_unused_topics(self, known: Container[str]) -> list[str]:
        """Delete the queues of all topics that are not *known*; return which those were."""
        unused = self.unused_topics(known)
        for topic in unused:
            logger.info("topic %s is unused: %d queues deleted", topic, self.delete_topic(topic))
        return unused

    def expired_queues(self) -> list[tuple[str, int]]:
        """Return the queues whose messages are all gone. Should they come again, they begin at 0."""
        expired = self._queues.expired(self._log.min_offset)
        return [(queue.topic, queue.queue_id) for queue in expired if queue.topic != SCHEDULE_TOPIC]

    def delete_expired_queues(self) -> int:
        """Delete the queues whose messages are all gone; return how many."""
        return sum(self.delete_queue(*queue) for queue in self.expired_queues())

    # Lifetime

    def start(self) -> None:
        """Start the threads that flush and delete expired files."""
        self._log_flusher.start()
        self._queue_flusher.start()
        self._retention_thread.start()
        self._work_ahead.start()

    def use(self, config: StoreConfig) -> None:
        """Apply the limits, intervals and times in *config* from now on. Changes of paths, file sizes and the flush
        mode are ignored until a restart."""
        self.config = config
        self._commit_log.message_bytes_max = config.message_bytes_max
        for part in (self.reader, self.retention, self._log_flusher, self._queue_flusher):
            part.use(config)

    def flush(self, *, log_only: bool = False) -> None:
        """Bring everything to the disk now, or the log alone. Blocks; any thread."""
        self._log_flusher.flush_all()
        if not log_only:
            self._queue_flusher.flush_all()

    def close(self) -> None:
        """Bring everything to the disk and let it go. The mark of a crash stays if that fails."""
        if self._closed:
            return
        self._closed = True
        with contextlib.ExitStack() as steps:  # backwards; each is taken even if one before it fails
            steps.callback(self._lock.release)
            steps.callback(self._log.close)
            steps.callback(self._queues.close_files)
            steps.callback(self._queue_ends.close)
            if self._index is not None:
                steps.callback(self._index.close)
            steps.callback(self._stop_flushing)
            steps.callback(self._work_ahead.stop)
            steps.callback(self._retention_thread.stop)

    def _stop_flushing(self) -> None:
        """Stop both flushers, even if the first one raises, and raise the first error."""
        errors: list[Exception] = []
        for flusher in (self._log_flusher, self._queue_flusher):
            try:
                flusher.stop()
            except Exception as error:  # noqa: BLE001 - raised below, when no thread is left
                errors.append(error)
        for later in errors[1:]:
            logger.error("%s: the queues could not be brought to the disk either: %s", self.config.root, later)
        if errors:
            raise errors[0]
        if self._indexer.failure is not None or self._indexer.unindexed:
            logger.error(
                "%s: queues or index lack messages, so the next start recovers as after a crash", self.config.root
            )
        else:
            mark_stopped(Path(self.config.root))

    def _write_ends(self) -> None:
        """Note where the queues end, after they were synced, if that has changed."""
        changes = self._queues.changes
        if changes == self._ends_at:
            self._queue_ends.sync()
        elif self._queue_ends.write(self._queues.ends):
            self._ends_at = changes

    def __enter__(self) -> "MessageStore":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _flush_queues(self, least_pages: int) -> None:
        """Write the queues to their files; with 0, or when much was appended, also bring them to the disk."""
        with self._upkeep:
            self._flush_queues_now(least_pages)

    def _flush_queues_now(self, least_pages: int) -> None:
        dispatched_ms, end = self._indexer.dispatched_ms, self._log.end_offset  # before: later messages are not in
        is_early = least_pages > 0 and end - self._checkpointed_to >= _CHECKPOINT_BYTES
        if least_pages and not is_early:
            self._queues.flush(count_max=_QUEUES_A_FLUSH_MAX)
            self._queue_ends.sync()
            return
        self._queues.flush()
        self._sync_queues()
        self._write_ends()
        if self._index is not None and not self._indexer.unindexed:
            self._checkpoint.index_ms = max(self._checkpoint.index_ms, dispatched_ms)
        self._checkpointed_to = end
        if is_early:
            self._checkpoint.queues_ms = max(self._checkpoint.queues_ms, dispatched_ms)
            self._checkpoint.flush()

    def _sync_queues(self) -> None:
        """Sync the written bytes of queues and index to the disk. After a failure this fails until a restart: a second
        sync would succeed without writing, and the checkpoint would vouch for entries that are gone."""
        if self._sync_failure is None:
            try:
                self._queues.sync()
                if self._index is not None:
                    self._index.sync()
                return
            except StoreError as error:
                if isinstance(error.__cause__, OSError) and error.__cause__.errno in _SHORT_OF:  # not the disk's word
                    raise
                self._sync_failure = (
                    f"{error}; the checkpoint stays as it is, and the next start builds what is missing"
                )
        raise StoreDamaged(self._sync_failure)


def _renew(queue_ends: QueueEnds, queues: ConsumeQueues) -> None:
    """Record the content of the queues' files after recovery has changed them. Earlier records are void."""
    queue_ends.delete()
    queues.complete_checksums()
    queue_ends.write(queues.ends)


def _failed(error: StoreError, messages: Sequence[PendingMessage]) -> PutResult:
    if isinstance(error, MessageRefused):
        is_properties = any(len(message.properties) > PROPERTIES_BYTES_MAX for message in messages)
        status = PutStatus.PROPERTIES_SIZE_EXCEEDED if is_properties else PutStatus.MESSAGE_ILLEGAL
    elif isinstance(error, StoreFull | StoreUnwritable):
        status = PutStatus.CREATE_MAPPED_FILE_FAILED
    elif isinstance(error, QueueNameError):
        status = PutStatus.MESSAGE_ILLEGAL
    else:
        status = PutStatus.SERVICE_NOT_AVAILABLE
    return PutResult(status, reason=str(error))
