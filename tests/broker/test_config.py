"""broker.conf is read as RocketMQ reads it; a bad value names its key."""

from pathlib import Path

import pytest

from hanabi.broker.config import BROKER_KEYS, BrokerConfig, as_properties, parse_broker_config, read_broker_config
from hanabi.broker.ignored_keys import IGNORED_KEYS
from hanabi.broker.settings import CHANGEABLE
from hanabi.errors import ConfigError
from hanabi.store.config import STORE_KEYS, FlushMode, StoreConfig


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "broker.conf"
    path.write_text(text)
    return path


def test_a_file_of_rocketmq_is_read_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = written(
        tmp_path,
        """# Apache's sample
brokerClusterName = DefaultCluster
brokerName = broker-a
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = SYNC_FLUSH
namesrvAddr=10.0.0.1:9876; 10.0.0.2:9876;10.0.0.1:9876
brokerIP1=broker-a.example.org
sendMessageThreadPoolNums=16
""",
    )
    broker, store = read_broker_config(path)
    assert (broker.broker_name, broker.cluster_name, broker.advertised_host) == (
        "broker-a",
        "DefaultCluster",
        "broker-a.example.org",
    )
    assert broker.namesrv_addresses == ("10.0.0.1:9876", "10.0.0.2:9876")
    assert (store.file_reserved_hours, store.flush_mode) == (48, FlushMode.SYNC_FLUSH)
    assert caplog.text == ""


def test_a_key_that_nobody_has_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    read_broker_config(written(tmp_path, "enableSingleTopicRegister=true\n"))
    (record,) = caplog.records
    assert "enableSingleTopicRegister is not a setting of this broker and has no effect" in record.message


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("listenPort=many", "listenPort must be a whole number, not 'many'"),
        ("listenPort=70000", "listenPort must be a whole number <= 65535, not '70000'"),
        ("brokerId=-1", "brokerId must be a whole number >= 0, not '-1'"),
        ("brokerId=1e3", "brokerId must be a whole number, not '1e3'"),
        ("autoCreateTopicEnable=perhaps", "autoCreateTopicEnable must be true or false, not 'perhaps'"),
        ("fastListenPortEnable=perhaps", "fastListenPortEnable must be true or false, not 'perhaps'"),
        ("brokerName=", "brokerName must be some text, not ''"),
        ("brokerRole=KING", "brokerRole must be ASYNC_MASTER, SYNC_MASTER or SLAVE, not 'KING'"),
        ("maxErrorRateOfBloomFilter=100", "maxErrorRateOfBloomFilter is between 1 and 99, not 100"),
        ("flushDiskType=NEVER", "flushDiskType must be ASYNC_FLUSH or SYNC_FLUSH, not 'NEVER'"),
        ("authorizationEnabled=true", "authorizationEnabled = true needs authenticationEnabled = true: "),
        ("authenticationProvider=my.Provider", "authenticationProvider = my.Provider: this broker has no such class"),
        ("authorizationStrategy=Other", "authorizationStrategy = Other: this broker has no such class"),
        ("authenticationWhitelist=34,all", "authenticationWhitelist: all is no request code"),
        ("enableDLegerCommitLog=TRUE", "enableDLegerCommitLog = true: "),
        ("mappedFileSizeCommitLog=1", "mappedFileSizeCommitLog must be between"),
        ("deleteWhen=noon", "deleteWhen must be hours of the day"),
    ],
)
def test_a_bad_value_names_its_key(tmp_path: Path, text: str, complaint: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as raised:
        read_broker_config(path)
    assert str(raised.value).startswith(f"{path}: {complaint}")


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"broker\.conf: No such file or directory"):
        read_broker_config(tmp_path / "broker.conf")


def test_no_key_belongs_to_two() -> None:
    assert not BROKER_KEYS.keys() & STORE_KEYS
    assert not BROKER_KEYS.keys() & IGNORED_KEYS.keys()
    assert not STORE_KEYS & IGNORED_KEYS.keys()


def test_what_is_written_is_what_is_read() -> None:
    broker = BrokerConfig(broker_name="b", fast_port_enabled=False, namesrv_addr="a:1;b:2", trace_on=False)
    store = StoreConfig(root="/r", flush_mode=FlushMode.SYNC_FLUSH)
    text = {**as_properties(broker), **as_properties(store)}
    assert text["traceOn"] == "false"
    assert text["flushDiskType"] == "SYNC_FLUSH"
    assert parse_broker_config(text) == (broker, store)


def test_defaults_are_those_of_apache_except_where_we_say_otherwise() -> None:
    broker = BrokerConfig()
    assert broker.broker_name
    assert (broker.permission, broker.default_topic_queue_nums, broker.send_wait_ms_max) == (6, 8, 200)
    assert (broker.transaction_timeout_ms, broker.transaction_check_max) == (6_000, 15)
    assert broker.property_filter_enabled  # Apache's is off


def test_the_transport_gets_what_the_file_says() -> None:
    assert BrokerConfig(idle_seconds_max=7, write_buffer_bytes_max=9).remoting().write_buffer_bytes_max == 9
    assert BrokerConfig(idle_seconds_max=7).remoting().idle_seconds == 7.0


def test_the_sample_says_what_the_defaults_are(caplog: pytest.LogCaptureFixture) -> None:
    broker, store = read_broker_config(Path(__file__).parents[2] / "conf" / "broker.conf")
    assert (broker, store) == (BrokerConfig(broker_name="broker-a"), StoreConfig())
    assert caplog.text == ""


def test_what_the_sample_marks_as_changeable_is() -> None:
    lines = (Path(__file__).parents[2] / "conf" / "broker.conf").read_text().splitlines()
    settled = {"brokerClusterName", "brokerName", "brokerId", "listenPort", "flushDiskType", "messageDelayLevel"}
    settled |= {"timerWheelEnable", "traceTopicEnable", "connectionsMax", "heldPullsMax", "topicsMax", "groupsMax"}
    keys = {line.partition("=")[0] for line in lines if line and not line.startswith("#")}
    assert keys - settled <= CHANGEABLE
    assert not settled & CHANGEABLE


def test_rights_and_identities_are_switched_on_in_any_order(tmp_path: Path) -> None:
    for text in (
        "authorizationEnabled=true\nauthenticationEnabled=true\n",
        "authenticationEnabled=true\nauthorizationEnabled=true\n",
    ):
        assert read_broker_config(written(tmp_path, text))[0].checks_access
