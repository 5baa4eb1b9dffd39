"""Single messages: what is stored, what is answered, what is refused."""

import asyncio
import threading
from pathlib import Path

import msgspec
import pytest

from hanabi.broker.config import BrokerConfig
from hanabi.broker.send.put_replies import refusal
from hanabi.broker.tables.topics import NOT_FOR_SENDING
from hanabi.store.config import FlushMode, StoreConfig
from hanabi.store.message_store import PutResult, PutStatus
from hanabi.wire.bodies.topics import TopicConfig
from hanabi.wire.codes import Flag, HeaderForm, RequestCode, ResponseCode
from hanabi.wire.command import V5_0_0, VERSION, Command, encode_head
from hanabi.wire.header import header_fields
from hanabi.wire.message import sysflag
from hanabi.wire.message.hosts import encode_host
from hanabi.wire.message.message_id import decode_offset_id
from tests.broker.sending import BORN_MS, STORE_HOST, TOPIC, Taking, as_v1, header, properties, send, talking, text
from tests.broker.talk import Peer

REGION = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


def refused(reply: Command, code: int, remark: str) -> None:
    """Check that the answer refuses with *code* and a reason; region and trace are in it all the same."""
    assert reply.code == code, reply.remark
    assert reply.remark is not None
    assert remark in reply.remark
    assert reply.fields() == REGION


async def nothing_came(taking: Taking, peer: Peer) -> None:
    """Whatever was sent before has been handled, and nothing was stored."""
    assert (await peer.ask(RequestCode.HEART_BEAT, None, b"me")).code == ResponseCode.SUCCESS
    assert taking.store.max_log_offset == 0


@pytest.mark.parametrize("form", list(HeaderForm))
@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2])
async def test_a_message_is_stored_with_all_that_its_header_says(tmp_path: Path, code: int, form: HeaderForm) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        sent = header(
            queue_id=2, flag=7, sys_flag=sysflag.COMPRESSED, reconsume_times=3, properties="TAGS\x01a\x02KEYS\x01é"
        )
        fields = sent if code == RequestCode.SEND_MESSAGE_V2 else as_v1(sent)
        reply = await peer.ask(code, fields, b"hello", form=form)
        assert reply.code == ResponseCode.SUCCESS
        assert reply.remark is None
        (record,) = taking.records(queue_id=2)
        assert (record.topic, record.body, record.queue_id, record.flag) == (TOPIC, b"hello", 2, 7)
        assert (record.sys_flag, record.reconsume_times) == (sysflag.COMPRESSED, 3)
        assert (record.born_timestamp_ms, record.store_timestamp_ms) == (BORN_MS, taking.clock.ms)
        assert record.born_host == encode_host(*peer.local_address)
        assert record.store_host == STORE_HOST
        assert properties(record) == {"TAGS": "a", "KEYS": "é", "CLUSTER": "DefaultCluster"}


async def test_the_answer_says_where_the_message_is_and_what_the_client_must_know(tmp_path: Path) -> None:
    taking = Taking(tmp_path, BrokerConfig(broker_name="b", region_id="north", trace_on=False))
    async with talking(taking) as peer:
        await send(peer, queue_id=1)
        reply = await send(peer, queue_id=1)
        fields = reply.fields()
        where = decode_offset_id(fields.pop("msgId"))
        assert fields == {"queueId": "1", "queueOffset": "1", "MSG_REGION": "north", "TRACE_ON": "false"}
        assert where.store_host == STORE_HOST
        assert where.log_offset == taking.records(queue_id=1)[1].log_offset


async def test_messages_of_5x_producers_are_stored_with_the_region_that_5x_consumers_trace_by(tmp_path: Path) -> None:
    taking = Taking(tmp_path, BrokerConfig(broker_name="b", region_id="north"))
    async with talking(taking) as peer:
        await send(peer, queue_id=1, version=V5_0_0)
        (record,) = taking.records(queue_id=1)
        stored = properties(record)
        assert (stored["MSG_REGION"], stored["TRACE_ON"]) == ("north", "true")


async def test_what_is_changed_at_run_time_is_in_the_next_answer(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        assert (await send(peer)).fields()["TRACE_ON"] == "true"
        taking.settings.update("traceOn=false")
        assert (await send(peer)).fields()["TRACE_ON"] == "false"


async def test_a_one_way_message_is_stored_and_not_answered(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        fields = header_fields(header())
        code = RequestCode.SEND_MESSAGE_V2
        peer.send(encode_head(code=code, opaque=1_000, flag=Flag.ONEWAY, fields=fields, body_bytes=2) + b"hi")
        reply = await send(peer)  # the first answer that comes, as it would not be in order otherwise
        assert reply.fields()["queueOffset"] == "1"


async def test_the_broker_picks_a_queue_for_who_names_none(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    taking.topics.update(TopicConfig(topic_name=TOPIC, read_queue_nums=8, write_queue_nums=3))
    async with talking(taking) as peer:
        reply = await send(peer, queue_id=-1)
        assert reply.fields()["queueId"] == "2"  # the last of those that are written to: that is our randomness
        assert [record.queue_id for record in taking.records()] == [2]


async def test_a_queue_that_the_topic_does_not_have_is_refused_in_apaches_words(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        host, port = peer.local_address
        refused(
            await send(peer, queue_id=4),
            ResponseCode.SYSTEM_ERROR,
            "request queueId[4] is illegal, TopicConfig [topicName=Orders, readQueueNums=4, writeQueueNums=4, "
            f"perm=RW-, topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false] Producer: {host}:{port}",
        )
        taking.topics.update(TopicConfig(topic_name=TOPIC, read_queue_nums=4, write_queue_nums=0))
        refused(await send(peer, queue_id=-1), ResponseCode.SYSTEM_ERROR, "the topic[Orders] has no queue")
        await nothing_came(taking, peer)


@pytest.mark.parametrize(
    ("topic", "code", "remark"),
    [
        ("", ResponseCode.SYSTEM_ERROR, "The specified topic is blank."),
        ("  ", ResponseCode.SYSTEM_ERROR, "The specified topic is blank."),
        ("../../etc", ResponseCode.SYSTEM_ERROR, "contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ("é", ResponseCode.SYSTEM_ERROR, "contains illegal characters"),
        ("x" * 128, ResponseCode.SYSTEM_ERROR, "is longer than topic max length"),
        *(
            (topic, ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")
            for topic in NOT_FOR_SENDING
        ),
    ],
)
async def test_topics_that_nobody_may_send_to_are_refused(tmp_path: Path, topic: str, code: int, remark: str) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        refused(await send(peer, topic=topic), code, remark)
        await nothing_came(taking, peer)


async def test_an_unknown_topic_is_made_after_the_default_topic(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        assert (await send(peer, topic="New", default_topic_queue_nums=2)).code == ResponseCode.SUCCESS
        made = taking.topics.find("New")
        assert made is not None
        assert (made.read_queue_nums, made.write_queue_nums, made.perm, made.topic_sys_flag) == (2, 2, 6, 0)
        assert (await send(peer, topic="Unit", unit_mode=True)).code == ResponseCode.SUCCESS
        unit = taking.topics.find("Unit")
        assert unit is not None
        assert unit.topic_sys_flag == 1


async def test_with_creation_off_an_unknown_topic_is_refused_but_a_retry_topic_is_made(tmp_path: Path) -> None:
    taking = Taking(tmp_path, BrokerConfig(broker_name="b", auto_create_topic=False))
    async with talking(taking) as peer:
        refused(
            await send(peer, topic="New"),
            ResponseCode.TOPIC_NOT_EXIST,
            "topic[New] not exist, apply first please!\nSee http://rocketmq.apache.org/docs/faq/",
        )
        await nothing_came(taking, peer)
        reply = await send(peer, topic="%RETRY%g", unit_mode=True)
        assert reply.code == ResponseCode.SUCCESS
        made = taking.topics.find("%RETRY%g")
        assert made is not None
        assert (made.write_queue_nums, made.perm, made.topic_sys_flag) == (1, 6, 2)


async def test_a_topic_that_becomes_read_only_refuses_from_then_on(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        assert (await send(peer)).code == ResponseCode.SUCCESS
        config = taking.topics.find(TOPIC)
        assert config is not None
        taking.topics.update(msgspec.structs.replace(config, perm=4))
        refused(await send(peer), ResponseCode.NO_PERMISSION, "the topic[Orders] sending message is forbidden")
        taking.topics.update(config)
        assert (await send(peer)).code == ResponseCode.SUCCESS
        taking.topics.delete(TOPIC)
        taking.change(auto_create_topic=False)
        assert (await send(peer)).code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_broker_that_is_being_emptied_refuses_ordered_topics_only(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    taking.topics.update(TopicConfig(topic_name="Ordered", order=True))
    async with talking(taking) as peer:
        assert (await send(peer, topic="Ordered")).code == ResponseCode.SUCCESS
        taking.settings.update("brokerPermission=4")
        refused(
            await send(peer, topic="Ordered"),
            ResponseCode.NO_PERMISSION,
            "the broker[10.1.2.3] sending message is forbidden",
        )
        assert (await send(peer)).code == ResponseCode.SUCCESS


async def test_messages_of_a_multi_tag_topic_are_marked(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    taking.topics.update(TopicConfig(topic_name="Tags", topic_filter_type="MULTI_TAG"))
    async with talking(taking) as peer:
        await send(peer, topic="Tags", sys_flag=sysflag.COMPRESSED)
        (record,) = taking.records("Tags")
        assert record.sys_flag == sysflag.COMPRESSED | sysflag.MULTI_TAGS


async def test_messages_over_a_limit_and_empty_ones_are_illegal(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        limits = "msg body length limit 16384B, msg properties length limit 32KB."
        refused(await send(peer, b"x" * 16_385), ResponseCode.MESSAGE_ILLEGAL, limits)
        refused(await send(peer, properties=f"A\x01{'x' * 32_767}"), ResponseCode.MESSAGE_ILLEGAL, limits)
        # the cluster's name comes on top of what the client sent
        refused(await send(peer, properties=f"A\x01{'x' * 32_760}"), ResponseCode.MESSAGE_ILLEGAL, limits)
        refused(await send(peer, b""), ResponseCode.MESSAGE_ILLEGAL, "the message body length is zero")
        await nothing_came(taking, peer)
        assert (await send(peer, b"x" * 16_384)).code == ResponseCode.SUCCESS


async def test_a_full_disk_is_said_and_the_broker_goes_on(tmp_path: Path) -> None:
    taking = Taking(tmp_path, disk_ratio=0.99)
    async with talking(taking) as peer:
        reply = await send(peer)
        refused(reply, ResponseCode.SERVICE_NOT_AVAILABLE, "service not available now. It may be caused by one of")
        assert "too full" in (reply.remark or "")
        await nothing_came(taking, peer)


async def test_a_closed_store_is_said(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        taking.store.close()
        refused(await send(peer), ResponseCode.SERVICE_NOT_AVAILABLE, "is closed")


async def test_before_the_time_that_was_set_no_message_is_taken(tmp_path: Path) -> None:
    taking = Taking(tmp_path, BrokerConfig(broker_name="b", start_accept_sends_at_ms=4_102_444_800_123))
    async with talking(taking) as peer:
        refused(await send(peer), ResponseCode.SYSTEM_ERROR, "broker unable to service, until 2")
        taking.clock.ms = 4_102_444_800_123
        assert (await send(peer)).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("at_ms", [253_402_300_800_000, 2**62, 2**63 - 1], ids=["year 10,000", "2^62", "2^63 - 1"])
async def test_a_time_behind_the_calendars_end_refuses_every_message_in_one_sentence(
    tmp_path: Path, at_ms: int
) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        assert (await send(peer)).code == ResponseCode.SUCCESS
        taking.change(start_accept_sends_at_ms=at_ms)
        remark = f"broker unable to service, until {at_ms} ms after 1970"
        refused(await send(peer), ResponseCode.SYSTEM_ERROR, remark)
        taking.change(start_accept_sends_at_ms=0)
        assert (await send(peer)).code == ResponseCode.SUCCESS


async def test_a_busy_broker_refuses_before_it_stores(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        taking.flow.busy = "[TIMEOUT_CLEAN_QUEUE]broker busy"
        refused(await send(peer), ResponseCode.SYSTEM_BUSY, "[TIMEOUT_CLEAN_QUEUE]broker busy")
        await nothing_came(taking, peer)
        taking.flow.busy = None
        assert (await send(peer)).code == ResponseCode.SUCCESS


async def test_a_delayed_message_goes_to_the_delay_topic_and_keeps_its_queue_in_the_answer(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        reply = await send(peer, queue_id=3, properties=text({"DELAY": "5", "WAIT": "true"}))
        assert reply.code == ResponseCode.SUCCESS
        assert reply.fields()["queueId"] == "3"
        (record,) = taking.schedule()
        assert record.queue_id == 4
        assert properties(record)["REAL_TOPIC"] == TOPIC
        assert properties(record)["REAL_QID"] == "3"
        assert taking.records() == []


async def test_a_time_too_far_away_is_illegal(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        reply = await send(peer, properties=text({"TIMER_DELAY_SEC": "1000000"}))
        refused(reply, ResponseCode.MESSAGE_ILLEGAL, "the delay time should not be bigger than the max delay")
        await nothing_came(taking, peer)


async def test_the_first_half_of_a_transaction_goes_where_no_consumer_sees_it(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        sent = {"TRAN_MSG": "true", "PGROUP": "producers", "WAIT": "true"}
        reply = await send(peer, queue_id=1, sys_flag=sysflag.TRANSACTION_PREPARED, properties=text(sent))
        assert reply.code == ResponseCode.SUCCESS
        (half,) = taking.halves.taken
        assert (half.topic, half.queue_id, half.body) == (TOPIC, 1, b"hello")
        assert reply.fields()["queueId"] == "1"
        assert taking.records() == []
        # An old consumer sends a message of a transaction back with all its properties.
        await send(peer, reconsume_times=1, properties=text({"TRAN_MSG": "true", "DELAY": "3"}))
        assert len(taking.halves.taken) == 1
        assert len(taking.schedule()) == 1


async def test_a_broker_that_takes_no_transactions_says_so(tmp_path: Path) -> None:
    taking = Taking(tmp_path, BrokerConfig(broker_name="b", reject_transactions=True))
    async with talking(taking) as peer:
        refused(
            await send(peer, properties=text({"TRAN_MSG": "true"})),
            ResponseCode.NO_PERMISSION,
            "the broker[10.1.2.3] sending transaction message is forbidden",
        )
        assert (await send(peer, properties=text({"TRAN_MSG": "false"}))).code == ResponseCode.SUCCESS


async def test_a_message_sent_to_a_retry_topic_too_often_becomes_a_dead_letter_that_can_be_read(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:

        async def send_again(tries: int, *, version: int = VERSION) -> Command:
            sent = text({"DELAY": "4", "TAGS": "a"})
            return await send(
                peer,
                topic="%RETRY%g",
                reconsume_times=2,
                properties=sent,
                max_reconsume_times=tries,
                version=version,
            )

        await send_again(3)
        assert len(taking.schedule()) == 1
        assert (await send_again(2)).code == ResponseCode.SUCCESS
        (dead,) = taking.records("%DLQ%g")
        assert properties(dead) == {"TAGS": "a", "CLUSTER": "DefaultCluster"}  # and not delayed any more
        made = taking.topics.find("%DLQ%g")
        assert made is not None
        assert (made.write_queue_nums, made.perm) == (1, 6)
        # Clients before 3.4.9 do not say how often, whatever stands in that field: then the group does.
        await send_again(2, version=120)
        assert len(taking.schedule()) == 2


async def test_a_retry_topic_of_a_group_that_cannot_be_is_refused(tmp_path: Path) -> None:
    taking = Taking(tmp_path, BrokerConfig(broker_name="b", auto_create_group=False))
    async with talking(taking) as peer:
        refused(
            await send(peer, topic="%RETRY%g"),
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            "subscription group not exist, g \nSee http://rocketmq.apache.org/docs/faq/",
        )


async def test_with_sync_flush_the_answer_waits_for_the_disk_unless_the_sender_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, synced = threading.Event(), threading.Event()

    def slow(_: int) -> None:
        synced.set()
        assert disk.wait(60)

    taking = Taking(tmp_path, flush_mode=FlushMode.SYNC_FLUSH, sync_flush_timeout_ms=60_000)
    async with talking(taking) as peer:
        monkeypatch.setattr("hanabi.store.files.segment.sync_file", slow)
        taking.store.start()
        waits = peer.start(RequestCode.SEND_MESSAGE_V2, header(), b"waits")
        reply = await send(peer, b"does not", properties=text({"WAIT": "false"}))
        assert reply.fields()["queueOffset"] == "1"
        assert await asyncio.to_thread(synced.wait, 60)
        assert not waits.done()
        disk.set()
        reply = await waits
        assert reply.code == ResponseCode.SUCCESS
        assert reply.fields()["queueOffset"] == "0"


async def test_a_disk_that_hangs_is_told_as_a_timeout_of_a_message_that_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = threading.Event()
    monkeypatch.setattr("hanabi.store.files.segment.sync_file", lambda _: disk.wait(60))
    taking = Taking(tmp_path, flush_mode=FlushMode.SYNC_FLUSH, sync_flush_timeout_ms=1)
    async with talking(taking) as peer:
        taking.store.start()
        reply = await send(peer)
        assert reply.code == ResponseCode.FLUSH_DISK_TIMEOUT
        assert reply.fields().keys() == {"msgId", "queueId", "queueOffset", "MSG_REGION", "TRACE_ON"}
        assert len(taking.records()) == 1
        disk.set()


@pytest.mark.parametrize("status", [status for status in PutStatus if status is not PutStatus.PUT_OK])
def test_every_refusal_of_the_store_has_a_code_and_a_sentence(status: PutStatus) -> None:
    code, remark = refusal(PutResult(status, reason="because"), StoreConfig())
    assert code in {ResponseCode.SYSTEM_ERROR, ResponseCode.MESSAGE_ILLEGAL, ResponseCode.SERVICE_NOT_AVAILABLE}
    assert remark.endswith("(because)")
