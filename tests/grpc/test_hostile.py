"""Hostile calls over real sockets: bodies, settings, handles and receipts that a client makes up."""

import gzip
import logging
from pathlib import Path
from typing import Any

import pytest

from hanabi.grpc.calls.support.sessions import TOPICS_MAX
from hanabi.grpc.proto.numbers import Code, RpcStatus
from hanabi.grpc.rules.handles import Transaction
from hanabi.grpc.rules.messages import BODY_BYTES_MAX
from hanabi.grpc.serving.limits import PortLimits
from hanabi.grpc.serving.replies import prefixed
from hanabi.testing.waiting import eventually, within
from hanabi.wire.bodies.topics import TopicConfig
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import VERSION, Command
from hanabi.wire.headers.send import SendMessageV2Header
from hanabi.wire.message import sysflag
from tests.grpc.peers import (
    GrpcPeer,
    Place,
    Reply,
    ack_request,
    grpc_broker,
    message,
    new,
    receive_request,
    resource,
    send_request,
    signed,
)

GZIP = 2  # Encoding of a body


async def sent(place: Place, *messages: Any) -> Any:
    return await place.peer.call("SendMessage", send_request(*messages))


def no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


# Bodies


async def test_a_body_whose_gzip_is_damaged_is_refused_as_a_fault_of_the_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with grpc_broker(tmp_path) as place:
        topic = await place.create_topic("Orders")
        good = gzip.compress(b"hello" * 100)
        for body in (good[:10] + b"\xff" * 20, good[:-9], good[:-8] + b"\0" * 8, good + b"tail", b"no gzip"):
            reply = await sent(place, message(topic, body, body_encoding=GZIP))
            assert reply.status.code == Code.BAD_REQUEST, body
        two = gzip.compress(b"hello ") + gzip.compress(b"again")
        assert (await sent(place, message(topic, two, body_encoding=GZIP))).status.code == Code.OK
        (got,) = await place.receive(topic, "Group")
        assert got.body == b"hello again"
    no_traceback(caplog)


async def test_bodies_of_one_call_that_unpack_to_very_much_are_refused_and_none_is_stored(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        topic = await place.create_topic("Orders", queues=1)
        packed = gzip.compress(bytes(BODY_BYTES_MAX))
        bombs = [message(topic, packed, number, body_encoding=GZIP) for number in range(20)]  # 80 MB in 80 KB
        reply = await sent(place, *bombs)
        assert reply.status.code == Code.MESSAGE_BODY_TOO_LARGE
        assert place.broker.store.reader.max_offset(topic, 0) == 0
        members = gzip.compress(b"") * 1_000  # each costs as much as a message
        assert (await sent(place, message(topic, members, body_encoding=GZIP))).status.code == Code.BAD_REQUEST


@pytest.mark.parametrize("seconds", [2**62, -(2**62)])
async def test_a_time_beyond_each_clock_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, seconds: int
) -> None:
    async with grpc_broker(tmp_path) as place:
        topic = await place.create_topic("Orders")
        odd = message(topic)
        odd.system_properties.born_timestamp.seconds = seconds
        assert (await sent(place, odd)).status.code == Code.BAD_REQUEST
    no_traceback(caplog)


# Receipts


async def test_a_receipt_that_a_producer_wrote_into_its_message_is_not_believed(tmp_path: Path) -> None:
    """A client of 4.x may send any property: the consumer would acknowledge another message, or none."""
    async with grpc_broker(tmp_path) as place:
        topic = await place.create_topic("Orders", queues=1)
        forged = f"0 {place.broker.now_ms()} 60000 0 0 broker-a 0 1"  # the receipt of the message behind it
        for number, text in enumerate((forged, None, "damaged")):
            properties = f"UNIQ_KEY\x01id-{number}" + (f"\x02POP_CK\x01{text}" if text else "")
            await _send_as_4_9(place, topic, b"%d" % number, properties)
        got = await place.receive(topic, "Group")
        assert [each.body for each in got] == [b"0", b"1", b"2"]
        await place.peer.call("AckMessage", ack_request(topic, "Group", got[0].system_properties.receipt_handle))
        queue = place.broker.services.pop.flights.find(topic, "Group", 0)
        assert queue is not None
        assert sorted(queue.flights) == [1, 2]


async def _send_as_4_9(
    place: Place, topic: str, body: bytes, properties: str, group: str = "P", sys_flag: int = 0
) -> None:
    header = SendMessageV2Header(
        producer_group=group,
        topic=topic,
        default_topic="",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=sys_flag,
        born_timestamp=place.broker.now_ms(),
        flag=0,
        properties=properties,
        reconsume_times=0,
    )
    handler = place.broker.open_handlers[RequestCode.SEND_MESSAGE_V2]
    (connection,) = place.port.server.connections
    request = Command(code=RequestCode.SEND_MESSAGE_V2, body=body, version=VERSION)
    reply: Any = handler.handle(header, request, connection.peer)  # type: ignore[arg-type]
    assert reply.code == 0


# Rights

INIT = '{"username":"admin","password":"secret-admin"}'
ACCOUNTS = """
accounts:
- {accessKey: stranger, secretKey: secret-of-stranger, defaultTopicPerm: DENY, topicPerms: [Own=PUB]}
- {accessKey: rightful, secretKey: secret-of-owner, defaultTopicPerm: DENY, topicPerms: [Own=PUB, Secret=PUB]}
"""
POLICIES: dict[str, Any] = {"authentication_enabled": True, "authorization_enabled": True, "init_user": INIT}


async def test_a_half_message_of_a_topic_without_a_right_is_not_ended(tmp_path: Path) -> None:
    """The group of a half message may have the name of a topic on which the client has the right."""
    acl = tmp_path / "acl"
    acl.mkdir()
    (acl / "plain_acl.yml").write_text(ACCOUNTS)
    async with grpc_broker(tmp_path / "home", acl_enabled=True, acl_folder=str(acl)) as place:
        for name in ("Secret", "Own"):
            await place.broker.tables.topics.update(TopicConfig(topic_name=name))
        half = "TRAN_MSG\x01true\x02PGROUP\x01Own\x02UNIQ_KEY\x01id-0"
        await _send_as_4_9(place, "Secret", b"half", half, "Own", sysflag.TRANSACTION_PREPARED)
        request = new("EndTransactionRequest", topic=resource("Own"), message_id="id-0", source=1, resolution=2)
        request.transaction_id = Transaction("broker-a", 0, 0, "id-0").encode()
        reply = await place.peer.call("EndTransaction", request, signed("stranger", "secret-of-stranger"))
        assert reply.status.code == Code.UNAUTHORIZED
        reply = await place.peer.call("EndTransaction", request, signed("rightful", "secret-of-owner"))
        assert reply.status.code == Code.OK


# Settings


def producer(*topics: str) -> Any:
    settings = new("Settings", client_type=1)
    settings.publishing.topics.extend(resource(topic) for topic in topics)
    settings.publishing.SetInParent()
    return settings


async def test_a_producer_names_no_more_topics_than_the_limit_by_settings_in_parts(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        stream_id, reply = place.peer.start("Telemetry", "TelemetryCommand")
        for part, code in ((0, Code.OK), (1, Code.BAD_REQUEST)):
            settings = producer(*(f"T{part}-{number}" for number in range(TOPICS_MAX)))
            place.peer.say(stream_id, prefixed(new("TelemetryCommand", settings=settings).SerializeToString()))
            assert (await reply.next()).status.code == code
        await within(reply.ended.wait())
        assert not len(place.port.service.sessions)


async def test_settings_with_very_long_expressions_are_refused(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        topic = await place.create_topic("Orders")
        for count, characters in ((1, 17_000), (1_000, 1_000)):
            settings = new("Settings", client_type=2)
            settings.subscription.group.name = "Group"
            for _ in range(count):
                entry = settings.subscription.subscriptions.add(topic=resource(topic))
                entry.expression.type, entry.expression.expression = 1, "t" * characters
            stream_id, reply = place.peer.start("Telemetry", "TelemetryCommand")
            place.peer.say(stream_id, prefixed(new("TelemetryCommand", settings=settings).SerializeToString()))
            assert (await reply.next()).status.code == Code.ILLEGAL_FILTER_EXPRESSION
        assert not len(place.port.service.sessions)


# Renewals


async def test_messages_of_a_client_without_a_stream_are_not_renewed_for_hours(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        topic = await place.create_topic("Orders")
        await sent(place, message(topic))
        await place.peer.replies_to("ReceiveMessage", receive_request(topic, "Group", auto_renew=True))
        await place.port.service.renewals.renew()
        assert not len(place.port.service.renewals)
        other = await GrpcPeer.open(place.address)
        reply = other.call_later("ReceiveMessage", receive_request(topic, "Group"))
        assert (await reply.next()).status.code == Code.OK
        assert (await reply.next()).message.system_properties.delivery_attempt == 2
        await other.close()


# Guesses


async def test_a_client_with_too_many_wrong_signatures_under_way_is_cut_off(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path, guess_delay_ms=60_000, **POLICIES) as place:
        await place.create_topic("Orders")
        assert place.broker.access_control is not None
        guesses = place.broker.access_control.guesses
        assert guesses is not None
        for _ in range(30):
            guesses.failed("127.0.0.1", "admin")
        attacker = await GrpcPeer.open(place.address)
        request = new("QueryRouteRequest", topic=resource("Orders"))
        for number in range(200):
            attacker.call_later("QueryRoute", request, signed("admin", f"guess-{number}"))
        await within(attacker.closed.wait())
        reply = await place.peer.call("QueryRoute", request, signed("admin", "secret-admin"))
        assert reply.status.code == Code.OK
        await attacker.close()
        await eventually(lambda: len(place.port.server.connections) == 1)
        assert guesses.closed


# Replies


async def test_a_reply_does_not_repeat_very_much_of_the_request_for_each_queue(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        topic = await place.create_topic("Orders", queues=16)
        request = new("QueryRouteRequest", topic=resource(topic))
        request.endpoints.addresses.add(host="h" * 100_000, port=1)
        assert (await place.peer.call("QueryRoute", request)).status.code == Code.BAD_REQUEST
        request.endpoints.Clear()
        for _ in range(1_000):
            request.endpoints.addresses.add(host="h", port=1)
        assert (await place.peer.call("QueryRoute", request)).status.code == Code.BAD_REQUEST
        stuffed = resource(topic).SerializeToString() + b"\xfa\x3f\xa0\x8d\x06" + bytes(100_000)  # an unknown field
        request.Clear()
        request.topic.MergeFromString(stuffed)
        reply = await place.peer.call("QueryRoute", request)
        assert reply.status.code == Code.OK
        assert reply.ByteSize() < 10_000


async def test_a_client_that_reads_nothing_gets_no_more_answers_of_any_kind(tmp_path: Path) -> None:
    limits = PortLimits(unread_bytes_max=64 * 1024)
    async with grpc_broker(tmp_path, limits) as place:
        topic = await place.create_topic("Orders", queues=500)  # a long reply
        deaf = await GrpcPeer.open(place.address, window=0, updates=False)
        answers: list[Reply] = []
        while not answers or "grpc-status" not in answers[-1].fields:
            assert len(answers) < 20
            answers.append(deaf.call_later("QueryRoute", new("QueryRouteRequest", topic=resource(topic))))
            await eventually(lambda: answers[-1].fields)
        assert answers[-1].status == RpcStatus.RESOURCE_EXHAUSTED
        await deaf.close()
