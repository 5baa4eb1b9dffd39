"""Large answers: bounded in bytes while they are made, for one connection and for all, and nobody is passed over."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from hanabi.remoting.config import RemotingConfig
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.connection.reply_memory import ReplyMemory
from hanabi.testing.waiting import eventually
from hanabi.wire.codes import ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.frame import FRAME_BYTES_MAX
from hanabi.wire.header import NoHeader
from tests.remoting.peers import (
    ECHO,
    HANDLERS,
    WAIT,
    Gate,
    NumberHeader,
    connecting,
    raw_peer,
    serving,
    warnings,
)

LARGE, TOO_LONG, SMALL = 20, 21, 22
MEGABYTE = 1 << 20
LIMITS = RemotingConfig(write_buffer_bytes_max=2 * MEGABYTE, answers_total_bytes_max=6 * MEGABYTE)


class Maker:
    """Makes answers of a megabyte, each when the test lets it. `most` is how many were under way at once."""

    def __init__(self) -> None:
        self.under_way = self.most = self.begun = 0
        self.peers: list[str] = []
        self.steps = asyncio.Semaphore(0)

    async def handle(self, _: NoHeader, __: Command, connection: Connection) -> Reply:
        self.begun += 1
        self.peers.append(connection.peer)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self.steps.acquire()
        finally:
            self.under_way -= 1
        return Reply(body=bytes(MEGABYTE))

    def handlers(self) -> dict[int, Handler]:
        return {**HANDLERS, LARGE: Handler(NoHeader, self.handle, answer_bytes=lambda _: MEGABYTE)}

    def let_all(self) -> None:
        for _ in range(1_000):
            self.steps.release()


async def test_a_connection_that_asks_for_much_at_once_gets_it_piece_by_piece() -> None:
    maker = Maker()
    async with serving(maker.handlers(), LIMITS) as (_, address), raw_peer(address) as peer:
        for opaque in range(50):
            peer.ask(LARGE, opaque)
        peer.ask(ECHO, 50)
        await eventually(lambda: maker.begun == 2)
        maker.let_all()
        answers = [await peer.answer() for _ in range(51)]
        assert sorted(answer.opaque for answer in answers) == list(range(51))
        assert maker.most == 2
        assert 50 in [answer.opaque for answer in answers[-3:]]  # in its turn


async def test_all_connections_together_have_a_bound_and_those_behind_it_are_served_in_order() -> None:
    maker = Maker()
    async with serving(maker.handlers(), LIMITS) as (_, address), AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(raw_peer(address)) for _ in range(10)]
        for peer in peers:
            peer.ask(ECHO, 0)
            await peer.answer()
        for peer in peers:  # the first three fill the space, the others are in line
            peer.ask(LARGE, 1)
            peer.ask(LARGE, 2)
        await eventually(lambda: maker.begun == 6)
        async with connecting() as connector:
            assert (await connector.request(address, ECHO, timeout=60)).code == ResponseCode.SUCCESS
        assert maker.under_way == 6
        maker.let_all()
        for peer in peers:
            assert {(await peer.answer()).opaque for _ in range(2)} == {1, 2}
        assert maker.most == 6
        assert all(maker.peers.count(peer) == 2 for peer in set(maker.peers))
        assert len(set(maker.peers[6:13])) == 7  # each of the others has one before any has two


async def test_a_small_answer_does_not_wait_for_the_large_ones_of_others() -> None:
    async def small(_: NoHeader, __: Command, ___: Connection) -> Reply:
        return Reply()

    maker = Maker()
    handlers = {**maker.handlers(), SMALL: Handler(NoHeader, small, answer_bytes=lambda _: 1000)}
    async with serving(handlers, LIMITS) as (_, address), AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(raw_peer(address)) for _ in range(5)]
        for peer in peers:
            peer.ask(LARGE, 1)
            peer.ask(LARGE, 2)
        await eventually(lambda: maker.begun == 6)
        async with connecting() as connector:
            assert (await connector.request(address, SMALL, timeout=60)).code == ResponseCode.SUCCESS
        assert maker.under_way == 6
        maker.let_all()
        for peer in peers:
            assert {(await peer.answer()).opaque for _ in range(2)} == {1, 2}


def test_small_answers_have_a_bound_too() -> None:
    class Owner:
        def go_on_if_possible(self) -> None:
            pass

    space = ReplyMemory(64 * MEGABYTE)
    taken = [space.take(64 << 10, Owner()) for _ in range(100)]
    assert taken == [True] * 64 + [False] * 36
    assert space.taken == 4 * MEGABYTE


async def test_a_connection_that_waits_in_line_is_not_idle() -> None:
    maker = Maker()
    async with serving(maker.handlers(), LIMITS) as (server, address), AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(raw_peer(address)) for _ in range(4)]
        for peer in peers:
            peer.ask(ECHO, 0)
            await peer.answer()
        for peer in peers:
            for opaque in range(3):  # one more than its space allows, so it is not read
                peer.ask(LARGE, opaque)
        await eventually(lambda: maker.begun == 6)
        later = asyncio.get_running_loop().time() + 10 * LIMITS.idle_seconds
        for connection in server.connections:
            connection.check(later)
        maker.let_all()
        for peer in peers:
            assert {(await peer.answer()).opaque for _ in range(3)} == {0, 1, 2}


async def test_a_connection_that_goes_away_in_line_or_under_way_leaves_its_space_to_others() -> None:
    maker = Maker()
    async with serving(maker.handlers(), LIMITS) as (server, address), raw_peer(address) as last:
        async with AsyncExitStack() as stack:
            for _ in range(5):
                peer = await stack.enter_async_context(raw_peer(address))
                peer.ask(LARGE, 1)
                peer.ask(LARGE, 2)
            await eventually(lambda: maker.begun == 6)
            last.ask(LARGE, 3)
        await eventually(lambda: server.statistics().connections == 1)
        maker.let_all()
        assert (await last.answer()).opaque == 3


async def test_one_answer_larger_than_the_bound_is_made_alone() -> None:
    maker = Maker()
    limits = RemotingConfig(write_buffer_bytes_max=1000, answers_total_bytes_max=1000)
    maker.let_all()
    async with serving(maker.handlers(), limits) as (_, address), AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(raw_peer(address)) for _ in range(3)]
        for peer in peers:
            for opaque in range(3):
                peer.ask(LARGE, opaque)
        for peer in peers:
            assert [(await peer.answer()).opaque for _ in range(3)] == [0, 1, 2]
        assert maker.most == 1


async def test_a_header_that_cannot_be_read_or_a_failure_takes_no_space() -> None:
    async def fails(_: NumberHeader, __: Command, ___: Connection) -> Reply:
        raise RuntimeError("as planned")

    handlers = {LARGE: Handler(NumberHeader, fails, answer_bytes=lambda header: header.number)}
    limits = RemotingConfig(answers_total_bytes_max=1000)
    async with serving(handlers, limits) as (_, address), connecting() as connector:
        for fields in ({"number": "600"}, {"number": "x"}) * 3:
            assert (await connector.request(address, LARGE, fields, timeout=60)).code == ResponseCode.SYSTEM_ERROR


async def test_an_answer_that_no_client_would_read_is_an_error_that_says_so(caplog: pytest.LogCaptureFixture) -> None:
    def too_long(_: NoHeader, __: Command, ___: Connection) -> Reply:
        return Reply(body=bytes(FRAME_BYTES_MAX))

    async with serving({TOO_LONG: Handler(NoHeader, too_long)}) as (_, address), connecting() as connector:
        reply = await connector.request(address, TOO_LONG, timeout=60)
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert f"limit {FRAME_BYTES_MAX}: ask for less at once" in (reply.remark or "")
        assert "and clients read 16777216" in warnings(caplog)[0]


async def test_a_connection_is_not_read_from_while_too_many_coroutines_wait_for_it() -> None:
    gate = Gate()
    config = RemotingConfig(waiting_tasks_max=10)
    async with serving(gate.handlers(), config) as (_, address), raw_peer(address) as peer:
        for opaque in range(100):
            peer.ask(WAIT, opaque)
        await eventually(lambda: gate.waiting == 10)
        async with connecting() as connector:
            await connector.request(address, ECHO, timeout=60)
        assert gate.waiting == 10
        gate.open.set()
        assert [(await peer.answer()).opaque for _ in range(100)] == list(range(100))


async def test_the_first_in_line_is_not_overtaken_by_what_would_fit() -> None:
    class Owner:
        def __init__(self, name: str, size: int) -> None:
            self.name, self.size = name, size

        def go_on_if_possible(self) -> None:
            if space.take(self.size, self):
                served.append(self.name)

    space, served = ReplyMemory(9), list[str]()
    first, large, small = Owner("first", 6), Owner("large", 9), Owner("small", 1)
    for owner in (first, large, small):
        owner.go_on_if_possible()
    assert served == ["first"]
    for expected in (["first", "large"], ["first", "large", "small"]):
        space.give_back(6 if len(expected) == 2 else 9)
        for _ in range(5):
            await asyncio.sleep(0)
        assert served == expected
    assert space.taken == 1
