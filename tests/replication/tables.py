"""The tables of a slave, in memory."""

from hanabi.replication.metadata import Offsets
from hanabi.wire.bodies.groups import SubscriptionGroupTable
from hanabi.wire.bodies.offsets import DelayOffsetTable
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
        self.taken: list[str] = []

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

    def take_delay_offsets(self, table: DelayOffsetTable) -> None:
        self.delays = table

    def take_request_modes(self, table: MessageRequestModeTable) -> None:
        self.modes = table
