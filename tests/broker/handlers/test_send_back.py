"""Messages that consumers give back: again later, or to the dead letters."""

from pathlib import Path

import msgspec
import pytest

from hanabi.broker.config import BrokerConfig
from hanabi.broker.send.retry_rules import retry_level, sent_back_properties, topic_sys_flag, tries_max
from hanabi.wire.bodies.groups import SubscriptionGroupConfig
from hanabi.wire.bodies.topics import TopicConfig
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import VERSION, Command
from hanabi.wire.headers.send import ConsumerSendMsgBackHeader
from hanabi.wire.message.message_id import encode_offset_id
from hanabi.wire.message.properties import decode_properties
from tests.broker.forged import BODY_AT, forged_record
from tests.broker.sending import STORE_HOST, TOPIC, Taking, properties, send, talking, text
from tests.broker.talk import Peer


async def send_back(peer: Peer, offset: int = 0, *, version: int = VERSION, **fields: object) -> Command:
    plain = ConsumerSendMsgBackHeader(offset=offset, group="g", delay_level=0, origin_topic=TOPIC)
    return await peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, msgspec.structs.replace(plain, **fields), version=version)


@pytest.mark.parametrize(
    ("times", "asked", "tries", "level"),
    [
        (0, 0, 16, 3),
        (5, 0, 16, 8),
        (15, 0, 16, 18),
        (16, 0, 16, None),
        (0, 2, 16, 2),
        (15, 2, 16, 2),
        (16, 2, 16, None),
        (0, -1, 16, None),
        (0, 0, 0, None),
    ],
)
def test_the_delay_grows_with_the_tries_until_there_are_no_more(
    times: int, asked: int, tries: int, level: int | None
) -> None:
    assert retry_level(times, asked, tries) == level


def test_clients_say_how_often_since_3_4_9() -> None:
    group = SubscriptionGroupConfig(group_name="g", retry_max_times=16)
    assert tries_max(group, 120, 3) == 16
    assert tries_max(group, 121, 3) == 3
    assert tries_max(group, 121, None) == 16


def test_unit_mode_marks_topics() -> None:
    assert topic_sys_flag("%RETRY%g", unit_mode=True) == 2
    assert topic_sys_flag(TOPIC, unit_mode=True) == 1
    assert topic_sys_flag(TOPIC, unit_mode=False) == 0


def test_where_a_message_came_from_first_is_kept_over_all_retries() -> None:
    first = sent_back_properties(b"TAGS\x01a", topic=TOPIC, message_id="ID1", level=3)
    assert decode_properties(first) == {
        "TAGS": "a",
        "RETRY_TOPIC": TOPIC,
        "ORIGIN_MESSAGE_ID": "ID1",
        "WAIT": "false",
        "DELAY": "3",
    }
    second = decode_properties(sent_back_properties(first, topic="%RETRY%g", message_id="ID2", level=None))
    assert (second["RETRY_TOPIC"], second["ORIGIN_MESSAGE_ID"], second["DELAY"]) == (TOPIC, "ID1", "0")


async def test_a_message_that_is_given_back_waits_under_the_retry_topic_of_its_group(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        await send(peer, b"first")
        await send(peer, b"second", flag=5, properties=text({"TAGS": "a"}))
        original = taking.records()[1]
        reply = await send_back(peer, original.log_offset, unit_mode=True)
        assert (reply.code, reply.remark) == (ResponseCode.SUCCESS, None)
        (record,) = taking.schedule()
        assert record.queue_id == 2  # level 3
        assert (record.body, record.flag, record.reconsume_times) == (b"second", 5, 1)
        assert (record.born_host, record.born_timestamp_ms) == (original.born_host, original.born_timestamp_ms)
        assert record.store_host == STORE_HOST
        stored = properties(record)
        assert (stored["REAL_TOPIC"], stored["REAL_QID"], stored["RETRY_TOPIC"]) == ("%RETRY%g", "0", TOPIC)
        assert stored["ORIGIN_MESSAGE_ID"] == encode_offset_id(STORE_HOST, original.log_offset)
        assert (stored["TAGS"], stored["DELAY"], stored["WAIT"]) == ("a", "3", "false")
        made = taking.topics.find("%RETRY%g")
        assert made is not None
        assert (made.write_queue_nums, made.perm, made.topic_sys_flag) == (1, 6, 2)
        taking.stats.tick()
        assert taking.stats.view("SNDBCK_PUT_NUMS", f"{TOPIC}@g") is not None


@pytest.mark.parametrize(("delay_level", "tries"), [(-1, 16), (0, 0)])
async def test_a_message_without_tries_left_becomes_a_dead_letter_that_can_be_read(
    tmp_path: Path, delay_level: int, tries: int
) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        await send(peer, properties=text({"DELAY": "0"}))
        assert (await send_back(peer, delay_level=delay_level, max_reconsume_times=tries)).code == ResponseCode.SUCCESS
        (dead,) = taking.records("%DLQ%g")
        assert dead.reconsume_times == 1
        assert properties(dead)["RETRY_TOPIC"] == TOPIC
        assert taking.schedule() == []
        made = taking.topics.find("%DLQ%g")
        assert made is not None
        assert (made.write_queue_nums, made.perm) == (1, 6)


async def test_a_group_has_as_many_retry_queues_as_it_wants_and_with_none_nothing_comes_again(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        await send(peer)
        taking.groups.update(SubscriptionGroupConfig(group_name="g", retry_queue_nums=0))
        assert (await send_back(peer)).code == ResponseCode.SUCCESS
        assert taking.schedule() == []
        assert taking.topics.find("%RETRY%g") is None
        taking.groups.update(SubscriptionGroupConfig(group_name="g", retry_queue_nums=3))
        assert (await send_back(peer)).code == ResponseCode.SUCCESS
        assert properties(taking.schedule()[0])["REAL_QID"] == "2"


@pytest.mark.parametrize("offset", [1, 10, 1 << 40, -1, -(2**63)])
async def test_an_offset_at_which_no_message_begins_is_refused(tmp_path: Path, offset: int) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        await send(peer)
        reply = await send_back(peer, offset)
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert reply.remark == f"look message by offset failed, {offset}"


async def test_a_record_in_the_body_of_another_message_cannot_be_given_back(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        end = taking.store.max_log_offset
        await send(peer, forged_record(end, "Never", {"RETRY_TOPIC": "Never", "UNIQ_KEY": "1"}))
        assert taking.store.queries.record(end + BODY_AT) is not None, "it is not what an attacker would send"
        reply = await send_back(peer, end + BODY_AT)
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert reply.remark == f"look message by offset failed, {end + BODY_AT}"
        assert taking.schedule() == []


@pytest.mark.parametrize("is_made_again", [False, True])
@pytest.mark.parametrize("key", ["UNIQ_KEY", "KEYS"])
async def test_a_message_whose_topic_was_deleted_can_be_given_back(
    tmp_path: Path, key: str, is_made_again: bool
) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        await send(peer, b"first", properties=text({key: "1"}))
        await send(peer, b"second", properties=text({key: "2"}))
        original = taking.records()[1]
        taking.store.delete_topic(TOPIC)
        if is_made_again:
            await send(peer, b"third")
            await send(peer, b"fourth")
        assert (await send_back(peer, original.log_offset)).code == ResponseCode.SUCCESS
        (record,) = taking.schedule()
        assert (record.body, properties(record)["RETRY_TOPIC"]) == (b"second", TOPIC)


async def test_groups_and_permissions_are_checked(tmp_path: Path) -> None:
    taking = Taking(tmp_path, BrokerConfig(broker_name="b", auto_create_group=False))
    async with talking(taking) as peer:
        await send(peer)
        reply = await send_back(peer)
        assert reply.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert (reply.remark or "").startswith("subscription group not exist, g ")
        taking.groups.update(SubscriptionGroupConfig(group_name="g"))
        taking.topics.update(TopicConfig(topic_name="%RETRY%g", perm=4))
        reply = await send_back(peer)
        assert reply.code == ResponseCode.NO_PERMISSION
        assert reply.remark == "the topic[%RETRY%g] sending message is forbidden"
        taking.settings.update("brokerPermission=4")
        reply = await send_back(peer)
        assert reply.code == ResponseCode.NO_PERMISSION
        assert reply.remark == "the broker[10.1.2.3] sending message is forbidden"
        assert taking.schedule() == []


async def test_what_cannot_be_stored_is_not_counted_as_sent_back(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        await send(peer, properties=f"A\x01{'x' * 32_700}")
        reply = await send_back(peer)
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert "32767" in (reply.remark or "")
        taking.flow.busy = "busy"
        assert (await send_back(peer)).code == ResponseCode.SYSTEM_BUSY
        taking.stats.tick()
        assert taking.stats.view("SNDBCK_PUT_NUMS", f"{TOPIC}@g") is None


async def test_a_message_is_given_back_only_if_its_retry_topic_can_be_stored(tmp_path: Path) -> None:
    # A group may have 255 characters, and so may a topic, with %RETRY% before the group.
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        await send(peer)
        assert (await send_back(peer, group="g" * 248)).code == ResponseCode.SUCCESS
        reply = await send_back(peer, group="g" * 249)
        assert reply.code != ResponseCode.SUCCESS
        assert "a topic of 256 bytes, limit 255" in (reply.remark or "")
        assert len(taking.schedule()) == 1
