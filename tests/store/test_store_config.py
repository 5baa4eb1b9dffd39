"""The store's settings: RocketMQ's keys and defaults, and an error that names the key."""

from pathlib import Path

import pytest

from hanabi.errors import ConfigError
from hanabi.store.config import STORE_KEYS, FlushMode, StoreConfig


def test_the_defaults_are_apaches() -> None:
    config = StoreConfig()
    assert config.commit_log_segment_bytes == 1 << 30
    assert config.consume_queue_segment_bytes == 6_000_000
    assert config.message_bytes_max == 4 << 20
    assert config.flush_mode is FlushMode.ASYNC_FLUSH
    assert (config.flush_commit_log_interval_ms, config.flush_commit_log_least_pages) == (500, 4)
    assert (config.index_slots, config.index_entries) == (5_000_000, 20_000_000)
    assert (config.file_reserved_hours, config.delete_when, config.disk_used_percent_max) == (72, "04", 75)


def test_a_broker_conf_is_read_with_its_own_key_names() -> None:
    config = StoreConfig.from_properties(
        {
            "storePathRootDir": "/data/store",
            "mappedFileSizeCommitLog": "65536",
            "flushDiskType": "SYNC_FLUSH ",
            "messageIndexEnable": "false",
            "deleteWhen": "04;16",
            "brokerName": "broker-a",  # not ours
        }
    )
    assert (config.commit_log_segment_bytes, config.flush_mode) == (65_536, FlushMode.SYNC_FLUSH)
    assert not config.index_enabled
    assert config.delete_hours == {4, 16}
    assert config.commit_log_path == Path("/data/store/commitlog")
    assert config.index_path == Path("/data/store/index")
    assert config.consume_queue_path == Path("/data/store/consumequeue")
    assert config.consume_queue_ext_path == Path("/data/store/consumequeue_ext")
    assert config.checkpoint_path == Path("/data/store/checkpoint")


def test_the_commit_log_may_lie_elsewhere() -> None:
    config = StoreConfig.from_properties({"storePathRootDir": "/data", "storePathCommitLog": "/fast/log"})
    assert config.commit_log_path == Path("/fast/log")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mappedFileSizeCommitLog", "1g"),
        ("mappedFileSizeCommitLog", "100"),
        ("mappedFileSizeCommitLog", str(1 << 31)),
        ("flushDiskType", "SOMETIMES"),
        ("messageIndexEnable", "maybe"),
        ("maxMessageSize", "-1"),
        ("maxMessageSize", ""),
        ("fileReservedTime", "-1"),
        ("deleteWhen", "24"),
        ("deleteWhen", ""),
        ("deleteWhen", "four"),
        ("diskMaxUsedSpaceRatio", "101"),
        ("accessMessageInMemoryMaxRatio", "200"),
        ("storePathRootDir", ""),
    ],
)
def test_a_bad_value_is_an_error_that_names_its_key(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        StoreConfig.from_properties({key: value})


def test_what_apache_rounds_is_rounded() -> None:
    config = StoreConfig(consume_queue_segment_bytes=2001, disk_used_percent_max=99)
    assert (config.consume_queue_segment_bytes, config.disk_used_percent_max) == (2020, 95)
    assert StoreConfig(disk_used_percent_max=3).disk_used_percent_max == 10


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        StoreConfig().root = "elsewhere"  # type: ignore[misc]


def test_the_keys_are_known_to_whoever_warns_of_others() -> None:
    assert {"storePathRootDir", "flushDiskType", "maxIndexNum"} <= STORE_KEYS
    assert "brokerName" not in STORE_KEYS
