"""Answers to requests that were sent as messages reach the client that asked."""

from pathlib import Path

import pytest

from hanabi.broker.config import BrokerConfig
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.headers.send import ReplyMessageHeader
from hanabi.wire.message.properties import parse_properties
from tests.broker.sending import BORN_MS, Taking, as_v1, header, properties, talking, text
from tests.broker.talk import Peer, connected

ANSWER_TOPIC = "DefaultCluster_REPLY_TOPIC"
TO_ME = text({"REPLY_TO_CLIENT": "me", "CORRELATION_ID": "c1", "MSG_TYPE": "reply"})


async def is_known_as(peer: Peer, client_id: str) -> None:
    assert (await peer.ask(RequestCode.HEART_BEAT, None, client_id.encode())).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("code", [RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2])
async def test_an_answer_is_handed_to_the_client_that_asked_and_stored(tmp_path: Path, code: int) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as replier, taking.served() as address, connected(address) as asker:
        await is_known_as(asker, "me")
        sent = header(topic=ANSWER_TOPIC, flag=9, properties=TO_ME)
        answer = replier.start(code, sent if code == RequestCode.SEND_REPLY_MESSAGE_V2 else as_v1(sent), b"yes")
        pushed = await asker.request()
        assert pushed.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
        assert pushed.body == b"yes"
        told = pushed.header(ReplyMessageHeader)
        assert (told.topic, told.flag, told.born_timestamp) == (ANSWER_TOPIC, 9, BORN_MS)
        assert (told.store_host, told.store_timestamp) == ("10.1.2.3:10911", taking.clock.ms)
        assert told.born_host == "{}:{}".format(*replier.local_address)
        assert parse_properties(told.properties or "") == {
            **parse_properties(TO_ME),
            "PUSH_REPLY_TIME": str(taking.clock.ms),
        }
        assert not answer.done()
        asker.reply(pushed)
        reply = await answer
        assert (reply.code, reply.remark) == (ResponseCode.SUCCESS, None)
        (record,) = taking.records(ANSWER_TOPIC)
        assert record.body == b"yes"
        assert properties(record) == parse_properties(TO_ME)
        fields = reply.fields()
        assert fields["msgId"].endswith(f"{record.log_offset:016X}")
        assert (fields["queueId"], fields["queueOffset"], fields["MSG_REGION"]) == ("0", "0", "DefaultRegion")


async def test_without_storing_the_answer_has_numbers_that_java_can_read(tmp_path: Path) -> None:
    taking = Taking(tmp_path, BrokerConfig(broker_name="b", store_reply_messages=False))
    async with talking(taking) as peer:
        await is_known_as(peer, "me")
        answer = peer.start(
            RequestCode.SEND_REPLY_MESSAGE_V2, header(topic=ANSWER_TOPIC, queue_id=-1, properties=TO_ME), b"yes"
        )
        peer.reply(await peer.request())
        fields = (await answer).fields()
        assert (fields["msgId"], fields["queueId"], fields["queueOffset"]) == ("0", "0", "0")
        assert taking.store.max_log_offset == 0


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ("", "reply message properties[REPLY_TO_CLIENT] is null"),
        (text({"REPLY_TO_CLIENT": "nobody"}), "push reply message fail, channel of <nobody> not found."),
    ],
)
async def test_an_answer_for_nobody_is_an_error_but_stored(tmp_path: Path, sent: str, why: str) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        reply = await peer.ask(RequestCode.SEND_REPLY_MESSAGE_V2, header(topic=ANSWER_TOPIC, properties=sent), b"yes")
        assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, why)
        assert len(taking.records(ANSWER_TOPIC)) == 1


async def test_who_answered_hears_that_the_asker_refused_or_went_away(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as replier, taking.served() as address, connected(address) as asker:
        await is_known_as(asker, "me")
        sent = header(topic=ANSWER_TOPIC, properties=TO_ME)
        answer = replier.start(RequestCode.SEND_REPLY_MESSAGE_V2, sent, b"yes")
        asker.reply(await asker.request(), ResponseCode.SYSTEM_ERROR, remark="too late")
        reply = await answer
        assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "push reply message to me fail: too late")
        answer = replier.start(RequestCode.SEND_REPLY_MESSAGE_V2, sent, b"yes")
        await asker.request()
        await asker.close()
        reply = await answer
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert "push reply message to me fail" in (reply.remark or "")


async def test_an_answer_to_a_topic_that_cannot_be_is_refused(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        reply = await peer.ask(RequestCode.SEND_REPLY_MESSAGE_V2, header(topic="../x"), b"yes")
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert "illegal characters" in (reply.remark or "")
        assert reply.fields() == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


async def test_an_answer_that_cannot_be_stored_is_passed_on_all_the_same(tmp_path: Path) -> None:
    taking = Taking(tmp_path, disk_ratio=0.99)
    async with talking(taking) as peer:
        await is_known_as(peer, "me")
        answer = peer.start(RequestCode.SEND_REPLY_MESSAGE_V2, header(topic=ANSWER_TOPIC, properties=TO_ME), b"yes")
        peer.reply(await peer.request())
        reply = await answer
        assert reply.code == ResponseCode.SUCCESS
        assert reply.fields()["msgId"] == "0"
