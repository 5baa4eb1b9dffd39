"""Tests of the administration's parts: decisions alone, and answers of several brokers and name servers merged."""

from pathlib import Path

import pytest

import hanabi
from hanabi.admin import Admin, Target, TopicChange, Where
from hanabi.admin.messages import parse_trace
from hanabi.admin.topics import kind_of
from hanabi.errors import ConfigError, ConnectError, InvalidParameter, TopicNotExist
from hanabi.testing.cluster import running_cluster


async def test_two_brokers_are_administered_as_one_and_alone(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, brokers=("broker-a", "broker-b")) as cluster,
        Admin(cluster.config()) as admin,
    ):
        made = await admin.topics.create("Orders", read_queues=2, write_queues=2)
        assert [each.broker for each in made] == ["broker-a", "broker-b"]
        alone = await admin.topics.create("Alone", where=Where(broker="broker-b"))
        assert [each.broker for each in alone] == ["broker-b"]
        with pytest.raises(InvalidParameter, match="on broker-b"):
            await admin.topics.create("Alone", where=Where(cluster="DefaultCluster"))
        changed = await admin.topics.update("Orders", TopicChange(perm=4), Where(broker="broker-a"))
        assert [each.perm for each in changed] == [4]
        assert [each.perm for each in await admin.topics.settings("Orders")] == [4, 6]
        assert len((await admin.topics.status("Orders")).queues) == 4
        assert await admin.topics.delete("Orders") == ["broker-a", "broker-b"]
        with pytest.raises(TopicNotExist):
            await admin.topics.settings("Orders")


async def test_a_broker_that_is_down_hides_nothing_of_the_others(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, brokers=("broker-a", "broker-b")) as cluster:
        await cluster.create_topic("Orders")
        gone = "127.0.0.1:1"
        address = next(iter((await _brokers(cluster.namesrv))["broker-b"]))
        config = cluster.config(address_map={address: gone})
        async with Admin(config) as admin:
            found = await admin.topics.all()
            (topic,) = [each for each in found.topics if each.topic == "Orders"]
            assert [each.broker for each in topic.brokers] == ["broker-a"]
            assert len(found.unreachable) == 1
            summaries = {each.broker: each.problem for each in await admin.brokers.all()}
            assert summaries["broker-a"] is None
            assert gone in (summaries["broker-b"] or "")


async def _brokers(namesrv: str) -> dict[str, list[str]]:
    async with Admin(namesrv=namesrv) as admin:
        found: dict[str, list[str]] = {}
        for broker in await admin.brokers.all():
            found.setdefault(broker.broker, []).append(broker.address)
        return found


async def test_one_name_server_of_two_is_enough_to_look_and_not_enough_to_change(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, Admin(namesrv=f"127.0.0.1:1;{cluster.namesrv}") as admin:
        assert [each.broker for each in await admin.brokers.all()] == ["broker-a"]
        with pytest.raises(ConnectError, match=r"127\.0\.0\.1:1"):
            await admin.name_servers.put("Space", "colour", "blue")


def test_a_target_is_one_thing() -> None:
    assert Target(last=True).broker_time_ms == -1
    assert Target(first=True).broker_time_ms == 0
    assert Target(time_ms=7).broker_time_ms == 7
    for wrong in ({}, {"first": True, "last": True}, {"offset": 1, "time_ms": 2}):
        with pytest.raises(ConfigError):
            Target(**wrong)


def test_kinds_of_topics_are_told_by_name() -> None:
    kinds = [kind_of(name, frozenset({"Own"})) for name in ("%RETRY%g", "%DLQ%g", "TBW102", "rmq_sys_x", "Own", "T")]
    assert kinds == ["retry", "dead-letter", "system", "system", "system", "normal"]


def test_a_trace_is_read_line_by_line_and_what_is_strange_is_passed_over() -> None:
    sent = ["Pub", "5", "R", "g", "T", "ID", "null", "k", "h:1", "3", "7", "0", "OFF", "true"]
    before = ["SubBefore", "6", "R", "c", "REQ", "ID", "2", "k"]
    after = ["SubAfter", "REQ", "ID", "9", "false", "k", "1", "8", "c"]
    lines = [sent, before, after, ["Pub", "not a time"], ["Strange", "1"]]
    events = parse_trace("".join("\x01".join(line) + "\x02" for line in lines))
    assert [(each.event, each.time, each.group, each.success, each.cost_ms) for each in events] == [
        ("Pub", 5, "g", True, 7),
        ("SubBefore", 6, "c", None, None),
        ("SubAfter", 8, "c", False, 9),
    ]
    assert (events[0].tags, events[1].retries) == (None, 2)


def test_a_dead_letter_takes_only_what_is_its_own_along() -> None:
    from hanabi.admin.dead_letters import origin_of, properties_for
    from hanabi.message import Address

    own = {"KEYS": "k", "TAGS": "t", "UNIQ_KEY": "ID", "colour": "blue"}
    way = {"RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": "O", "DELAY": "3", "TRAN_MSG": "true", "MAX_OFFSET": "9"}
    here = Address("127.0.0.1", 1)
    letter = hanabi.StoredMessage(
        topic="%DLQ%g",
        body=b"",
        tags="t",
        keys=("k",),
        properties={**own, **way},
        flag=0,
        queue_id=0,
        queue_offset=0,
        message_id="ID",
        offset_message_id="OFF",
        born_timestamp_ms=0,
        born_host=here,
        store_timestamp_ms=0,
        store_host=here,
        reconsume_times=16,
        prepared_offset=0,
        sys_flag=0,
        log_offset=0,
        size=0,
        body_crc=0,
    )
    assert origin_of(letter) == "T"
    assert properties_for(letter, None) == own
    assert properties_for(letter, "T") == {**own, "RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": "O"}
