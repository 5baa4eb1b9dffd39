"""Tables of a slave, as the copy of its master's: what `replication/metadata.py` brings goes into the broker's own."""

import asyncio

from hanabi.broker.delay.level_delivery import DelayedDelivery
from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.broker.replica.queue_ends import CopiedQueueEnds, QueueEnds
from hanabi.broker.tables.foreign_table import ForeignTable
from hanabi.broker.tables.groups import Groups
from hanabi.broker.tables.topics import Topics
from hanabi.replication.rules.copied_tables import Offsets, copied_members, is_ahead, version_of_copy
from hanabi.store.message_store import MessageStore
from hanabi.wire.bodies.groups import SubscriptionGroupTable
from hanabi.wire.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable, TimerCheckpoint, TimerMetricsTable
from hanabi.wire.bodies.pop import MessageRequestModeTable
from hanabi.wire.bodies.topics import DataVersion, TopicConfigTable


class CopiedTables:
    """A `MetadataSink`: each table of the broker that its master decides."""

    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        offsets: ConsumerOffsets,
        delivery: DelayedDelivery,
        request_modes: ForeignTable[MessageRequestModeTable],
        timer_metrics: ForeignTable[TimerMetricsTable],
        queue_ends: CopiedQueueEnds,
    ) -> None:
        self._store, self._topics, self._groups, self._offsets = store, topics, groups, offsets
        self.delivery = delivery  # replaced when this slave begins to act as master
        self._request_modes, self._timer_metrics = request_modes, timer_metrics
        self.topics_taken_at = 0  # the end of the log when the topics were last copied
        self._queue_ends = queue_ends
        self.timer_checkpoint: TimerCheckpoint | None = None  # the master's
        self._masters_offsets = ConsumerOffsetTable()
        self._masters_delays = DelayOffsetTable()

    def topics_version(self) -> DataVersion:
        return self._topics.data_version

    def take_topics(self, table: TopicConfigTable) -> None:
        """Replace the topics. The offsets of a topic that the master has deleted go with it, as there: a topic of the
        same name starts again at 0."""
        self.topics_taken_at = self._store.max_log_offset
        known = self._topics.table()
        members = copied_members(
            known.topic_config_table, known.data_version, table.topic_config_table, table.data_version
        )
        self._topics.adopt(members, table.data_version)
        for topic in known.topic_config_table.keys() - members.keys():
            self._offsets.remove_topic(topic)

    def groups_version(self) -> DataVersion:
        return self._groups.data_version

    def take_groups(self, table: SubscriptionGroupTable) -> None:
        known = self._groups.table()
        members = copied_members(
            known.subscription_group_table, known.data_version, table.subscription_group_table, table.data_version
        )
        self._groups.adopt(table, members)

    def offsets(self) -> Offsets:
        return self._offsets.view()

    def take_offsets(self, offsets: Offsets) -> None:
        self._offsets.adopt(offsets)

    def master_has(self, table: ConsumerOffsetTable) -> None:
        self._masters_offsets = table

    def offsets_version(self, now_ms: int) -> DataVersion:
        """Return the version of the offsets here, for a master of 5.x that returns."""
        masters = self._masters_offsets
        ahead = is_ahead(self._offsets.view(), masters.offset_table)
        return version_of_copy(masters.data_version, is_ahead=ahead, now_ms=now_ms)

    def delays_version(self, now_ms: int) -> DataVersion:
        """Return the version of the progress of the delay levels here."""
        masters, here = self._masters_delays, self.delivery.table().offset_table
        ahead = is_ahead({"": here}, {"": masters.offset_table})
        return version_of_copy(masters.data_version, is_ahead=ahead, now_ms=now_ms)

    def forget_offsets(self, topic: str) -> None:
        """Remove the offsets of a topic that was deleted and created again; the next copy brings new ones."""
        self._offsets.remove_topic(topic)

    def log_end(self) -> int:
        return self._store.max_log_offset

    def endless_queues(self) -> list[tuple[str, int]] | None:
        """Return the queues of all topics without a message here; None once their ends are known.

        In a log that begins at 0 they have none at the master either.
        """
        if self._queue_ends.is_known:
            return None
        return [] if not self._store.min_log_offset else self._queues_without_a_message()

    def _queues_without_a_message(self) -> list[tuple[str, int]]:
        topics = self._topics.table().topic_config_table.items()
        queues = (
            (name, queue_id)
            for name, topic in topics
            for queue_id in range(max(topic.read_queue_nums, topic.write_queue_nums))
        )
        return [queue for queue in queues if not self._store.has_messages(*queue)]

    async def take_queue_ends(self, ends: QueueEnds) -> None:
        await asyncio.to_thread(self._queue_ends.take, ends)

    async def take_delay_offsets(self, table: DelayOffsetTable, log_offset: int) -> None:
        self._masters_delays = table
        await self.delivery.adopt(table.offset_table, log_offset)

    async def take_request_modes(self, table: MessageRequestModeTable) -> None:
        await self._request_modes.adopt(table)

    async def take_timer_metrics(self, table: TimerMetricsTable) -> None:
        await self._timer_metrics.adopt(table)

    def take_timer_checkpoint(self, checkpoint: TimerCheckpoint) -> None:
        self.timer_checkpoint = checkpoint
