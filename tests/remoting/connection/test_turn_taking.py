"""Work that can wait shares one allowance for each iteration of the loop."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from hanabi.broker.handlers.yielding import PIECE_SECONDS_MAX, Yielder
from hanabi.errors import BrokerError, SystemBusy
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.turns import TURN_SECONDS, WAITING_BYTES_MAX, Turns, with_turns
from hanabi.wire.codes import RequestCode
from hanabi.wire.header import NoHeader
from tests.broker.talk import connected, serving


class Loop:
    """Iterations that a test begins, and a clock that stands still until work takes time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._next: list[Callable[[], None]] = []
        self.turns = Turns(self._next.append, lambda: self.now)
        self.done: list[str] = []

    def work(self, name: str, seconds: float) -> Callable[[], Reply]:
        def work() -> Reply:
            self.now += seconds
            self.done.append(name)
            return Reply(remark=name)

        return work

    def iterate(self) -> None:
        calls, self._next[:] = list(self._next), []
        for call in calls:
            call()


async def result(answer: Reply | Awaitable[Reply]) -> str | None:
    return (answer if isinstance(answer, Reply) else await answer).remark


async def test_work_beyond_the_allowance_waits_for_later_iterations_in_order() -> None:
    loop = Loop()
    answers = [loop.turns.run(0, loop.work(name, TURN_SECONDS * 0.6)) for name in "abcde"]
    assert loop.done == ["a", "b"]
    loop.iterate()
    assert loop.done == ["a", "b", "c", "d"]
    loop.iterate()
    assert [await result(answer) for answer in answers] == ["a", "b", "c", "d", "e"]
    loop.iterate()
    assert isinstance(loop.turns.run(0, loop.work("f", 0.0)), Reply)  # nothing waits: at once


async def test_a_failure_of_work_that_waited_is_its_own() -> None:
    loop = Loop()
    loop.turns.run(0, loop.work("long", 1.0))

    def fail() -> Reply:
        raise BrokerError("no")

    failed, after = loop.turns.run(0, fail), loop.turns.run(0, loop.work("after", 0.0))
    loop.iterate()
    with pytest.raises(BrokerError, match="no"):
        await result(failed)
    assert await result(after) == "after"


async def test_work_of_a_connection_that_is_gone_is_not_done() -> None:
    loop = Loop()
    loop.turns.run(0, loop.work("long", 1.0))
    waiting = loop.turns.run(0, loop.work("gone", 0.0))
    assert isinstance(waiting, asyncio.Future)
    waiting.cancel()
    loop.iterate()
    assert loop.done == ["long"]


async def test_more_than_may_wait_is_refused_as_busy() -> None:
    loop = Loop()
    loop.turns.run(0, loop.work("long", 1.0))
    waiting = loop.turns.run(WAITING_BYTES_MAX, loop.work("large", 0.0))
    with pytest.raises(SystemBusy, match="wait for their turn"):
        loop.turns.run(1, loop.work("more", 0.0))
    loop.iterate()
    assert await result(waiting) == "large"
    loop.iterate()
    assert await result(loop.turns.run(1, loop.work("more", 0.0))) == "more"


async def test_many_handlers_with_many_steps_take_one_piece_of_an_iteration_together() -> None:
    loop = Loop()

    async def steps() -> None:
        pace = Yielder(lambda: loop.now, loop.turns)
        for _ in range(10):
            await pace.pause()
            loop.now += PIECE_SECONDS_MAX / 2

    handlers = [asyncio.create_task(steps()) for _ in range(100)]
    longest = 0.0
    while not all(handler.done() for handler in handlers):
        before = loop.now
        await asyncio.sleep(0)
        loop.iterate()
        longest = max(longest, loop.now - before)
    assert loop.now == pytest.approx(100 * 10 * PIECE_SECONDS_MAX / 2)
    assert longest <= TURN_SECONDS + 2 * PIECE_SECONDS_MAX


def test_steps_are_spread_over_iterations() -> None:
    loop = Loop()
    taken: list[int] = []

    def steps() -> Iterator[None]:
        for number in range(5):
            loop.now += TURN_SECONDS * 0.6
            taken.append(number)
            yield

    loop.turns.spread(steps())
    assert taken == [0, 1]
    loop.iterate()
    assert taken == [0, 1, 2, 3]
    loop.iterate()
    assert taken == [0, 1, 2, 3, 4]


async def test_a_request_that_waits_for_its_turn_is_answered_to_its_peer() -> None:
    handled: list[bytes] = []

    def handle(_header: NoHeader, request: object, _connection: object) -> Reply:
        handled.append(b"x")
        return Reply(body=b"%d" % len(handled))

    table = with_turns({RequestCode.HEART_BEAT: Handler(NoHeader, handle)})
    async with serving(table) as address, connected(address) as peer:
        answers = await asyncio.gather(*(peer.start(RequestCode.HEART_BEAT) for _ in range(500)))
        assert sorted(int(bytes(answer.body)) for answer in answers) == list(range(1, 501))
