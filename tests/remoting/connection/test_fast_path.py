"""A short cut answers what it knows of what was read; the rest is answered as if there were none, and nothing twice."""

import asyncio
import socket
from contextlib import ExitStack
from typing import Any

import pytest

from hanabi.remoting.address import parse_address
from hanabi.remoting.config import RemotingConfig
from hanabi.remoting.connection.dispatch import LateAnswers
from hanabi.remoting.connection.protocol import SOON_BYTES_MAX
from hanabi.testing.waiting import eventually
from hanabi.wire.command import Command, decode_command, encode_reply_head, encode_request
from hanabi.wire.frame import FrameDecoder
from tests.remoting.peers import ECHO, FAIL, raw_peer, serving

SHORT = 77  # no handler knows it: it is answered by the short cut or not at all


class ShortCut:
    """Answers SHORT with the body, at most *a_call* frames of it a call."""

    codes = (SHORT,)

    def __init__(self, a_call: int = 3) -> None:
        self._a_call = a_call
        self.calls: list[bytes] = []

    def __call__(self, data: bytes, _: Any, /) -> tuple[bytes | None, int, tuple[int, ...]]:
        self.calls.append(data)
        answers, at, count = b"", 0, 0
        while count < self._a_call and len(data) - at >= 4:
            size = int.from_bytes(data[at : at + 4], "big")
            if size > len(data) - at - 4:
                break
            command = decode_command(data[at + 4 : at + 4 + size])
            if command.code != SHORT:
                break
            answers += encode_reply_head(command, 0, body_bytes=len(command.body)) + command.body
            at += 4 + size
            count += 1
        return answers or None, at, (count,)


def asked(*codes: int) -> bytes:
    return b"".join(encode_request(code, opaque, None, b"%d" % opaque) for opaque, code in enumerate(codes))


async def answers(reader: asyncio.StreamReader, count: int) -> dict[int, Command]:
    decoder, found = FrameDecoder(), dict[int, Command]()
    while len(found) < count:
        for frame in decoder.feed(await reader.read(1 << 16)):
            command = decode_command(frame)
            assert command.opaque not in found, "answered twice"
            found[command.opaque] = command
    return found


@pytest.mark.parametrize("codes", [[SHORT] * 10, [SHORT, SHORT, ECHO, ECHO], [ECHO, ECHO], [FAIL, SHORT]])
async def test_each_request_is_answered_once(codes: list[int]) -> None:
    patient = RemotingConfig(turn_seconds_max=60.0)  # what a turn leaves is for the handlers
    async with serving(config=patient) as (server, address), raw_peer(address) as peer:
        server.use_fast_path(ShortCut())
        peer.send(asked(*codes))
        found = await answers(peer.reader, len(codes))
        behind = False  # whether a frame came before that was not for the short cut
        for opaque, code in enumerate(codes):
            behind = behind or code != SHORT
            if code == ECHO or (code == SHORT and not behind):
                assert (found[opaque].code, bytes(found[opaque].body)) == (0, b"%d" % opaque)
            else:
                assert found[opaque].code != 0
        assert server.statistics().requests == len(codes)


async def test_a_peer_that_says_no_more_has_its_answers_still() -> None:
    async with serving() as (server, address), raw_peer(address) as peer:
        server.use_fast_path(ShortCut())
        peer.send(asked(*[SHORT] * 10))
        peer.writer.write_eof()
        assert len(await answers(peer.reader, 10)) == 10
        assert await peer.reader.read() == b""


async def test_what_was_answered_in_a_turn_is_sent_before_the_end_of_the_peer_closes_it() -> None:
    async with serving() as (server, address):
        server.use_fast_path(ShortCut())
        with socket.create_connection(parse_address(address)) as peer:
            await eventually(lambda: server.statistics().connections == 1)
            (connection,) = server.connections
            connection.data_received(asked(SHORT))  # as a loop does that reads both in one turn
            connection.eof_received()
            assert has_data(peer)


@pytest.mark.parametrize(("body_bytes", "at_once"), [(1_000, False), (SOON_BYTES_MAX, True)])
async def test_small_answers_wait_until_all_connections_are_read(body_bytes: int, at_once: bool) -> None:
    class Watching(ShortCut):
        def __call__(self, data: bytes, connection: Any, /) -> tuple[bytes | None, int, tuple[int, ...]]:
            answered.append(any(map(has_data, peers)))
            return super().__call__(data, connection)

    answered: list[bool] = []  # whether one was when the next was read
    peers: list[socket.socket] = []
    async with serving() as (server, address):
        server.use_fast_path(Watching())
        with ExitStack() as stack:
            peers.extend(stack.enter_context(socket.create_connection(parse_address(address))) for _ in range(2))
            await eventually(lambda: server.statistics().connections == 2)
            for peer in peers:
                peer.sendall(encode_request(SHORT, 1, None, bytes(body_bytes)))
            await eventually(lambda: all(map(has_data, peers)))
    assert answered == [False, at_once]


def has_data(peer: socket.socket) -> bool:
    try:
        return bool(peer.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return False


async def test_a_frame_may_come_in_pieces() -> None:
    async with (
        serving(config=RemotingConfig(turn_seconds_max=60.0)) as (server, address),
        raw_peer(address) as peer,
    ):
        server.use_fast_path(ShortCut())
        data = asked(*[SHORT] * 5)
        for at in range(0, len(data), 7):
            peer.send(data[at : at + 7])
            await peer.writer.drain()
            await asyncio.sleep(0)
        assert sorted(await answers(peer.reader, 5)) == [0, 1, 2, 3, 4]
        assert server.statistics().requests == 5


async def test_what_a_turn_leaves_is_answered_by_the_short_cut_in_the_next() -> None:
    # Not by the handlers, which take much longer: whoever is behind once would stay behind.
    async with serving(config=RemotingConfig(turn_seconds_max=0)) as (server, address), raw_peer(address) as peer:
        shortcut = ShortCut()
        server.use_fast_path(shortcut)
        peer.send(asked(*[SHORT] * 10, ECHO, *[SHORT] * 4))
        found = await answers(peer.reader, 15)
        assert {opaque: bytes(command.body) for opaque, command in found.items()} == {
            opaque: b"%d" % opaque for opaque in range(15)
        }
        assert {command.code for command in found.values()} == {0}
        assert server.statistics().requests == 15
        assert len(shortcut.calls) > 15 // 3


async def test_while_the_short_cut_is_behind_others_have_their_turn() -> None:
    async with (
        serving(config=RemotingConfig(turn_seconds_max=0)) as (server, address),
        raw_peer(address) as greedy,
        raw_peer(address) as modest,
    ):
        shortcut = ShortCut(1)
        server.use_fast_path(shortcut)
        greedy.send(asked(*[SHORT] * 2_000))
        await eventually(lambda: bool(shortcut.calls))
        modest.send(asked(SHORT))
        await answers(modest.reader, 1)
        assert len(shortcut.calls) < 1_000
        await answers(greedy.reader, 2_000)


async def test_a_short_cut_that_fails_ends_the_connection_in_every_turn() -> None:
    class Failing(ShortCut):
        def __call__(self, data: bytes, connection: Any, /) -> tuple[bytes | None, int, tuple[int, ...]]:
            if len(self.calls) == 2:
                raise MemoryError("none is left")
            return super().__call__(data, connection)

    told: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    async with serving(config=RemotingConfig(turn_seconds_max=0)) as (server, address), raw_peer(address) as peer:
        server.use_fast_path(Failing())
        peer.send(asked(*[SHORT] * 20))
        await peer.until_closed()
        await eventually(lambda: not server.connections)
        assert [type(error) for error in told] == [MemoryError]


async def test_who_does_not_read_is_not_answered_without_end() -> None:
    config = RemotingConfig(write_buffer_bytes_max=64 * 1024, turn_seconds_max=60)
    async with serving(config=config) as (server, address), raw_peer(address) as peer:
        shortcut = ShortCut(1)
        server.use_fast_path(shortcut)
        body, count = bytes(32 * 1024), 1_000
        for opaque in range(count):
            peer.send(encode_request(SHORT, opaque, None, body))
        await eventually(lambda: any(connection.is_stalled for connection in server.connections))
        assert len(shortcut.calls) < count
        (connection,) = server.connections
        assert connection.unsent_memory < 1 << 20


async def test_a_frame_over_the_limit_is_refused_all_the_same() -> None:
    config = RemotingConfig(frame_bytes_max=10_000)
    async with serving(config=config) as (server, address), raw_peer(address) as peer:
        server.use_fast_path(ShortCut())
        peer.send(asked(SHORT) + (1 << 30).to_bytes(4, "big"))
        assert sorted(await answers(peer.reader, 1)) == [0]
        await peer.until_closed()
        assert server.statistics().protocol_errors == 1


class Later(ShortCut):
    """Answers as `ShortCut`, but only when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[LateAnswers, bytes]] = []

    def __call__(self, data: bytes, connection: Any, /) -> tuple[Any, int, tuple[int, ...]]:
        answers, taken, counts = super().__call__(data, connection)
        if answers is None:
            return None, 0, (0,)
        later = LateAnswers()
        self.waiting.append((later, answers))
        return later, taken, counts

    def tell(self) -> None:
        waiting, self.waiting = self.waiting, []
        for later, answers in waiting:
            later.set_result((0, answers))


async def test_answers_may_come_later_and_what_follows_does_not_wait_for_them() -> None:
    async with serving() as (server, address), raw_peer(address) as peer:
        server.use_fast_path(shortcut := Later())
        peer.send(asked(*[SHORT] * 7, ECHO))
        assert sorted(await answers(peer.reader, 1)) == [7]
        assert len(shortcut.waiting) == 3
        shortcut.tell()
        assert sorted(await answers(peer.reader, 7)) == list(range(7))
        assert server.statistics().requests == 8


async def test_who_stops_sends_the_answers_that_are_still_to_come() -> None:
    async with serving() as (server, address), raw_peer(address) as peer:
        server.use_fast_path(shortcut := Later())
        peer.send(asked(SHORT, SHORT))
        await eventually(lambda: bool(shortcut.waiting))
        stopping = asyncio.ensure_future(server.stop(60.0))
        await asyncio.sleep(0.05)
        assert not stopping.done()
        shortcut.tell()
        assert sorted(await answers(peer.reader, 2)) == [0, 1]
        await peer.until_closed()
        await stopping


async def test_nobody_waits_for_the_answers_of_who_is_gone() -> None:
    async with serving() as (server, address), raw_peer(address) as peer:
        server.use_fast_path(shortcut := Later())
        peer.send(asked(SHORT))
        await eventually(lambda: bool(shortcut.waiting))
        peer.writer.close()
        await eventually(lambda: not server.connections)
        await eventually(lambda: shortcut.waiting[0][0].cancelled())


async def test_while_too_many_answers_are_to_come_nothing_more_is_read() -> None:
    config = RemotingConfig(pending_requests_max=2)
    async with serving(config=config) as (server, address), raw_peer(address) as peer:
        server.use_fast_path(shortcut := Later())
        peer.send(asked(*[SHORT] * 9))
        await eventually(lambda: len(shortcut.waiting) == 2)
        await asyncio.sleep(0.05)
        assert len(shortcut.waiting) == 2
        shortcut.tell()
        assert sorted(await answers(peer.reader, 6)) == list(range(6))
        await eventually(lambda: len(shortcut.waiting) == 1)
        shortcut.tell()
        assert sorted(await answers(peer.reader, 3)) == [6, 7, 8]
