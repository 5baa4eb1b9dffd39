"""The tables of a slave, in memory."""

from collections.abc import Mapping

from hanabi.replication.rules.copied_tables import Offsets
from hanabi.wire.bodies.groups import SubscriptionGroupTable
from hanabi.wire.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable, TimerCheckpoint, TimerMetricsTable
from hanabi.wire.bodies.pop import MessageRequestModeTable
from hanabi.wire.bodies.topics import DataVersion, TopicConfigTable


class Tables:
    """Keeps what it is given. `taken` names each table that came, in order."""

    def __init__(self) -> None:
        self.topics = TopicConfigTable()
        self.groups = SubscriptionGroupTable()
        self.committed: dict[str, dict[int, int]] = {}
        self.delays = DelayOffsetTable()
        self.modes = MessageRequestModeTable()
        self.timer_metrics = TimerMetricsTable()
        self.timer_checkpoint: TimerCheckpoint | None = None
        self.masters = ConsumerOffsetTable()
        self.taken: list[str] = []
        self.log_bytes = 0
        self.endless: list[tuple[str, int]] | None = None

    def topics_version(self) -> DataVersion:
        return self.topics.data_version

    def take_topics(self, table: TopicConfigTable) -> None:
        self.topics = table
        self.taken.append("topics")

    def groups_version(self) -> DataVersion:
        return self.groups.data_version

    def take_groups(self, table: SubscriptionGroupTable) -> None:
        self.groups = table
        self.taken.append("groups")

    def offsets(self) -> Offsets:
        return self.committed

    def take_offsets(self, offsets: Offsets) -> None:
        for key, queues in offsets.items():
            self.committed.setdefault(key, {}).update(queues)
        self.taken.append("offsets")

    def master_has(self, table: ConsumerOffsetTable) -> None:
        self.masters = table

    def log_end(self) -> int:
        return self.log_bytes

    def endless_queues(self) -> list[tuple[str, int]] | None:
        return self.endless

    async def take_queue_ends(self, ends: Mapping[str, Mapping[int, int]]) -> None:
        self.taken.append("queue ends")

    async def take_delay_offsets(self, table: DelayOffsetTable, log_offset: int) -> None:
        self.delays = table

    async def take_request_modes(self, table: MessageRequestModeTable) -> None:
        self.modes = table

    async def take_timer_metrics(self, table: TimerMetricsTable) -> None:
        self.timer_metrics = table

    def take_timer_checkpoint(self, checkpoint: TimerCheckpoint) -> None:
        self.timer_checkpoint = checkpoint
