"""Topics come into being by Apache's rules, and their file is Apache's byte for byte."""

import tarfile
from pathlib import Path

import pytest

from hanabi.broker.config import BrokerConfig
from hanabi.broker.settings import Settings
from hanabi.broker.tables.topics import Topics, perm_text, validate_topic
from hanabi.errors import NoPermission, StoreDamaged, StoreError
from hanabi.store.config import StoreConfig
from hanabi.testing.clock import START_MS, ManualClock
from hanabi.wire.bodies.topics import TopicConfig
from hanabi.wire.system_names import DEFAULT_TOPIC, RETRY_PREFIX

GOLDEN = Path(__file__).parents[2] / "golden"


def topics(path: Path | None = None, clock: ManualClock | None = None, **broker: object) -> Topics:
    config = BrokerConfig(**{"broker_name": "broker-a", **broker})  # type: ignore[arg-type]
    return Topics(path, Settings(config, StoreConfig()), clock or ManualClock())


def golden_config(store: str, name: str) -> bytes:
    with tarfile.open(GOLDEN / f"{store}.tar.gz") as archive:
        (member,) = (item for item in archive.getmembers() if item.name.endswith(f"config/{name}"))
        file = archive.extractfile(member)
        assert file is not None
        return file.read()


def test_a_broker_starts_with_the_topics_of_apache() -> None:
    table = topics()
    found = {name: (topic.read_queue_nums, topic.perm) for name, topic in table.table().topic_config_table.items()}
    assert found == {
        "SELF_TEST_TOPIC": (1, 6),
        "TBW102": (8, 7),
        "BenchmarkTest": (1024, 6),
        "DefaultCluster": (16, 7),
        "broker-a": (1, 7),
        "OFFSET_MOVED_EVENT": (1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 6),
        "DefaultCluster_REPLY_TOPIC": (1, 6),
        "rmq_sys_wheel_timer": (1, 6),
    }
    assert all(map(table.is_system, found))
    assert not table.is_system("Orders")


def test_switches_decide_about_some_of_them() -> None:
    table = topics(auto_create_topic=False, cluster_topic_enabled=False, trace_topic_enabled=True)
    assert table.find("TBW102") is None
    trace, cluster = table.find("RMQ_SYS_TRACE_TOPIC"), table.find("DefaultCluster")
    assert trace is not None
    assert cluster is not None
    assert (trace.write_queue_nums, cluster.perm) == (1, 1)


@pytest.mark.parametrize("store", ["store-clean", "store-crashed-slave"])
def test_a_file_of_apache_is_written_again_byte_for_byte(tmp_path: Path, store: str) -> None:
    golden = golden_config(store, "topics.json")
    path = tmp_path / "topics.json"
    path.write_bytes(golden)
    table = topics(path, timer_enabled=False)  # its topic is one of 5.x
    assert table.find(f"{RETRY_PREFIX}cg_golden") is not None
    path.unlink()
    table.save()
    assert path.read_bytes() == golden


def test_a_topic_is_made_from_its_default_topic_with_no_more_queues_than_that_has(tmp_path: Path) -> None:
    clock = ManualClock()
    table = topics(tmp_path / "topics.json", clock)
    heard: list[int] = []
    table.on_change.append(lambda: heard.append(table.data_version.counter))
    clock.ms += 1
    made = table.create_on_send("Orders", DEFAULT_TOPIC, 4, 2, "peer")
    assert made == TopicConfig(topic_name="Orders", read_queue_nums=4, write_queue_nums=4, perm=6, topic_sys_flag=2)
    assert table.create_on_send("Orders", "anything", 16) is made
    many = table.create_on_send("Many", DEFAULT_TOPIC, 100)
    assert many is not None
    assert many.write_queue_nums == 8
    none = table.create_on_send("None", DEFAULT_TOPIC, -3)
    assert none is not None
    assert none.write_queue_nums == 0
    assert heard == [1, 2, 3]
    assert table.data_version.timestamp == START_MS + 1
    assert topics(tmp_path / "topics.json").table() == table.table()


def test_no_topic_is_made_where_the_default_topic_does_not_allow_it() -> None:
    assert topics().create_on_send("Orders", "NoSuchTopic", 4) is None
    assert topics().create_on_send("Orders", "BenchmarkTest", 4) is None  # without the permission to inherit
    assert topics(auto_create_topic=False).create_on_send("Orders", DEFAULT_TOPIC, 4) is None


def test_switching_creation_off_at_run_time_closes_the_default_topic_that_is_there() -> None:
    settings = Settings(BrokerConfig(broker_name="broker-a"), StoreConfig())
    table = Topics(None, settings, ManualClock())
    settings.update("autoCreateTopicEnable=false")
    assert table.create_on_send("Orders", DEFAULT_TOPIC, 4) is None
    assert table.create_on_send("Orders", "DefaultCluster", 4) is not None  # Apache closes only the one


def test_retry_topics_need_no_default_topic() -> None:
    table = topics(auto_create_topic=False)
    made = table.create_on_send_back("%DLQ%g", 1, 2)
    assert made == TopicConfig(topic_name="%DLQ%g", read_queue_nums=1, write_queue_nums=1, perm=2)
    assert table.create_on_send_back("%DLQ%g", 5, 6) is made


def test_the_number_of_topics_is_bounded() -> None:
    table = topics(topics_max=10)
    assert table.create_on_send("A", DEFAULT_TOPIC, 1) is not None
    assert table.create_on_send("B", DEFAULT_TOPIC, 1) is None
    with pytest.raises(NoPermission, match="topicsMax = 10"):
        table.update(TopicConfig(topic_name="B"))
    table.update(TopicConfig(topic_name="A", perm=4))  # a change needs no room


def test_a_deleted_topic_is_gone_from_the_file_too(tmp_path: Path) -> None:
    table = topics(tmp_path / "topics.json")
    table.update(TopicConfig(topic_name="Orders"))
    table.delete("Orders")
    table.delete("Orders")
    assert table.data_version.counter == 2
    assert "Orders" not in topics(tmp_path / "topics.json")


def test_a_table_can_be_new_without_another_topic(tmp_path: Path) -> None:
    table = topics(tmp_path / "topics.json")
    heard: list[int] = []
    table.on_change.append(lambda: heard.append(table.data_version.counter))
    table.touch()
    assert heard == [1]


def test_the_name_server_says_which_topics_are_ordered(tmp_path: Path) -> None:
    table = topics(tmp_path / "topics.json")
    table.update(TopicConfig(topic_name="A"))
    table.update(TopicConfig(topic_name="B", order=True))
    version = table.data_version.counter
    for _ in range(2):
        table.set_order_topics({"A": "broker-a:4", "Elsewhere": "broker-b:1"})
        assert table.data_version.counter == version + 1
    a, b = table.find("A"), table.find("B")
    assert a is not None
    assert b is not None
    assert (a.order, b.order) == (True, False)


def test_a_topic_that_cannot_be_kept_is_not_there(tmp_path: Path) -> None:
    table = topics(tmp_path / "config" / "topics.json")
    (tmp_path / "config").touch()  # where the folder should be
    version = table.data_version
    with pytest.raises(StoreError, match="writing"):
        table.update(TopicConfig(topic_name="Orders"))
    with pytest.raises(StoreError, match="writing"):
        table.delete("BenchmarkTest")
    assert "Orders" not in table
    assert "BenchmarkTest" in table
    assert table.data_version == version


def test_a_file_that_cannot_be_read_stops_the_start_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "topics.json").write_text('{"topicConfigTable":{')
    with pytest.raises(StoreDamaged, match=r"topics\.json"):
        topics(tmp_path / "topics.json")


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("Orders-1_%RETRY%|", None),
        ("", "blank"),
        ("  ", "blank"),
        ("a b", "illegal"),
        ("päckchen", "illegal"),
        ("a" * 127, None),
        ("a" * 128, "longer"),
    ],
)
def test_names_of_topics_are_checked_as_apache_does(name: str, complaint: str | None) -> None:
    found = validate_topic(name)
    assert (found is None) if complaint is None else (found is not None and complaint in found)


def test_permissions_are_shown_as_apache_shows_them() -> None:
    assert [perm_text(perm) for perm in (6, 7, 4, 2, 0)] == ["RW-", "RWX", "R--", "-W-", "---"]


def test_clients_may_not_send_to_the_topics_that_are_the_broker_s_own() -> None:
    assert not Topics.may_send("SCHEDULE_TOPIC_XXXX")
    assert Topics.may_send("BenchmarkTest")
