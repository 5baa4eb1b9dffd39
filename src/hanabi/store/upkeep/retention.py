"""The retention of log files, and the refusal of messages when the disk fills up.

`decide` is pure: facts in, decision out. `Retention` gathers the facts, deletes, and lets queues and index follow the
log's new beginning. Agrees with Java's CleanCommitLogService and CleanConsumeQueueService, but for the age of a file:
that is the age of its newest message, not of its last change, which a copy or a late flush would make younger.

Current readers are not disturbed: a deleted file lives on until the last of them releases it.
"""

import itertools
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from hanabi.store.config import StoreConfig
from hanabi.store.files.disk import used_ratio
from hanabi.store.index.key_index import KeyIndex
from hanabi.store.log.commit_log import CommitLog
from hanabi.store.log.walk import record_at
from hanabi.store.queues.consume_queues import ConsumeQueues

logger = logging.getLogger(__name__)

REFUSE_RATIO: Final = 0.90  # Apache: diskSpaceWarningLevelRatio
FORCE_RATIO: Final = 0.85  # Apache: diskSpaceCleanForciblyRatio
FILES_A_ROUND_MAX: Final = 10
ROUNDS_WHEN_ASKED: Final = 20
_HOUR_MS: Final = 3_600_000


class Facts(NamedTuple):
    """The facts a decision depends on."""

    hour: int  # of the day, local time
    disk_ratios: Sequence[float]  # of the log's disk and of the queues'; negative: unknown
    file_ages_ms: Sequence[int]  # oldest first, without the file that is written to
    is_asked_for: bool  # an operator asked for a clean-up
    is_clock_settled: bool = True  # otherwise ages mean nothing


class Decision(NamedTuple):
    """The number of oldest files to delete, and whether messages are refused."""

    files: int
    refuses: bool
    reason: str


def decide(facts: Facts, config: StoreConfig) -> Decision:
    """Decide: expired files go at their hour, on a rather full disk or on request, any file on a very full disk."""
    fullest = max(facts.disk_ratios)
    is_unknown = min(facts.disk_ratios) < 0
    refuses = fullest > REFUSE_RATIO
    if fullest > FORCE_RATIO and config.clean_forcibly_enabled:
        files = min(len(facts.file_ages_ms), FILES_A_ROUND_MAX)
        return Decision(files, refuses, f"the disk is {fullest:.0%} full")
    if is_unknown or fullest > config.disk_used_percent_max / 100:
        reason = "it is unknown how full the disk is" if is_unknown else f"the disk is {fullest:.0%} full"
    elif facts.hour in config.delete_hours:
        reason = f"it is the hour to delete ({config.delete_when})"
    elif facts.is_asked_for:
        reason = "an operator asked for it"
    else:
        return Decision(0, refuses, "")
    if not facts.is_clock_settled:
        return Decision(0, refuses, f"{reason}, but the clock was set")
    return Decision(_expired(facts.file_ages_ms, config.file_reserved_hours * _HOUR_MS), refuses, reason)


def _expired(ages_ms: Sequence[int], reserved_ms: int) -> int:
    for count, age_ms in enumerate(ages_ms[:FILES_A_ROUND_MAX]):
        if age_ms < reserved_ms:
            return count
    return min(len(ages_ms), FILES_A_ROUND_MAX)


class Retention:
    """Deletes expired files, step by step. Runs in its own thread, concurrently with appends."""

    def __init__(
        self,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        index: KeyIndex | None,
        config: StoreConfig,
        *,
        now_ms: Callable[[], int],
        is_clock_settled: Callable[[], bool] = lambda: True,
        disk_ratio: Callable[[Path], float] = used_ratio,
    ) -> None:
        self._log, self._queues, self._index, self._config = commit_log.log, queues, index, config
        self._now_ms, self._is_clock_settled, self._disk_ratio = now_ms, is_clock_settled, disk_ratio
        self._rounds_asked_for = 0
        self._due = 0  # files of this round that are still to be deleted
        self._followed_to = 0
        self.refuses = False  # the disk is so full that no message is taken

    def use(self, config: StoreConfig) -> None:
        """Keep to these times and limits from now on."""
        self._config = config

    def ask(self) -> None:
        """Delete expired files in the next rounds, at any hour."""
        self._rounds_asked_for = ROUNDS_WHEN_ASKED

    def step(self) -> float:
        """Begin a round, or delete the next file of it; return the seconds until the next step is due."""
        if not self._due:
            self._due = self._begin_round()
        if self._due:
            self._due = self._due - 1 if self._log.delete_oldest() else 0
        if self._due:
            return self._config.delete_commit_log_interval_ms / 1000
        self._follow()
        return self._config.clean_interval_ms / 1000

    def run_round(self) -> None:
        """Run a whole round at once, without the pauses between files."""
        self.step()
        while self._due:
            self.step()

    def check_disk(self) -> None:
        """Check the disk only, and refuse messages or accept them again."""
        self._note(self._decide())

    def _begin_round(self) -> int:
        decision = self._decide()
        self._rounds_asked_for = max(self._rounds_asked_for - 1, 0)
        self._note(decision)
        if decision.files:
            logger.info(
                "deleting %d log files from offset %d on: %s", decision.files, self._log.min_offset, decision.reason
            )
        elif decision.refuses:
            logger.warning("no log file can be deleted, although %s", decision.reason)
        return decision.files

    def _decide(self) -> Decision:
        now_ms = self._now_ms()
        facts = Facts(
            hour=time.localtime(now_ms // 1000).tm_hour,
            disk_ratios=[self._disk_ratio(path) for path in (self._log.directory, Path(self._config.root))],
            file_ages_ms=self._ages_ms(now_ms),
            is_asked_for=self._rounds_asked_for > 0,
            is_clock_settled=self._is_clock_settled(),
        )
        return decide(facts, self._config)

    def _note(self, decision: Decision) -> None:
        if decision.refuses != self.refuses:
            if decision.refuses:
                logger.error("messages are refused until the disk has room: %s", decision.reason)
            else:
                logger.warning("the disk has room again: messages are accepted")
        self.refuses = decision.refuses

    def _ages_ms(self, now_ms: int) -> list[int]:
        """Return the age of the newest message of each file: hardly older than the first one of the next file.

        After the clock was ahead for a while messages have times in the future. Then the file's own time counts, and
        it is never younger than the files behind it.
        """
        segments = self._log.segments[: FILES_A_ROUND_MAX + 1]
        ages: list[int] = []
        for segment, following in itertools.pairwise(segments):
            first = record_at(self._log, following.base_offset)
            if first is not None and first.store_timestamp_ms <= now_ms:
                ages.append(now_ms - first.store_timestamp_ms)
            elif segment.path.exists():
                ages.append(now_ms - int(segment.path.stat().st_mtime * 1000))
            else:
                break
        return list(itertools.accumulate(reversed(ages), max))[::-1]

    def _follow(self) -> None:
        """Delete files of queues and index whose messages are gone."""
        log_offset_min = self._log.min_offset
        if log_offset_min > self._followed_to:
            self._queues.delete_expired(log_offset_min)
            if self._index is not None:
                self._index.delete_expired(log_offset_min)
            self._followed_to = log_offset_min
