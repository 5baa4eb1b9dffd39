"""Requests and their answers, in both directions, over real sockets."""

import asyncio
import re

import pytest

from hanabi.errors import ConnectionLostError, RequestTimeoutError, TooManyRequestsError
from hanabi.remoting.config import RemotingConfig
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.endpoint import Endpoint
from hanabi.remoting.connection.protocol import Connection
from hanabi.testing.waiting import eventually
from hanabi.wire.codes import HeaderForm, ResponseCode
from hanabi.wire.command import Command, decode_command, encode_request
from hanabi.wire.frame import FrameDecoder
from hanabi.wire.header import NoHeader
from tests.remoting.peers import (
    ECHO,
    FAIL,
    HANDLERS,
    NUMBER,
    WAIT,
    Gate,
    MemoryTransport,
    NumberHeader,
    connecting,
    ends_with,
    raw_peer,
    serving,
    warnings,
)


def memory_connection(handlers: dict[int, Handler]) -> tuple[Connection, MemoryTransport]:
    patient = RemotingConfig(turn_seconds_max=60)  # all frames are one turn's, however busy the machine is
    connection, transport = Connection(Endpoint(handlers, patient), "memory:1"), MemoryTransport()
    connection.connection_made(transport)
    return connection, transport


def commands(written: bytes) -> list[Command]:
    return [decode_command(frame) for frame in FrameDecoder().feed(written)]


async def test_a_request_is_answered_with_what_its_handler_returns() -> None:
    async with serving() as (server, address), connecting() as connector:
        answer = await connector.request(address, ECHO, body=b"hello")
        assert (answer.code, answer.body) == (ResponseCode.SUCCESS, b"hello")
        answer = await connector.request(address, NUMBER, NumberHeader(number=42))
        assert answer.header(NumberHeader).number == 42
        assert server.statistics().requests == 2


async def test_an_unknown_code_is_answered_with_code_3() -> None:
    async with serving() as (_, address), connecting() as connector:
        answer = await connector.request(address, 9999)
        assert (answer.code, answer.remark) == (3, "request type 9999 not supported")


async def test_a_handler_that_fails_is_an_answer_and_the_connection_lives_on(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as (_, address), connecting() as connector:
        answer = await connector.request(address, FAIL)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark is not None
        assert "as planned" in answer.remark
        assert (await connector.request(address, ECHO, body=b"still here")).body == b"still here"

    assert len(warnings(caplog)) == 1


async def test_an_answer_that_cannot_be_encoded_is_an_error_answer(caplog: pytest.LogCaptureFixture) -> None:
    handlers = {1: Handler(NoHeader, lambda *_: Reply(remark="half a pair: \ud800", body=b"with a body"))}
    async with serving(handlers) as (_, address), connecting() as connector:
        answer = await connector.request(address, 1)
        assert (answer.code, answer.body) == (ResponseCode.SYSTEM_ERROR, b"")

    assert len(warnings(caplog)) == 1


async def test_the_fields_of_an_answer_may_be_given_as_they_travel() -> None:
    handlers = {1: Handler(NoHeader, lambda *_: Reply(fields={"queueId": "3", "MSG_REGION": "north"}))}
    async with serving(handlers) as (_, address), connecting() as connector:
        answer = await connector.request(address, 1)
        assert answer.fields() == {"queueId": "3", "MSG_REGION": "north"}


async def test_an_answer_has_the_form_and_the_number_of_its_request() -> None:
    async with serving() as (_, address), raw_peer(address) as peer:
        for opaque, form in [(5, HeaderForm.BINARY), (-3, HeaderForm.JSON), (2**31 - 1, HeaderForm.BINARY)]:
            peer.send(encode_request(ECHO, opaque, None, b"x", form=form))
            answer = await peer.answer()
            assert (answer.opaque, answer.form, answer.is_response, answer.body) == (opaque, form, True, b"x")


async def test_many_requests_at_once_each_get_their_own_answer() -> None:
    gate = Gate()
    gate.open.set()
    async with serving(gate.handlers()) as (server, address), connecting() as connector:
        bodies = [str(n).encode() for n in range(500)]
        answers = await asyncio.gather(
            *(connector.request(address, WAIT if n % 3 else ECHO, body=body) for n, body in enumerate(bodies))
        )
        assert [answer.body for answer in answers] == bodies
        assert server.statistics().accepted == 1


async def test_all_frames_of_one_read_are_answered_with_one_write() -> None:
    connection, transport = memory_connection(HANDLERS)
    connection.data_received(b"".join(encode_request(ECHO, n, None, b"x" * n) for n in range(1, 51)))
    assert len(transport.writes) == 1
    (written,) = transport.writes[0]
    assert [(answer.opaque, len(answer.body)) for answer in commands(bytes(written))] == [(n, n) for n in range(1, 51)]


async def test_late_answers_that_come_together_are_one_write() -> None:
    gate = Gate()
    connection, transport = memory_connection(gate.handlers())
    for n in range(20):
        connection.data_received(encode_request(WAIT, n))
    await eventually(lambda: gate.waiting == 20)
    gate.open.set()
    await eventually(lambda: bool(transport.writes))
    assert len(transport.writes) == 1
    (written,) = transport.writes[0]
    assert len(commands(bytes(written))) == 20


async def test_large_pieces_of_a_body_are_written_as_they_are() -> None:
    large = [memoryview(bytes(200_000)), memoryview(bytes(300_000))]
    handlers = {1: Handler(NoHeader, lambda *_: Reply(body=[b"few", *large, b"more"]))}
    connection, transport = memory_connection(handlers)
    connection.data_received(encode_request(1, 1) + encode_request(1, 2))
    assert len(transport.writes) == 1
    pieces = transport.writes[0]
    assert [piece for piece in pieces if len(piece) >= 200_000] == [*large, *large]
    assert all(piece is same for piece, same in zip(pieces[1:3], large, strict=True))
    assert [answer.body for answer in commands(b"".join(pieces))] == [b"few" + b"".join(large) + b"more"] * 2


async def test_a_request_without_waiting_costs_no_task() -> None:
    connection, _ = memory_connection(HANDLERS)
    before = len(asyncio.all_tasks())
    connection.data_received(encode_request(ECHO, 1) * 10)
    assert len(asyncio.all_tasks()) == before


async def test_a_oneway_request_gets_no_answer_even_if_it_fails(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as (server, address), raw_peer(address) as peer:
        for _ in range(3):
            peer.ask(9999, oneway=True)
        peer.ask(ECHO, oneway=True)
        peer.ask(ECHO, opaque=2, body=b"the only answer")
        assert (await peer.answer()).body == b"the only answer"
        assert server.statistics().requests == 5

    (line,) = warnings(caplog)  # the first of three
    assert "one-way 9999 failed" in line


async def test_send_oneway_arrives() -> None:
    heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def listen(_: NoHeader, request: Command, __: Connection) -> Reply:
        assert request.is_oneway
        heard.set_result(request.body)
        return Reply()

    async with serving({1: Handler(NoHeader, listen)}) as (_, address), connecting() as connector:
        await connector.send_oneway(address, 1, body=b"by the way")
        assert await heard == b"by the way"


async def test_a_server_asks_its_client_on_the_same_connection() -> None:
    async def ask_back(_: NoHeader, request: Command, connection: Connection) -> Reply:
        answer = await connection.request(2, body=request.body + b" and back", timeout=5)
        return Reply(body=answer.body)

    client_handlers = {2: Handler(NoHeader, lambda _, request, __: Reply(body=request.body + b" and forth"))}
    async with (
        serving({1: Handler(NoHeader, ask_back)}) as (server, address),
        connecting(client_handlers) as connector,
    ):
        answers = await asyncio.gather(*(connector.request(address, 1, body=b"%d" % n) for n in range(10)))
        assert [answer.body for answer in answers] == [b"%d and back and forth" % n for n in range(10)]
        (connection,) = server.connections
        assert (await connection.request(2, body=b"unasked", timeout=5)).body == b"unasked and forth"
        assert (await connection.request(77, timeout=5)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


async def test_no_answer_in_time_is_an_error_that_names_peer_request_and_time() -> None:
    gate = Gate()
    async with serving(gate.handlers()) as (_, address), connecting() as connector:
        await connector.request(address, ECHO)  # the time that it takes to connect counts, too
        message = await ends_with(RequestTimeoutError, connector.request(address, WAIT, timeout=0.2))
        assert re.fullmatch(rf"{address}: no answer to 2 within 0\.(1\d*|2) s", message)
        gate.open.set()  # the late answer disturbs nobody
        assert (await connector.request(address, ECHO, body=b"next")).body == b"next"


async def test_a_dropped_connection_fails_what_is_pending_at_once_and_says_where_and_why() -> None:
    gate = Gate()
    async with serving(gate.handlers()) as (server, address), connecting() as connector:
        await connector.request(address, ECHO)  # a peer that never answered may have or want TLS, and that is said
        tasks = [asyncio.create_task(connector.request(address, WAIT, timeout=60)) for _ in range(5)]
        await eventually(lambda: gate.waiting == 5)
        (connection,) = server.connections
        connection.close("the test wants it")
        messages = [await ends_with(ConnectionLostError, task) for task in tasks]
        assert messages == [f"{address}: closed by the peer"] * 5


async def test_whoever_waits_on_a_connection_that_we_close_hears_the_reason() -> None:
    async with serving() as (server, address), raw_peer(address):
        await eventually(lambda: len(server.connections) == 1)
        (connection,) = server.connections
        pending = asyncio.create_task(connection.request(1, timeout=60))
        await asyncio.sleep(0)
        connection.close("enough")
        assert await ends_with(ConnectionLostError, pending) == f"{connection.peer}: enough"
        assert connection.closed
        assert "enough" in await ends_with(ConnectionLostError, connection.request(1, timeout=60))
        with pytest.raises(ConnectionLostError, match="enough"):
            connection.send_oneway(1)


async def test_a_handler_that_waits_for_a_peer_that_has_gone_is_cancelled() -> None:
    gate = Gate()
    async with serving(gate.handlers()) as (_, address):
        async with raw_peer(address) as peer:
            peer.ask(WAIT)
            await eventually(lambda: gate.waiting == 1)
        await eventually(lambda: gate.cancelled == 1)


async def test_a_handler_that_had_not_begun_when_its_peer_went_leaves_nothing_behind() -> None:
    gate = Gate()
    connection, _ = memory_connection(gate.handlers())
    connection.data_received(encode_request(WAIT, 1))
    connection.connection_lost(None)
    await eventually(lambda: gate.cancelled == 1)


async def test_an_answer_that_nobody_asked_for_is_ignored() -> None:
    async with serving() as (_, address), raw_peer(address) as peer:
        frame = encode_request(ECHO, 12345)
        peer.send(frame.replace(b'"flag":0', b'"flag":1'))
        peer.ask(ECHO, body=b"a real one")
        assert (await peer.answer()).body == b"a real one"


async def test_more_pending_requests_than_the_limit_are_not_sent() -> None:
    gate = Gate()
    config = RemotingConfig(pending_requests_max=3)
    async with serving(gate.handlers()) as (_, address), connecting(config=config) as connector:
        tasks = [asyncio.create_task(connector.request(address, WAIT)) for _ in range(3)]
        await eventually(lambda: gate.waiting == 3)
        message = await ends_with(TooManyRequestsError, connector.request(address, ECHO))
        assert message == f"{address}: 3 requests wait for an answer already"
        gate.open.set()
        await asyncio.gather(*tasks)
        assert (await connector.request(address, ECHO)).code == ResponseCode.SUCCESS


async def test_the_peer_is_told_who_it_is() -> None:
    async with serving() as (server, address), raw_peer(address) as peer:
        await eventually(lambda: len(server.connections) == 1)
        (connection,) = server.connections
        host, port = peer.writer.get_extra_info("sockname")[:2]
        assert connection.peer == f"{host}:{port}"


async def test_ipv6_is_served_too() -> None:
    async with serving(host="::1") as (server, address), connecting() as connector:
        assert address.startswith("[::1]:")
        await connector.request(address, ECHO)
        (connection,) = server.connections
        assert connection.peer.startswith("[::1]:")


async def test_on_close_hears_of_every_connection_that_has_gone(caplog: pytest.LogCaptureFixture) -> None:
    gone: list[Connection] = []

    def on_close(connection: Connection) -> None:
        gone.append(connection)
        raise RuntimeError("even if it fails")

    async with serving(on_close=on_close) as (server, address):
        async with raw_peer(address), raw_peer(address):
            await eventually(lambda: len(server.connections) == 2)
            expected = set(server.connections)
            assert not gone
        await eventually(lambda: set(gone) == expected)
        assert all(connection.closed for connection in gone)
        assert server.statistics().connections == 0

    assert len(warnings(caplog)) == 2


async def test_a_handler_that_returns_a_future_costs_no_task() -> None:
    futures: list[asyncio.Future[Reply]] = []

    def wait(_header: NoHeader, _request: Command, _connection: Connection) -> asyncio.Future[Reply]:
        futures.append(asyncio.get_running_loop().create_future())
        return futures[-1]

    connection, transport = memory_connection({1: Handler(NoHeader, wait)})
    connection.data_received(b"".join(encode_request(1, opaque) for opaque in range(4)))
    assert len(asyncio.all_tasks()) == 1
    futures[2].set_result(Reply(body=b"two"))
    futures[0].set_exception(TooManyRequestsError("no"))
    futures[1].set_exception(KeyError("bug"))
    await eventually(lambda: bool(transport.writes))
    (written,) = transport.writes[0]  # one write for all of them
    answers = {answer.opaque: answer for answer in commands(bytes(written))}
    assert answers[2].body == b"two"
    assert answers[0].remark == "no"
    assert "KeyError" in (answers[1].remark or "")
    connection.connection_lost(None)
    await eventually(futures[3].cancelled)


async def test_a_future_that_is_done_while_the_peer_does_not_read_is_answered_when_it_reads_again() -> None:
    future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    connection, transport = memory_connection({1: Handler(NoHeader, lambda *_: future)})
    connection.data_received(encode_request(1, 7))
    connection.pause_writing()
    future.set_result(Reply(body=b"late"))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not transport.writes
    connection.resume_writing()
    await eventually(lambda: bool(transport.writes))
    (written,) = transport.writes[0]
    assert [answer.body for answer in commands(bytes(written))] == [b"late"]
