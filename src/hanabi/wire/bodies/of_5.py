"""Bodies as 5.x writes them: with the fields that it added, also where they have their defaults.

For answers to clients of 5.x, as typed ones may rely on every field (rocketmq-rust does). Clients of 4.9 do not get
them. Agrees with what a broker of 5.3.3 sends for 21, 43, 45, 201, 208, 303 and 317.
"""

import msgspec

from hanabi.wire.bodies.groups import SubscriptionGroupTable, with_fields_of_5
from hanabi.wire.bodies.offsets import QueueTimeSpan
from hanabi.wire.bodies.stats import ConsumeStatsList, OffsetWrapper
from hanabi.wire.bodies.topics import DataVersion, TopicConfigTable
from hanabi.wire.body import always_written
from hanabi.wire.header import Int64


class OffsetWrapper5(OffsetWrapper, frozen=True, kw_only=True, gc=False):
    """The end of a queue and one group's offset in it, always with its pull offset."""

    pull_offset: Int64 = always_written(0)


class QueueTimeSpan5(QueueTimeSpan, frozen=True, kw_only=True):
    """The times of a queue's messages, for programs and for people."""

    consume_time_stamp_str: str
    max_time_stamp_str: str
    min_time_stamp_str: str


def version_of_5(version: DataVersion) -> dict[str, int]:
    """Return *version* with its state version."""
    return {"counter": version.counter, "stateVersion": version.state_version, "timestamp": version.timestamp}


def topics_of_5(table: TopicConfigTable) -> dict[str, object]:
    """Return *table*, which has no mappings of queues, as 5.x writes it."""
    return {
        "dataVersion": version_of_5(table.data_version),
        "mappingDataVersion": version_of_5(DataVersion()),  # of the tables below, which never change
        "topicConfigTable": {
            name: msgspec.structs.replace(topic, attributes=topic.attributes or {})
            for name, topic in table.topic_config_table.items()
        },
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": {},
    }


def groups_of_5(table: SubscriptionGroupTable) -> dict[str, object]:
    """Return *table* as 5.x writes it."""
    groups = table.subscription_group_table.items()
    return {
        "dataVersion": version_of_5(table.data_version),
        "forbiddenTable": table.forbidden_table or {},
        "subscriptionGroupTable": {name: with_fields_of_5(group) for name, group in groups},
    }


def consume_stats_of_5(stats: ConsumeStatsList) -> dict[str, object]:
    """Return *stats* as 5.x writes them."""
    return {**msgspec.to_builtins(stats), "totalInflightDiff": stats.total_inflight_diff}
