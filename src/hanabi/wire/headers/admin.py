"""Headers of an administrator's other requests to a broker. Numbers are request codes.

Settings (25) and most statistics have no header: they travel in bodies.
"""

from msgspec import field

from hanabi.wire.header import Header, Int32, Int64


class GetBrokerConfigReplyHeader(Header, frozen=True, kw_only=True):
    """26: the body is the configuration, as Java properties."""

    version: str  # the JSON of its DataVersion


class ViewBrokerStatsDataHeader(Header, frozen=True, kw_only=True):
    """315: one figure over the last minute, hour and day."""

    stats_name: str
    stats_key: str


class GetBrokerConsumeStatsHeader(Header, frozen=True, kw_only=True):
    """317: how far each group has come, for all groups of the broker."""

    is_order: bool  # only topics that are configured as ordered


class CheckRocksdbCqWriteProgressHeader(Header, frozen=True, kw_only=True):
    """354, 5.x: compare consume queues in files with those in RocksDB."""

    topic: str
    check_store_time: Int64 = 0


class ExportRocksdbConfigToJsonHeader(Header, frozen=True, kw_only=True):
    """355, 5.x: topics, subscriptionGroups, consumerOffsets, separated by semicolons."""

    config_type: str


class AddBrokerHeader(Header, frozen=True, kw_only=True):
    """902, 5.x, to a container of brokers: start one more."""

    config_path: str | None = None  # absent: the configuration is the body


class RemoveBrokerHeader(Header, frozen=True, kw_only=True):
    """903, 5.x, to a container of brokers: stop one."""

    broker_name: str
    broker_cluster_name: str
    broker_id: Int64


class SetCommitLogReadModeHeader(Header, frozen=True, kw_only=True):
    """2004, 5.x: the advice that `madvise` gives for the commit log: 0 normal, 1 random."""

    mode: Int32 = field(name="READ_AHEAD_MODE")
