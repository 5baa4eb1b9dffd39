"""Decisions about a pull and the traces that it leaves: one object, for the handler and for the fast path."""

from collections.abc import Callable

from hanabi.broker.offsets.commit_rules import CommitRules
from hanabi.broker.pull.access import PullAccess
from hanabi.broker.pull.outcome import COMMIT_OFFSET, MASTER_ID, suggested_broker
from hanabi.broker.settings import Settings
from hanabi.broker.stats.broker_stats import BrokerStats
from hanabi.store.read.queue_reader import QueueReader
from hanabi.wire.bodies.groups import SubscriptionGroupConfig
from hanabi.wire.headers.pull import PullMessageHeader


class PullDecisions:
    """Access, commits and counts of a pull. `handled` counts the pulls of the handler."""

    def __init__(
        self,
        access: PullAccess,
        commits: CommitRules,
        stats: BrokerStats,
        settings: Settings,
        reader: QueueReader,
        now_ms: Callable[[], int],
    ) -> None:
        self._commits, self._stats, self._settings, self._reader = commits, stats, settings, reader
        self.admit, self.now_ms = access.check, now_ms
        self.handled = 0

    def note(self, pull: PullMessageHeader, peer: str) -> None:
        """Note the reader of a queue, and the offset that it commits with its pull."""
        place = pull.consumer_group, pull.topic, pull.queue_id
        self._commits.note_reader(*place, peer)
        if pull.sys_flag & COMMIT_OFFSET and self._takes_commits:
            self._commits.commit_with_pull(*place, pull.commit_offset, peer)

    @property
    def _takes_commits(self) -> bool:
        """Return whether pulls may commit: a plain slave leaves that to its master, as in 4.9."""
        return not self._settings.is_slave or self._settings.broker.acting_master_enabled

    def suggested(self, group: SubscriptionGroupConfig, behind_bytes: int) -> int:
        """Return the id of the broker to ask next, by the lag of the consumer."""
        if not self._settings.broker.slave_read_enabled:
            return MASTER_ID
        return suggested_broker(group, suggests_slave=behind_bytes > self._reader.memory_bytes)

    def count(
        self, pull: PullMessageHeader, count: int, size: int, behind_bytes: int, last_store_ms: int, began_ms: int
    ) -> None:
        """Count the messages of a reply."""
        place = pull.consumer_group, pull.topic, pull.queue_id
        self._stats.found(*place, count, size, behind_bytes, last_store_ms, began_ms, self.now_ms())
