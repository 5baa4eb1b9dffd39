"""Tests of bytes that are not our protocol: answered where possible, else closed; one log line a connection; nobody
else notices."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanabi.errors import ConnectionLostError
from hanabi.remoting.config import RemotingConfig
from hanabi.remoting.connection.endpoint import Endpoint
from hanabi.remoting.connection.protocol import Connection
from hanabi.testing.waiting import eventually
from hanabi.wire.codes import HeaderForm, ResponseCode
from hanabi.wire.command import encode_request
from hanabi.wire.frame import encode_frame
from tests.remoting.peers import (
    ECHO,
    HANDLERS,
    NUMBER,
    MemoryTransport,
    connecting,
    raw_peer,
    serving,
    warnings,
)

GOOD = encode_request(ECHO, 1, None, b"good")


def frame_of(form: int, header: bytes, *, header_bytes: int | None = None) -> bytes:
    size = len(header) if header_bytes is None else header_bytes
    return encode_frame(bytes([form]) + size.to_bytes(3, "big") + header)


HOPELESS = {
    "garbage": b"\xde\xad\xbe\xef" * 100,
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a TLS handshake": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),
    "a frame over the limit": (16 * 1024 * 1024 + 1).to_bytes(4, "big"),
    "a frame too short for its header length": encode_frame(b"\0"),
    "a header longer than its frame": frame_of(0, b"{}", header_bytes=1000),
    "an unknown header form": frame_of(9, b"{}"),
    "broken JSON": frame_of(0, b'{"code":1,'),
    "JSON that is no header": frame_of(0, b"[1,2,3]"),
    "a header without a code": frame_of(0, b'{"opaque":1}'),
    "a code that is no number": frame_of(0, b'{"code":"ten"}'),
    "a code beyond Java's int": frame_of(0, b'{"code":4294967296}'),
    "deep nesting": frame_of(0, b'{"code":1,"extFields":' + b"[" * 100_000),
    "half a binary header": frame_of(1, b"\0\1"),
    "a binary header whose fields go on after its end": frame_of(1, bytes(13) + b"\0\0\0\0" + b"\0\0\xff\xff"),
}


@pytest.mark.parametrize("name", HOPELESS)
async def test_what_cannot_be_understood_closes_its_connection_with_one_log_line(
    caplog: pytest.LogCaptureFixture, name: str
) -> None:
    async with serving() as (server, address), raw_peer(address) as peer, raw_peer(address) as other:
        peer.send(HOPELESS[name])
        assert await peer.until_closed() == b""
        await eventually(lambda: len(server.connections) == 1)
        assert server.statistics().protocol_errors == 1
        other.send(GOOD)
        assert (await other.answer()).body == b"good"
        host, port = peer.writer.get_extra_info("sockname")[:2]
        (line,) = warnings(caplog)
        assert line.startswith(f"{host}:{port}: closed: ")


@pytest.mark.parametrize("garbage", ["broken JSON", "a frame over the limit"])
async def test_what_was_asked_before_the_garbage_is_answered(garbage: str) -> None:
    async with serving() as (_, address), raw_peer(address) as peer:
        peer.send(GOOD + GOOD + HOPELESS[garbage])
        assert [(await peer.answer()).body for _ in range(2)] == [b"good", b"good"]
        assert await peer.until_closed() == b""


@pytest.mark.parametrize("form", HeaderForm)
async def test_a_header_field_that_is_wrong_is_answered_with_its_name(form: HeaderForm) -> None:
    async with serving() as (server, address), raw_peer(address) as peer:
        peer.send(encode_request(NUMBER, 31, form=form))
        answer = await peer.answer()
        assert (answer.code, answer.opaque, answer.form) == (ResponseCode.SYSTEM_ERROR, 31, form)
        assert answer.remark is not None
        assert "NumberHeader" in answer.remark
        assert "number" in answer.remark
        peer.send(GOOD)  # we know our place in the stream, so we go on
        assert (await peer.answer()).body == b"good"
        assert server.statistics().protocol_errors == 0


@pytest.mark.parametrize("code", [-1, 0, 9999, 2**31 - 1])
async def test_a_code_that_nobody_knows_is_answered(code: int) -> None:
    async with serving() as (_, address), raw_peer(address) as peer:
        peer.ask(code, opaque=5)
        answer = await peer.answer()
        assert (answer.code, answer.opaque) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, 5)


async def test_half_a_frame_and_then_nothing_is_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as (server, address):
        async with raw_peer(address) as peer:
            peer.send(GOOD[:-1])
            await peer.writer.drain()
            peer.writer.write_eof()
            await peer.until_closed()
        await eventually(lambda: server.statistics().protocol_errors == 1)

    (line,) = warnings(caplog)
    assert "in the middle of a frame" in line


async def test_a_peer_of_a_byte_now_and_then_is_dropped_though_never_idle(caplog: pytest.LogCaptureFixture) -> None:
    config = RemotingConfig(frame_seconds_max=0.2)
    async with serving(config=config) as (_, address), raw_peer(address) as peer, connecting() as connector:
        closing = asyncio.create_task(peer.until_closed())
        peer.send((1000).to_bytes(4, "big"))
        while not closing.done():
            peer.send(b"x")
            assert (await connector.request(address, ECHO, body=b"quick")).body == b"quick"
            await asyncio.sleep(0.01)

    (line,) = warnings(caplog)
    assert "a frame is not complete after 0.2 s" in line


async def test_a_request_a_byte_at_a_time_is_a_request() -> None:
    async with serving() as (_, address), raw_peer(address) as peer:
        for position in range(len(GOOD)):
            peer.send(GOOD[position : position + 1])
            await peer.writer.drain()
        assert (await peer.answer()).body == b"good"


async def test_a_server_that_answers_with_garbage_fails_its_clients_requests_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server, connecting() as connector:
        with pytest.raises(ConnectionLostError, match=rf"{host}:{port}: frame of \d+ bytes, limit"):
            await connector.request(f"{host}:{port}", ECHO, timeout=60)

    assert len(warnings(caplog)) == 1


@settings(max_examples=150, deadline=None)
@given(chunks=st.lists(st.one_of(st.binary(max_size=60), st.sampled_from([GOOD, *HOPELESS.values()])), max_size=6))
def test_no_bytes_at_all_raise_anything(chunks: list[bytes]) -> None:
    async def main() -> None:
        connection, transport = Connection(Endpoint(HANDLERS, RemotingConfig()), "memory:1"), MemoryTransport()
        connection.connection_made(transport)
        for chunk in chunks:
            connection.data_received(chunk)
        assert connection.closed == transport.closing
        connection.connection_lost(None)

    asyncio.run(main())
