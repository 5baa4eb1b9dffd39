"""The check of a whole store: every byte that has a meaning is read, and damage is reported.

    log         every record is whole and valid: size, magic, CRC, and it says where it lies
    queues      every entry is that of its record, and every record has its entry
    index       every entry leads to a message with that key, and every chain to its entries

Needs a few megabytes of memory for any store, and some hundred bytes for each queue.
"""

from collections.abc import Callable
from contextlib import ExitStack, closing

import msgspec

from hanabi.store.inspection.config_files import ConfigFile, known_topics, read_config_files
from hanabi.store.inspection.home import DataFile, FileReader, StoreHome, sequence_problems
from hanabi.store.inspection.log_scan import Broken, LogScan
from hanabi.store.inspection.state_files import read_checkpoint
from hanabi.store.inspection.verify.damage import Damage, DamageList
from hanabi.store.inspection.verify.index import IndexChecks, IndexCounts
from hanabi.store.inspection.verify.queues import QueueChecks, QueueCounts
from hanabi.store.upkeep.checkpoint import Checkpoint
from hanabi.store.upkeep.lock import has_crashed
from hanabi.wire.delay_levels import parse_delay_levels


class LogCounts(msgspec.Struct, rename="camel"):
    """Counts of the check of the commit log."""

    files: int
    min_offset: int
    max_offset: int = 0
    records: int = 0
    broken: int = 0  # stretches without a valid record
    broken_bytes: int = 0


class VerifyReport(msgspec.Struct, rename="camel"):
    """The result of a whole check."""

    home: str
    clean: bool
    log: LogCounts
    queues: QueueCounts
    index: IndexCounts
    damage_count: int
    damage: list[Damage]  # the first of each file


def verify(
    home: StoreHome,
    *,
    delay_levels: str | None = None,
    on_progress: Callable[[str, int, int], None] = lambda *_: None,
) -> VerifyReport:
    """Check the store in *home*.

    The delivery times of delayed messages are checked only if *delay_levels* are given, the broker's
    messageDelayLevel. *on_progress* receives the part, the bytes done and the total.
    """
    damage = DamageList()
    files = home.log_files()
    tables = read_config_files(home)
    _check_tables(home, tables, damage)
    with ExitStack() as stack:
        reader = stack.enter_context(FileReader())
        queues = QueueChecks(
            home,
            damage,
            topics=known_topics(home),
            checkpoint=_check_checkpoint(home, damage),
            stopped_cleanly=not has_crashed(home.root),
            delays_ms=None if delay_levels is None else parse_delay_levels(delay_levels).delays_ms,
        )
        stack.enter_context(closing(queues))
        index = stack.enter_context(closing(IndexChecks(home, damage)))
        progress = _Progress(sum(file.size for file in files) + queues.bytes_total + index.bytes_total, on_progress)
        progress.part = "commit log"
        scan = LogScan(files, reader, on_bytes=progress.advance)
        log = _check_log(home, files, scan, queues, damage)
        progress.part = "consume queues"
        queues.finish(scan.min_offset, scan.end_offset, progress.advance)
        progress.part = "key index"
        index.finish(scan.min_offset, progress.advance)
    return VerifyReport(
        home=str(home.root),
        clean=not damage.count,
        log=log,
        queues=queues.counts,
        index=index.counts,
        damage_count=damage.count,
        damage=damage.first_of_each_file,
    )


class _Progress:
    def __init__(self, total: int, report: Callable[[str, int, int], None]) -> None:
        self.part = ""
        self._done, self._total, self._report = 0, total, report

    def advance(self, count: int) -> None:
        self._done += count
        self._report(self.part, self._done, self._total)


def _check_log(
    home: StoreHome, files: list[DataFile], scan: LogScan, queues: QueueChecks, damage: DamageList
) -> LogCounts:
    counts = LogCounts(len(files), scan.min_offset)
    for file, position, reason in sequence_problems(files):
        damage.add(Damage("commitlog", home.relative(file.path), position, reason, file.base + position))
    for piece in scan:
        if isinstance(piece, Broken):
            counts.broken += 1
            counts.broken_bytes += piece.until - piece.log_offset
            position = piece.log_offset - piece.file.base
            damage.add(Damage("commitlog", home.relative(piece.file.path), position, piece.reason, piece.log_offset))
        else:
            counts.records += 1
            queues.record(piece.dispatch)
    counts.min_offset, counts.max_offset = scan.min_offset, scan.end_offset
    return counts


def _check_checkpoint(home: StoreHome, damage: DamageList) -> Checkpoint:
    times = read_checkpoint(home)
    if times.problem:
        damage.add(Damage("checkpoint", home.relative(str(home.checkpoint)), 0, times.problem))
    return times.checkpoint


def _check_tables(home: StoreHome, tables: list[ConfigFile], damage: DamageList) -> None:
    for table in tables:
        if table.problem:
            damage.add(Damage("config", home.relative(str(home.config / table.name)), 0, table.problem))
