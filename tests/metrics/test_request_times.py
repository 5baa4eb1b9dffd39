"""Every request is timed until its answer is there, whichever way the answer comes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hanabi.errors import TopicNotExist
from hanabi.metrics.request_times import RequestTimes
from hanabi.remoting.connection.dispatch import Handler, LateAnswers, Reply
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.header import NoHeader

CODE = RequestCode.SEND_MESSAGE_V2
NOTHING: Any = None  # what a handler is given does not matter here


def timed(times: RequestTimes, handle: Callable[..., Reply | Awaitable[Reply]]) -> Callable[..., Any]:
    return times.around(CODE, Handler(NoHeader, handle)).handle


def count(times: RequestTimes) -> int:
    return sum(sum(counts) for _, counts, _ in times.series("broker"))


def failures(times: RequestTimes) -> dict[str, int | float]:
    return dict(times.failures("broker"))


FAILED = '{server="broker",request="SEND_MESSAGE_V2",code="TOPIC_NOT_EXIST"}'


def test_what_nobody_asked_for_is_not_shown() -> None:
    times = RequestTimes()
    timed(times, lambda *_: Reply())
    assert list(times.series("broker")) == []


@pytest.mark.parametrize("code", [ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST])
def test_an_answer_that_is_there_at_once(code: int) -> None:
    times = RequestTimes()
    assert timed(times, lambda *_: Reply(code))(NOTHING, NOTHING, NOTHING).code == code
    ((labels, _, seconds),) = times.series("broker")
    assert labels == {"server": "broker", "request": "SEND_MESSAGE_V2"}
    assert (count(times), seconds > 0) == (1, True)
    assert failures(times) == ({FAILED: 1} if code else {})


@pytest.mark.parametrize("code", [ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST])
async def test_an_answer_that_is_awaited(code: int) -> None:
    times = RequestTimes()
    flushed = asyncio.Event()

    async def later(*_: object) -> Reply:
        await flushed.wait()
        return Reply(code)

    answer = asyncio.ensure_future(timed(times, later)(NOTHING, NOTHING, NOTHING))
    await asyncio.sleep(0)
    assert count(times) == 0
    flushed.set()
    assert (await answer).code == code

    assert count(times) == 1
    assert failures(times) == ({FAILED: 1} if code else {})


@pytest.mark.parametrize("code", [ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST])
async def test_an_answer_that_is_a_future_stays_one(code: int) -> None:
    times = RequestTimes()
    future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    assert timed(times, lambda *_: future)(NOTHING, NOTHING, NOTHING) is future
    future.set_result(Reply(code))
    await asyncio.sleep(0)

    assert count(times) == 1
    assert failures(times) == ({FAILED: 1} if code else {})


async def test_a_future_that_nobody_waits_for_any_more_is_not_counted_and_one_that_failed_is() -> None:
    times = RequestTimes()
    loop = asyncio.get_running_loop()
    given_up: asyncio.Future[Reply] = loop.create_future()
    failed: asyncio.Future[Reply] = loop.create_future()
    answers = iter((given_up, failed))
    ask = timed(times, lambda *_: next(answers))
    ask(NOTHING, NOTHING, NOTHING)
    ask(NOTHING, NOTHING, NOTHING)
    given_up.cancel()
    failed.set_exception(TopicNotExist("no"))
    await asyncio.sleep(0)

    assert (count(times), failures(times)) == (1, {FAILED: 1})


async def test_what_is_raised_is_counted_and_passed_on() -> None:
    times = RequestTimes()

    def refuse(*_: object) -> Reply:
        raise TopicNotExist("no")

    async def refuse_later(*_: object) -> Reply:
        raise TopicNotExist("no")

    def fail(*_: object) -> Reply:
        raise ZeroDivisionError

    with pytest.raises(TopicNotExist):
        timed(times, refuse)(NOTHING, NOTHING, NOTHING)
    assert (count(times), failures(times)) == (1, {FAILED: 1})
    with pytest.raises(TopicNotExist):
        await timed(times, refuse_later)(NOTHING, NOTHING, NOTHING)
    assert (count(times), failures(times)) == (1, {FAILED: 2})  # a handler anew is counted anew
    with pytest.raises(ZeroDivisionError):
        timed(times, fail)(NOTHING, NOTHING, NOTHING)
    assert sum(failures(times).values()) == 3


async def test_what_is_held_on_purpose_is_counted_apart() -> None:
    times = RequestTimes(is_held=lambda answer: isinstance(answer, asyncio.Future))
    future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    assert timed(times, lambda *_: future)(NOTHING, NOTHING, NOTHING) is future
    future.set_result(Reply())
    await asyncio.sleep(0)

    assert (count(times), times.held) == (0, 1)


class Shortcut:
    """Answers as many frames of each code as *answered* says."""

    codes = (CODE, RequestCode.SEND_BATCH_MESSAGE)

    def __init__(self, *answered: int) -> None:
        self._answered = answered

    def __call__(self, data: bytes, _: object) -> tuple[bytes | None, int, tuple[int, ...]]:
        taken = len(data) if any(self._answered) else 0
        return (b"answer" if taken else None), taken, self._answered


@pytest.mark.parametrize("answered", [(0, 0), (1, 0), (0, 1), (3, 2)])
def test_what_a_short_cut_answers_is_counted_by_its_code(answered: tuple[int, int]) -> None:
    times = RequestTimes()
    for code in Shortcut.codes:
        times.around(code, Handler(NoHeader, lambda *_: Reply()))
    wrapped = times.around_fast_path(Shortcut(*answered))
    assert wrapped(b"data", None) == Shortcut(*answered)(b"data", None)
    counted = {labels["request"]: sum(counts) for labels, counts, _ in times.series("broker")}
    names = ("SEND_MESSAGE_V2", "SEND_BATCH_MESSAGE")
    assert counted == {name: count for name, count in zip(names, answered, strict=True) if count}


@pytest.mark.parametrize("code", [ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST])
async def test_answers_of_a_short_cut_that_come_later_are_timed_until_then_and_all_of_them_counted(code: int) -> None:
    times = RequestTimes()
    timed(times, lambda *_: Reply())

    class Later:
        codes = (int(CODE),)

        def __init__(self) -> None:
            self.answers: list[LateAnswers] = []

        def __call__(self, _: bytes, __: Any, /) -> tuple[LateAnswers, int, tuple[int, ...]]:
            self.answers.append(LateAnswers())
            return self.answers[-1], 100, (3,)

    later = Later()
    wrapped = times.around_fast_path(later)
    wrapped(b"", NOTHING)
    wrapped(b"", NOTHING)
    assert count(times) == 0
    given_up, answered = later.answers
    given_up.cancel()
    answered.set_result((code, b"..."))
    await asyncio.sleep(0)

    assert count(times) == 3
    assert failures(times) == ({FAILED: 3} if code else {})
