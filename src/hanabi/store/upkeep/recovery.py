"""Recovery of a store at opening: find the true end of the log, and bring queues and index in step with it.

After a clean stop the queues have the end of the log, and only the last record is checked.

After a crash every record is checked (size, magic, place, CRC) and dispatched again, from a place where everything
before is certainly on the disk: the checkpoint says up to which time that is. The place is the newest log file whose
first message is older, as in Java's CommitLog.recoverAbnormally, or nearer where the crashed process was ours. So the
time it takes depends on how much was written since the last checkpoint and not on how much is stored.

The log is the source of truth. Entries of queues and index beyond its end are removed, missing ones are rebuilt; a
damaged queue is rebuilt from its last good entry on.
"""

import heapq
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from hanabi.errors import StoreDamaged, StoreError
from hanabi.store.config import FlushMode, StoreConfig
from hanabi.store.index.key_index import KeyIndex
from hanabi.store.indexer import Indexer, QueueHoleError
from hanabi.store.log.commit_log import CommitLog
from hanabi.store.log.log import Log
from hanabi.store.log.walk import Damage, Faults, LogWalk, record_at
from hanabi.store.queues.consume_queue import ENTRY_BYTES, ConsumeQueue, is_blank
from hanabi.store.queues.consume_queues import ConsumeQueues
from hanabi.store.queues.queue_ends import QueueEnd, QueueKey
from hanabi.store.upkeep.checkpoint import SLACK_MS, Checkpoint
from hanabi.store.upkeep.index_rebuild import build_index
from hanabi.store.upkeep.missing_log_files import continue_numbers, queues_beyond
from hanabi.wire.message.record import Dispatch

logger = logging.getLogger(__name__)

_PROGRESS_RECORDS: Final = 4_096  # records between two looks at the clock
_PROGRESS_SECONDS: Final = 3.0
_FLUSH_MARGIN_MS: Final = 60_000
_TOLD_MAX: Final = 20  # of rebuilt queues, one line each
_START_QUEUES: Final = 8  # how many queues are asked for a place to begin


class Parts(NamedTuple):
    """The parts of a store that recovery works on."""

    commit_log: CommitLog
    queues: ConsumeQueues
    key_index: KeyIndex | None
    indexer: Indexer
    checkpoint: Checkpoint


class Recovery(NamedTuple):
    """The result of recovery."""

    start: int
    end: int
    records: int  # that were checked
    damages: list[Damage]
    seconds: float


def recover(
    parts: Parts,
    config: StoreConfig,
    *,
    crashed: bool,
    crashed_as_ours: bool = False,
    known_ends: Mapping[QueueKey, QueueEnd] | None = None,
    cut_at: int | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Recovery:
    """Load queues and index and put everything in step. Afterwards the store can be written.

    *crashed_as_ours*: it was our process that crashed. Apache notes times in its checkpoint for queues that it
    has not flushed yet, and makes up for that by beginning at the start of a file.

    *known_ends*: the content that the queues must have, if it is known; missing entries are rebuilt.

    *cut_at*: where a truncation was cutting the log when the process ended; it is completed first.
    """
    began = clock()
    log, queues, index = parts.commit_log.log, parts.queues, parts.key_index
    damaged = [queues.open(queue.topic, queue.queue_id) for queue in queues.load(thorough=crashed, known=known_ends)]
    if index is not None:
        index.load()
    if not log.segments and queues.max_log_offset >= 0:
        raise StoreDamaged(
            f"{log.directory} is empty, but the consume queues have messages up to log offset {queues.max_log_offset}: "
            "put the files back, or delete consumequeue and index to start with an empty store"
        )
    if cut_at is not None:
        _complete_truncation(parts, cut_at)
    beyond = queues_beyond(log, queues)
    for queue in damaged:
        _drop_false_end(log, queue)
    if crashed:
        start = _crash_start(parts, config, search_in_file=crashed_as_ours and not damaged)
        # Before this place everything is on the disk. The entries of later messages may lack any page.
        queues.truncate(start)
        if index is not None:
            index.repair(start)
    else:
        start, cut = _clean_start(log, queues)
        damaged += cut
    if index is not None and index.is_missing and start > log.min_offset:
        build_index(log, index, parts.indexer, start, flushed_before_ms=_flushed_before(parts, config))
    faults = Faults(crashed, crashed and config.flush_mode is FlushMode.ASYNC_FLUSH, crashed_as_ours)
    walk, records = _bring_in_step(parts, config, start, damaged, clock, faults)
    lost = [queue for queue in damaged if queue not in beyond]
    _go_on_counting(queues, lost, known_ends or {}, walk.end)
    _cut(walk, parts, beyond)
    _log_rebuilt(lost)
    if crashed:
        _make_durable(log, walk)
    done = Recovery(start, walk.end, records, walk.damages, clock() - began)
    if log.segments:
        _log_result(done, log, walk, crashed=crashed)
    else:
        logger.info("empty store: there are no messages in %s yet", log.directory)
    return done


def _log_result(done: Recovery, log: Log, walk: LogWalk, *, crashed: bool) -> None:
    """Log one line. It has the reason for the log's end only if there may have been more."""
    logger.info(
        "recovered after a %s: log %d..%d, looked at %d messages from %d on, %.1f s%s",
        "crash" if crashed else "clean stop",
        log.min_offset,
        done.end,
        done.records,
        done.start,
        done.seconds,
        f"; the end: {walk.end_reason}" if crashed or walk.is_torn else "",
    )


def restore_queue_offsets(commit_log: CommitLog, queues: ConsumeQueues) -> None:
    """Let the commit log go on counting where the queues end."""
    commit_log.restore_queue_offsets({(queue.topic, queue.queue_id): queue.max_offset for queue in queues})


def _complete_truncation(parts: Parts, cut_at: int) -> None:
    """Cut the log where it was being cut, and the queues with it; the rest is as after any crash."""
    log = parts.commit_log.log
    logger.warning("%s: the truncation at %d, which a crash had ended, is completed", log.directory, cut_at)
    parts.checkpoint.lower_to(0)
    if log.min_offset <= cut_at <= log.end_offset:
        log.truncate_to(cut_at)
        log.write_again(cut_at)
    parts.queues.truncate(cut_at)


# Where to begin


def _crash_start(parts: Parts, config: StoreConfig, *, search_in_file: bool) -> int:
    """Return a place before which everything is on the disk, in the log and in the queues; the beginning if there
    are none."""
    log, checkpoint = parts.commit_log.log, parts.checkpoint
    safe_ms = checkpoint.safe_with_index_ms if config.index_enabled and config.index_safe else checkpoint.safe_ms
    for segment in reversed(log.segments) if parts.queues.max_log_offset >= 0 else ():
        first = record_at(log, segment.base_offset)
        if first is not None and 0 < first.store_timestamp_ms <= safe_ms:
            return max(segment.base_offset, _last_before(log, parts.queues, safe_ms) if search_in_file else 0)
    return log.min_offset


def _flushed_before(parts: Parts, config: StoreConfig) -> int:
    """Return messages stored before this time were certainly on the disk, even where the checkpoint is old or lost."""
    slowest_ms = max(config.flush_commit_log_thorough_interval_ms, config.flush_commit_log_interval_ms)
    margin_ms = max(_FLUSH_MARGIN_MS, 3 * slowest_ms)
    return max(parts.checkpoint.log_ms, newest_file_ms(parts.commit_log.log) - margin_ms)


def _certain_before(parts: Parts, config: StoreConfig) -> int:
    """Return messages stored before this time were flushed without an error, by the checkpoint's word if there is
    one."""
    log_ms = parts.checkpoint.log_ms
    return log_ms - SLACK_MS if log_ms else _flushed_before(parts, config)


def newest_file_ms(log: Log) -> int:
    """Return the store time of the first message in the newest file that has one; 0 if there is none."""
    for segment in reversed(log.segments):
        first = record_at(log, segment.base_offset)
        if first is not None:
            return first.store_timestamp_ms
    return 0


def _last_before(log: Log, queues: ConsumeQueues, safe_ms: int) -> int:
    """Return the latest offset, among the queues that reach furthest, of a message stored by *safe_ms*; 0 if none."""

    def is_later(log_offset: int, size: int) -> bool:
        record = None if is_blank(log_offset, size) else record_at(log, log_offset)
        return record is not None and record.store_timestamp_ms > safe_ms

    best = 0
    for queue in heapq.nlargest(_START_QUEUES, queues, key=lambda queue: queue.max_log_offset):
        later = queue.first_where(queue.min_offset, queue.max_offset, is_later)
        record = _record_of(log, queue, later - 1) if later > queue.min_offset else None
        if record is not None and record.store_timestamp_ms <= safe_ms:
            best = max(best, record.log_offset)
    return best


def _clean_start(log: Log, queues: ConsumeQueues) -> tuple[int, list[ConsumeQueue]]:
    """Return the last message that any queue knows; also the queues whose ends did not agree with the log and were cut.

    If there is no queue, all are rebuilt; if the last one lies before the log, the last three files are checked.
    """
    cut: list[ConsumeQueue] = []
    while (newest := max(queues, key=lambda queue: queue.max_log_offset, default=None)) is not None:
        if not _drop_false_end(log, newest):
            if newest.max_log_offset < 0:
                break
            last = newest.entry(newest.max_offset - 1)
            if last is not None and last[0] >= log.min_offset:
                return last[0], cut
            return log.segments[-3:][0].base_offset, cut
        cut.append(newest)
    return log.min_offset, cut


def _drop_false_end(log: Log, queue: ConsumeQueue) -> int:
    """Take back the last entries of *queue* as long as the log does not have their messages; return how many.

    A bad bit in the last one would otherwise make the queue believe that it has all messages up to there.
    """
    kept, first = queue.max_offset, queue.min_offset
    while kept > first and not _is_entry_true(log, queue, kept - 1):
        kept -= 1
    dropped = queue.max_offset - kept
    if dropped:
        queue.truncate_to_offset(kept)
    return dropped


def _is_entry_true(log: Log, queue: ConsumeQueue, queue_offset: int) -> bool:
    """Return whether the log has the message that an entry points at. A deleted message counts as true."""
    entry = queue.entry(queue_offset)
    if entry is None:
        return False
    log_offset, size, _ = entry
    is_gone = is_blank(log_offset, size) or log_offset < log.min_offset
    return is_gone or _record_of(log, queue, queue_offset) is not None


def _record_of(log: Log, queue: ConsumeQueue, queue_offset: int) -> Dispatch | None:
    """Return the message that an entry points at, if it is the right one."""
    entry = queue.entry(queue_offset)
    record = record_at(log, entry[0]) if entry is not None else None
    if record is None or entry is None:
        return None
    found = record.topic, record.queue_id, record.queue_offset, record.size
    return record if found == (queue.topic, queue.queue_id, queue_offset, entry[1]) else None


# Doing it


def _bring_in_step(
    parts: Parts,
    config: StoreConfig,
    start: int,
    damaged: list[ConsumeQueue],
    clock: Callable[[], float],
    faults: Faults,
) -> tuple[LogWalk, int]:
    """Dispatch everything from *start* on; then once more from further back, should a queue lack something there.

    The next message of a damaged queue shows whether the queue lacks only the entries that a crash took, or older ones:
    then there is a hole before that message.
    """
    ends = {queue: queue.max_log_offset for queue in damaged}
    walk, holes, records = _dispatch(parts, config, start, clock, faults, fill_holes=False)
    if start > parts.commit_log.log.min_offset:
        for queue, end in ends.items():
            if end < 0:
                queue.destroy()  # it took its first message in this walk for its beginning
            if queue.max_log_offset == end:
                holes[queue] = end
    if holes:
        rebuild_from = max(min(holes.values()), parts.commit_log.log.min_offset)
        logger.warning("%d consume queues are built again from log offset %d on", len(holes), rebuild_from)
        if parts.key_index is not None:  # a message left out of a queue was left out of the index, too
            parts.key_index.truncate(rebuild_from)
        walk, _, more = _dispatch(parts, config, rebuild_from, clock, faults, fill_holes=True)
        records += more
    for damage in walk.damages:
        logger.error("the log has no valid record from %d to %d: %s", damage.start, damage.end, damage.reason)
    return walk, records


def _dispatch(
    parts: Parts, config: StoreConfig, start: int, clock: Callable[[], float], faults: Faults, *, fill_holes: bool
) -> tuple[LogWalk, dict[ConsumeQueue, int], int]:
    """Walk from *start* to the end. Returns the walk, the queues with a hole and where it begins, how many records."""
    indexer, log = parts.indexer, parts.commit_log.log
    walk = LogWalk(
        log,
        start,
        check_crc=config.check_crc_on_recover,
        flushed_before_ms=_flushed_before(parts, config),
        certain_before_ms=_certain_before(parts, config),
        faults=faults,
    )

    def has_message(queue: ConsumeQueue, queue_offset: int) -> bool:
        return _record_of(log, queue, queue_offset) is not None

    holes: dict[ConsumeQueue, int] = {}
    records, seen, next_report = 0, 0, clock() + _PROGRESS_SECONDS
    for record in walk:
        seen += _keep_places(parts, walk.damages[seen:])
        try:
            indexer.dispatch(record, fill_holes=fill_holes or bool(walk.damages), has_message=has_message)
        except QueueHoleError as error:
            holes.setdefault(error.queue, error.queue.max_log_offset)
        except StoreError as error:
            logger.error("the message at log offset %d is in no queue: %s", record.log_offset, error)
        records += 1
        if not records % _PROGRESS_RECORDS and clock() >= next_report:
            next_report = clock() + _PROGRESS_SECONDS
            logger.info("recovery is at log offset %d of at most %d", walk.end, log.end_offset)
    _keep_places(parts, walk.damages[seen:])
    return walk, holes, records


def _keep_places(parts: Parts, damages: list[Damage]) -> int:
    """Give damaged messages their entries in the queues, where they are the next ones; return how many damages.

    Readers skip them. If they were the last of their queue and their offsets were reused, a group that has consumed
    them would skip the new messages.
    """
    for claim in (damage.claim for damage in damages):
        queue = parts.queues.find(claim.topic, claim.queue_id) if claim is not None else None
        if claim is not None and queue is not None and claim.queue_offset == queue.max_offset:
            parts.indexer.dispatch(claim)
    return len(damages)


def _make_durable(log: Log, walk: LogWalk) -> None:
    """Flush data that the crashed process may have left in memory only.

    It is in the memory of the system, but a sync alone may skip it: if an earlier one failed, the kernel takes
    these pages for clean. So they are written again. Raises StoreError, with the file, if the disk still fails.
    """
    log.write_again(walk.uncertain_from if walk.uncertain_from is not None else walk.end)


def _go_on_counting(
    queues: ConsumeQueues, damaged: list[ConsumeQueue], known: Mapping[QueueKey, QueueEnd], log_end: int
) -> None:
    """Let each damaged queue end where it did: messages that the log no longer has keep their numbers."""
    for queue in damaged:
        place = queue.topic, queue.queue_id
        end = known.get(place)
        if end is None:
            continue
        if queue.max_offset < end.end // ENTRY_BYTES and end.log_offset <= log_end:
            queue.skip_to(end.end // ENTRY_BYTES)
        if not queue.max_offset:
            queues.delete_queue(*place)  # the log has lost all of it, too


def _log_rebuilt(damaged: list[ConsumeQueue]) -> None:
    for queue in damaged[:_TOLD_MAX]:
        logger.warning(
            "consume queue %s/%d was built again from the log: messages %d to %d",
            queue.topic,
            queue.queue_id,
            queue.min_offset,
            queue.max_offset - 1,
        )
    if len(damaged) > _TOLD_MAX:
        logger.warning("%d more consume queues were built again", len(damaged) - _TOLD_MAX)


def _cut(walk: LogWalk, parts: Parts, beyond: Mapping[ConsumeQueue, int]) -> None:
    """Let everything end where the log does, and go on counting from there; queues *beyond* it, from their own end."""
    commit_log, queues, index = parts.commit_log, parts.queues, parts.key_index
    log = commit_log.log
    log.truncate_to(walk.end)
    changed = queues.truncate(walk.end)
    if changed:
        logger.warning("%d consume queues had messages behind the end of the log", len(changed))
    if index is not None:
        index.truncate(walk.end)
    queues.correct_min(log.min_offset)
    continue_numbers(log, queues, beyond)
    commit_log.store_timestamp_ms = walk.last_store_ms
    restore_queue_offsets(commit_log, queues)
