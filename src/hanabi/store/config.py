"""The store settings of a broker: one frozen value, with the key names and defaults of RocketMQ's broker.conf.

The facts are those of MessageStoreConfig.java 4.9.8. Keys of other parts (replication, delay levels) are not here:
each part has its own struct and takes its own keys from the same file.
"""

import enum
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import field

from hanabi.errors import ConfigError

CONSUME_QUEUE_ENTRY_BYTES = 20
PAGE_BYTES = 4096  # Apache counts in pages of this size on every machine


class FlushMode(enum.StrEnum):
    """The moment a message counts as stored: as soon as it is in memory, or only when it is on the disk."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


class StoreConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting of the store. Build it from a broker.conf with `from_properties`, or from keywords."""

    root: str = field(default="./hanabi-data", name="storePathRootDir")
    commit_log_dir: str | None = field(default=None, name="storePathCommitLog")  # None: commitlog/ in the root

    # files
    commit_log_segment_bytes: int = field(default=1 << 30, name="mappedFileSizeCommitLog")
    consume_queue_segment_bytes: int = field(default=300_000 * 20, name="mappedFileSizeConsumeQueue")
    consume_queue_ext_enabled: bool = field(default=False, name="enableConsumeQueueExt")
    consume_queue_ext_segment_bytes: int = field(default=48 << 20, name="mappedFileSizeConsumeQueueExt")
    consume_queue_ext_bitmap_bits: int = field(default=64, name="bitMapLengthConsumeQueueExt")
    warm_segments: bool = field(default=False, name="warmMapedFileEnable")

    # flush
    flush_mode: FlushMode = field(default=FlushMode.ASYNC_FLUSH, name="flushDiskType")
    sync_flush_timeout_ms: int = field(default=5_000, name="syncFlushTimeout")
    flush_commit_log_interval_ms: int = field(default=500, name="flushIntervalCommitLog")
    flush_commit_log_timed: bool = field(default=True, name="flushCommitLogTimed")
    flush_commit_log_least_pages: int = field(default=4, name="flushCommitLogLeastPages")
    flush_commit_log_thorough_interval_ms: int = field(default=10_000, name="flushCommitLogThoroughInterval")
    flush_consume_queue_interval_ms: int = field(default=1_000, name="flushIntervalConsumeQueue")
    flush_consume_queue_least_pages: int = field(default=2, name="flushConsumeQueueLeastPages")
    flush_consume_queue_thorough_interval_ms: int = field(default=60_000, name="flushConsumeQueueThoroughInterval")

    # messages
    message_bytes_max: int = field(default=4 << 20, name="maxMessageSize")  # of the body
    check_crc_on_recover: bool = field(default=True, name="checkCRCOnRecover")
    duplication_enabled: bool = field(default=False, name="duplicationEnable")

    # reads
    memory_transfer_bytes_max: int = field(default=262_144, name="maxTransferBytesOnMessageInMemory")
    memory_transfer_count_max: int = field(default=32, name="maxTransferCountOnMessageInMemory")
    disk_transfer_bytes_max: int = field(default=65_536, name="maxTransferBytesOnMessageInDisk")
    disk_transfer_count_max: int = field(default=8, name="maxTransferCountOnMessageInDisk")
    memory_ratio_percent: int = field(default=40, name="accessMessageInMemoryMaxRatio")
    disk_fall_recorded: bool = field(default=True, name="diskFallRecorded")
    page_cache_busy_timeout_ms: int = field(default=1_000, name="osPageCacheBusyTimeOutMills")

    # index
    index_enabled: bool = field(default=True, name="messageIndexEnable")
    index_safe: bool = field(default=False, name="messageIndexSafe")
    index_slots: int = field(default=5_000_000, name="maxHashSlotNum")
    index_entries: int = field(default=20_000_000, name="maxIndexNum")
    query_count_max: int = field(default=64, name="maxMsgsNumBatch")
    query_count_default: int = field(default=32, name="defaultQueryMaxNum")

    # retention
    file_reserved_hours: int = field(default=72, name="fileReservedTime")
    delete_when: str = field(default="04", name="deleteWhen")  # hours of the day, "04" or "04;16"
    disk_used_percent_max: int = field(default=75, name="diskMaxUsedSpaceRatio")
    clean_interval_ms: int = field(default=10_000, name="cleanResourceInterval")
    delete_commit_log_interval_ms: int = field(default=100, name="deleteCommitLogFilesInterval")
    delete_consume_queue_interval_ms: int = field(default=100, name="deleteConsumeQueueFilesInterval")
    destroy_forcibly_interval_ms: int = field(default=120_000, name="destroyMapedFileIntervalForcibly")
    redelete_hanged_interval_ms: int = field(default=120_000, name="redeleteHangedFileInterval")
    clean_forcibly_enabled: bool = field(default=True, name="cleanFileForciblyEnable")

    def __post_init__(self) -> None:
        for name, key in _KEY_BY_NAME.items():
            value = getattr(self, name)
            if type(value) is int and not _LEAST.get(name, 0) <= value <= JAVA_INT_MAX:
                raise ConfigError(f"{key} must be between {_LEAST.get(name, 0)} and {JAVA_INT_MAX}, not {value}")
        if not self.root:
            raise ConfigError("storePathRootDir must not be empty")
        if not 0 <= self.disk_used_percent_max <= 100:
            raise ConfigError(f"diskMaxUsedSpaceRatio is a percentage, not {self.disk_used_percent_max}")
        if not 0 <= self.memory_ratio_percent <= 100:
            raise ConfigError(f"accessMessageInMemoryMaxRatio is a percentage, not {self.memory_ratio_percent}")
        if self.consume_queue_segment_bytes % CONSUME_QUEUE_ENTRY_BYTES:
            # Apache rounds up, so a file it made has the rounded size and a file of the size asked for never exists.
            rounded = -(-self.consume_queue_segment_bytes // CONSUME_QUEUE_ENTRY_BYTES) * CONSUME_QUEUE_ENTRY_BYTES
            msgspec.structs.force_setattr(self, "consume_queue_segment_bytes", rounded)
        # As Apache does, without a word: a disk that may be filled to the last byte would stop the machine.
        msgspec.structs.force_setattr(self, "disk_used_percent_max", min(max(self.disk_used_percent_max, 10), 95))
        _ = self.delete_hours

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> "StoreConfig":
        """Return the store's settings in *properties*. A bad value raises ConfigError; other keys are ignored."""
        ours = {key: value.strip() for key, value in properties.items() if key in STORE_KEYS}
        try:
            return msgspec.convert(ours, cls, strict=False)
        except msgspec.ValidationError as error:
            reason, _, place = str(error).rpartition(" - at `$.")
            key = place.rstrip("`")
            raise ConfigError(f"{key} = {ours[key]!r}: {reason}") from error

    @property
    def delete_hours(self) -> frozenset[int]:
        """The hours of the day, local time, in which old files are deleted."""
        hours = [hour.strip() for hour in self.delete_when.split(";") if hour.strip()]
        if not hours or any(not (hour.isascii() and hour.isdigit() and int(hour) < 24) for hour in hours):
            raise ConfigError(f"deleteWhen must be hours of the day such as 04 or 04;16, not {self.delete_when!r}")
        return frozenset(int(hour) for hour in hours)

    @property
    def commit_log_path(self) -> Path:
        return Path(self.commit_log_dir) if self.commit_log_dir else Path(self.root) / "commitlog"

    @property
    def consume_queue_path(self) -> Path:
        return Path(self.root) / "consumequeue"

    @property
    def consume_queue_ext_path(self) -> Path:
        return Path(self.root) / "consumequeue_ext"

    @property
    def index_path(self) -> Path:
        return Path(self.root) / "index"

    @property
    def checkpoint_path(self) -> Path:
        return Path(self.root) / "checkpoint"

    @property
    def queue_ends_path(self) -> Path:
        return Path(self.root) / "consumequeue.ends"


JAVA_INT_MAX = 2**31 - 1
_KEY_BY_NAME = {item.name: item.encode_name for item in msgspec.structs.fields(StoreConfig)}
STORE_KEYS = frozenset(_KEY_BY_NAME.values())  # the keys of StoreConfig; the reader of the file warns of unknown ones

# The least that makes sense; 0 where nothing is said. A segment must hold at least one small record and its filler.
_LEAST = {
    "commit_log_segment_bytes": 1024,
    "consume_queue_segment_bytes": CONSUME_QUEUE_ENTRY_BYTES,
    "consume_queue_ext_segment_bytes": 1024,
    "sync_flush_timeout_ms": 1,
    "flush_commit_log_interval_ms": 1,
    "flush_consume_queue_interval_ms": 1,
    "message_bytes_max": 1,
    "index_slots": 1,
    "index_entries": 2,  # Apache never uses entry 0
    "clean_interval_ms": 1,
    "query_count_max": 1,
    "memory_transfer_bytes_max": 1,
    "memory_transfer_count_max": 1,
    "disk_transfer_bytes_max": 1,
    "disk_transfer_count_max": 1,
}
