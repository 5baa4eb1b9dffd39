"""The gRPC port: TLS beside plain, access control, and clients that misbehave while others are served."""

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hanabi.grpc.calls.support.method import Form
from hanabi.grpc.http2.frames import END_STREAM, PREFACE, U32, Fault, Kind, frame, settings_frame
from hanabi.grpc.http2.limits import Limits
from hanabi.grpc.proto.messages import message_class
from hanabi.grpc.proto.numbers import Code
from hanabi.grpc.serving.limits import PortLimits
from hanabi.grpc.serving.replies import PREFIX, prefixed
from hanabi.testing.waiting import eventually, within
from hanabi.wire.bodies.topics import TopicConfig
from tests.grpc.peers import GrpcPeer, Place, grpc_broker, message, new, receive_request, resource, send_request, signed

INIT = '{"username":"admin","password":"secret-admin"}'
POLICIES: dict[str, Any] = {"authentication_enabled": True, "authorization_enabled": True, "init_user": INIT}


async def serves(place: Place) -> None:
    """Check that another client is served."""
    other = await GrpcPeer.open(place.address)
    reply = await other.call("QueryRoute", new("QueryRouteRequest", topic=resource("Orders")))
    assert reply.status.code == Code.OK
    await other.close()


async def test_tls_and_plain_share_the_port_with_a_certificate_made_at_the_start(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        await place.create_topic("Orders")
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        trusting.set_alpn_protocols(["h2"])
        secure = await GrpcPeer.open(place.address, tls=trusting)
        for peer in (secure, place.peer):
            reply = await peer.call("SendMessage", send_request(message("Orders")))
            assert reply.status.code == Code.OK
        await secure.close()


async def test_each_method_refuses_a_client_without_rights_and_serves_one_that_signs(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path, guess_delay_ms=0, **POLICIES) as place:
        await place.broker.tables.topics.update(TopicConfig(topic_name="Orders"))
        names = {"topic": "Orders", "group": "Group"}
        for method in place.port.service.methods.values():
            if method.form is Form.BOTH_WAYS:
                continue
            for metadata in ({}, signed("admin", "wrong-secret"), signed("stranger", "secret-admin")):
                (reply, *_) = await place.peer.replies_to(method.name, _named(method.request, names), metadata)
                assert reply.status.code == Code.UNAUTHORIZED, method.name
            if method.name != "ReceiveMessage":
                good = signed("admin", "secret-admin")
                reply = await place.peer.call(method.name, _named(method.request, names), good)
                assert reply.status.code != Code.UNAUTHORIZED, method.name
        assert place.broker.access_control is not None
        assert place.broker.access_control.refusals.count >= 3 * (len(place.port.service.methods) - 1)


async def test_the_answer_to_a_wrong_signature_waits_after_many_and_right_ones_are_answered(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path, guess_delay_ms=60_000, **POLICIES) as place:
        await place.create_topic("Orders")
        assert place.broker.access_control is not None
        guesses = place.broker.access_control.guesses
        assert guesses is not None
        for _ in range(30):
            guesses.failed("127.0.0.1", "admin")
        request = new("QueryRouteRequest", topic=resource("Orders"))
        wrong = asyncio.create_task(place.peer.call("QueryRoute", request, signed("admin", "wrong-secret")))
        for _ in range(3):
            reply = await place.peer.call("QueryRoute", request, signed("admin", "secret-admin"))
            assert reply.status.code == Code.OK
        assert not wrong.done()
        wrong.cancel()
        with suppress(asyncio.CancelledError):
            await wrong


def _named(request: str, names: dict[str, str]) -> Any:
    """Return a request that names these resources, wherever it has a place for them."""
    made = message_class(request)()
    for field, name in names.items():
        if field in made.DESCRIPTOR.fields_by_name:
            getattr(made, field).name = name
    if request == "SendMessageRequest":
        made.messages.append(message(names["topic"]))
    if request == "ReceiveMessageRequest":
        made.CopyFrom(receive_request(names["topic"], names["group"]))
    return made


async def test_settings_of_a_client_without_rights_end_its_stream(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path, **POLICIES) as place:
        settings = new("Settings", client_type=2)
        settings.subscription.group.name = "Group"
        stream_id, reply = place.peer.start("Telemetry", "TelemetryCommand")
        place.peer.say(stream_id, prefixed(new("TelemetryCommand", settings=settings).SerializeToString()))
        assert (await reply.next()).status.code == Code.UNAUTHORIZED
        assert not len(place.port.service.sessions)


BROKEN = {
    "no protobuf": (prefixed(b"\xff\xff\xff"), 13),
    "wrong type of a field": (prefixed(b"\x0a\x02\x08\x01"), None),
    "two messages": (prefixed(b"") + prefixed(b""), 13),
    "half a message": (PREFIX.pack(0, 100) + b"x", 13),
    "nothing": (b"", 13),
    "compressed": (PREFIX.pack(1, 1) + b"x", 12),
    "too long": (PREFIX.pack(0, 2**31) + b"x", 8),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_request_ends_with_a_status_and_others_are_served(tmp_path: Path, name: str) -> None:
    data, status = BROKEN[name]
    async with grpc_broker(tmp_path) as place:
        await place.create_topic("Orders")
        stream_id, reply = place.peer.start("SendMessage", "SendMessageResponse")
        place.peer.say(stream_id, data)
        place.peer.send_raw(frame(Kind.DATA, END_STREAM, stream_id, b""))
        await within(reply.ended.wait())
        if status is not None:
            assert reply.status == status
        await serves(place)
        assert place.port.server.memory.used == 0


async def test_an_unknown_method_and_another_kind_of_content_are_refused(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        for method in ("PullMessage", "Nothing"):
            reply = place.peer.call_later(method, new("QueryRouteRequest"))
            await within(reply.ended.wait())
            assert reply.status == 12
        reply = place.peer.call_later("QueryRoute", new("QueryRouteRequest"), {"content-type": "text/html"})
        await within(reply.ended.wait())
        assert reply.fields[":status"] == "415"


async def test_rapid_resets_close_that_connection_alone(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path, PortLimits(http2=Limits(resets=50))) as place:
        await place.create_topic("Orders")
        bad = await GrpcPeer.open(place.address)
        for _ in range(200):
            stream_id, _ = bad.start("ReceiveMessage", "ReceiveMessageResponse")
            body = prefixed(receive_request("Orders", "Group").SerializeToString())
            bad.send_raw(frame(Kind.DATA, END_STREAM, stream_id, body))
            bad.send_raw(frame(Kind.RST_STREAM, 0, stream_id, U32.pack(Fault.CANCEL)))
        await within(bad.closed.wait())
        assert bad.goaway is not None
        assert bad.goaway[0] == Fault.ENHANCE_YOUR_CALM
        await serves(place)
        await eventually(lambda: not len(place.broker.tables.held_pops))
        await bad.close()


async def test_a_client_that_never_reads_gets_no_more_messages_and_is_cut_off(tmp_path: Path) -> None:
    limits = PortLimits(unread_bytes_max=64 * 1024, stalled_seconds=0.0, check_seconds=0.05)
    async with grpc_broker(tmp_path, limits) as place:
        topic = await place.create_topic("Orders")
        for number in range(20):
            await place.peer.call("SendMessage", send_request(message(topic, bytes(16 * 1024), number)))
        deaf = await GrpcPeer.open(place.address, window=0, updates=False)
        request = receive_request(topic, "Group", batch_size=8)
        deaf.call_later("ReceiveMessage", request)
        connections = place.port.server.connections
        await eventually(lambda: any(connection.is_stalled for connection in connections))
        deaf.call_later("ReceiveMessage", request)
        await eventually(lambda: len(place.broker.tables.held_pops) == 1 or len(connections) == 1)
        await within(deaf.closed.wait())  # it is looked at every few seconds
        await serves(place)
        await deaf.close()


async def test_a_flood_of_header_fields_closes_that_connection_alone(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        await place.create_topic("Orders")
        reader, writer = await asyncio.open_connection(*place.address)
        writer.write(PREFACE + settings_frame({}) + frame(Kind.HEADERS, 0, 1, b"\x82"))
        for _ in range(1_000):
            writer.write(frame(Kind.CONTINUATION, 0, 1, b"\x82" * 1_000))
        with suppress(ConnectionResetError):  # the rest of the flood is not read
            await within(reader.read(-1))
        writer.close()
        await serves(place)


async def test_bytes_of_incomplete_requests_are_bounded_for_all_connections_together(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        await place.create_topic("Orders")
        place.port.server.memory.bytes_max = 100_000
        streams = [place.peer.start("SendMessage", "SendMessageResponse") for _ in range(20)]
        for stream_id, _ in streams:
            place.peer.say(stream_id, PREFIX.pack(0, 1_000_000) + bytes(10_000))
        await within(streams[-1][1].ended.wait())
        assert streams[-1][1].status == 8
        assert place.port.server.memory.used <= 100_000
        await serves(place)
        await place.peer.close()
        await eventually(lambda: place.port.server.memory.used == 0)


async def test_a_connection_without_calls_is_closed(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path, PortLimits(idle_seconds=0.0, check_seconds=0.05)) as place:
        await within(place.peer.closed.wait())
        assert place.peer.goaway is not None
