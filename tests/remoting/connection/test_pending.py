"""Requests that wait for their answers share one timer, and each has its own time nevertheless."""

import asyncio
from functools import partial

import pytest

from hanabi.errors import ConnectionLostError, RequestTimeoutError, TransportError
from hanabi.remoting.connection.pending import AnswerTo, PendingRequests
from hanabi.testing.waiting import eventually
from hanabi.wire.codes import ResponseCode
from hanabi.wire.command import Command
from tests.remoting.peers import ECHO, WAIT, Gate, connecting, serving


async def test_each_request_ends_at_its_own_time() -> None:
    loop = asyncio.get_running_loop()
    pending, began = PendingRequests(loop, "peer:1"), loop.time()
    seconds = (0.9, 0.03, 0.45, 0.03)  # far apart: a machine that is late ends together what is near
    ended: dict[int, float] = {}
    futures: list[asyncio.Future[Command]] = []

    def note(opaque: int, _: asyncio.Future[Command]) -> None:
        ended[opaque] = loop.time() - began

    for opaque, timeout in enumerate(seconds):
        future: asyncio.Future[Command] = loop.create_future()
        future.add_done_callback(partial(note, opaque))
        pending.begin(opaque, 310, timeout, future)
        futures.append(future)
    await asyncio.wait(futures)
    for future, timeout in zip(futures, seconds, strict=True):
        with pytest.raises(RequestTimeoutError, match=rf"peer:1: no answer to SEND_MESSAGE_V2 within {timeout:g} s"):
            future.result()
    assert all(timeout - 0.01 <= ended[opaque] for opaque, timeout in enumerate(seconds)), ended
    assert ended[0] > ended[2] > ended[1], ended
    assert not len(pending)


async def test_an_answer_in_time_is_no_timeout_later_and_none_is_told_twice() -> None:
    loop = asyncio.get_running_loop()
    pending = PendingRequests(loop, "peer:1")
    told: list[Command | TransportError] = []
    pending.begin(1, 310, 0.02, AnswerTo(told.append))
    pending.begin(2, 310, 0.04, AnswerTo(told.append))
    answer = pending.end(1)
    assert answer is not None
    answer.set_result(Command(code=0, opaque=1))
    assert pending.end(1) is None
    await eventually(lambda: len(told) == 2)
    assert [type(each) for each in told] == [Command, RequestTimeoutError]
    pending.fail("gone")
    assert len(told) == 2


async def test_what_begins_while_others_fail_waits_for_an_answer_of_its_own() -> None:
    loop = asyncio.get_running_loop()
    pending = PendingRequests(loop, "peer:1")
    second: asyncio.Future[Command | TransportError] = loop.create_future()

    def again(_: Command | TransportError) -> None:
        pending.begin(2, 310, 0.02, AnswerTo(second.set_result))

    pending.begin(1, 310, 0.02, AnswerTo(again))
    assert isinstance(await asyncio.wait_for(second, 30), RequestTimeoutError)
    assert not len(pending)


async def test_who_asks_at_once_is_told_in_the_turn_in_which_the_answer_comes() -> None:
    gate = Gate()
    async with serving(gate.handlers()) as (server, address), connecting() as connector:
        told: asyncio.Queue[Command | TransportError] = asyncio.Queue()
        assert not connector.ask_at_once(address, ECHO, None, b"1", 5, told.put_nowait)  # not connected yet
        await connector.request(address, ECHO)
        assert connector.ask_at_once(address, ECHO, None, b"2", 5, told.put_nowait)
        answer = await asyncio.wait_for(told.get(), 30)
        assert isinstance(answer, Command)
        assert (answer.code, answer.body) == (ResponseCode.SUCCESS, b"2")
        assert connector.ask_at_once(address, WAIT, None, b"", 0.03, told.put_nowait)
        assert isinstance(await asyncio.wait_for(told.get(), 30), RequestTimeoutError)
        assert connector.ask_at_once(address, WAIT, None, b"", 60, told.put_nowait)
        gate.open.set()
        assert isinstance(await asyncio.wait_for(told.get(), 30), Command)
        gate.open.clear()
        assert connector.ask_at_once(address, WAIT, None, b"", 60, told.put_nowait)
        await server.stop(0.0)
        assert isinstance(await asyncio.wait_for(told.get(), 30), ConnectionLostError)
        assert not connector.ask_at_once(address, ECHO, None, b"3", 5, told.put_nowait)
        assert told.empty()
