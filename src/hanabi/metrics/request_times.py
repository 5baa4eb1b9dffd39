"""Durations of requests by request code: a timer around each handler of a server's table.

Without `--metrics-port` the table has no timers. A reply that comes later (a flush is awaited, a topic saved) is timed
until it is there. A request that is held on purpose, as a pull that waits for messages, is counted and not timed: its
wait says nothing about the server.
"""

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, Final

from hanabi.errors import MQError
from hanabi.metrics.exposition import Sample, labels
from hanabi.metrics.histogram import Histogram
from hanabi.remoting.connection.dispatch import FastPath, Handler, LateAnswers, Reply
from hanabi.wire.codes import ResponseCode, request_name

BOUNDS: Final = (
    *(0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01),
    *(0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)


def _never(_: object) -> bool:
    return False


class RequestTimes:
    """Times and failures by request code. *is_held* recognises answers that wait on purpose."""

    def __init__(self, is_held: Callable[[object], bool] = _never) -> None:
        self._is_held = is_held
        self._times: dict[int, Histogram] = {}
        self._failed: Counter[tuple[int, int]] = Counter()  # by request code and response code
        self.held = 0

    def around(self, code: int, handler: Handler) -> Handler:
        """Return *handler* with a timer around it."""
        times = self._times[code] = Histogram(BOUNDS)
        counts, handle = times.counts, handler.handle

        def timed(header: Any, request: Any, connection: Any) -> Reply | Awaitable[Reply]:
            began = perf_counter()
            try:
                answer = handle(header, request, connection)
            except Exception as error:
                times.add(perf_counter() - began)
                self._count_failure(code, error)
                raise
            if type(answer) is Reply:
                took = perf_counter() - began
                counts[bisect_left(BOUNDS, took)] += 1
                times.seconds += took
                if answer.code:
                    self._failed[code, answer.code] += 1
                return answer
            return self._later(code, times, began, answer)  # type: ignore[arg-type]

        return replace(handler, handle=timed)

    def around_fast_path(self, fast_path: FastPath) -> FastPath:
        """Return *fast_path* with a timer around it."""
        return TimedFastPath(fast_path, [self._times[code] for code in fast_path.codes], self._failed)

    def _later(self, code: int, times: Histogram, began: float, answer: Awaitable[Reply]) -> Awaitable[Reply]:
        if self._is_held(answer):
            self.held += 1
            return answer
        if isinstance(answer, asyncio.Future):
            answer.add_done_callback(lambda done: self._settled(code, times, began, done))
            return answer
        return self._awaited(code, times, began, answer)

    def _settled(self, code: int, times: Histogram, began: float, done: "asyncio.Future[Reply]") -> None:
        if done.cancelled():  # no caller waits for it any more
            return
        times.add(perf_counter() - began)
        error = done.exception()
        if error is not None:
            self._count_failure(code, error)
        elif done.result().code:
            self._failed[code, done.result().code] += 1

    async def _awaited(self, code: int, times: Histogram, began: float, answer: Awaitable[Reply]) -> Reply:
        try:
            reply = await answer
        except Exception as error:
            times.add(perf_counter() - began)
            self._count_failure(code, error)
            raise
        times.add(perf_counter() - began)
        if reply.code:
            self._failed[code, reply.code] += 1
        return reply

    def _count_failure(self, code: int, error: BaseException) -> None:
        self._failed[code, error.code if isinstance(error, MQError) else ResponseCode.SYSTEM_ERROR] += 1

    def series(self, server: str) -> Iterator[tuple[dict[str, object], list[int], float]]:
        """Yield the series for `exposition.histogram`; codes without a request are left out."""
        for code, times in self._times.items():
            counts = times.counts.copy()
            if any(counts):
                yield {"server": server, "request": request_name(code)}, counts, times.seconds

    def failures(self, server: str) -> Iterator[Sample]:
        """Yield the number of replies with a code other than success, for `exposition.counter`."""
        for (request, response), count in list(self._failed.items()):
            yield labels(server=server, request=request_name(request), code=_response_name(response)), count


class TimedFastPath:
    """A short cut that is timed: *times* are those of its codes. Requests that it answers together share the time that
    this took; those whose answers come later wait all for as long."""

    def __init__(self, fast_path: FastPath, times: list[Histogram], failed: Counter[tuple[int, int]]) -> None:
        self.codes, self._times, self._failed = fast_path.codes, times, failed
        self._fast_path = fast_path.__call__  # as a method, which is called faster than its object

    def __call__(self, data: bytes, connection: Any) -> tuple[bytes | LateAnswers | None, int, tuple[int, ...]]:
        began = perf_counter()
        found = answers, _, counts = self._fast_path(data, connection)
        if isinstance(answers, bytes):
            self._add((perf_counter() - began) / sum(counts), counts)
        elif answers is not None:
            answers.add_done_callback(partial(self._settled, began, counts))
        return found

    def _settled(self, began: float, counts: tuple[int, ...], answers: LateAnswers) -> None:
        if answers.cancelled():  # no caller waits for them any more
            return
        self._add(perf_counter() - began, counts)
        response, _ = answers.result()
        if response:
            for code, count in zip(self.codes, counts, strict=True):
                if count:
                    self._failed[code, response] += count

    def _add(self, each: float, counts: tuple[int, ...]) -> None:
        bucket = bisect_left(BOUNDS, each)
        for times, count in zip(self._times, counts):  # noqa: B905 (as long as the codes; strict costs half of it)
            if count:
                times.counts[bucket] += count
                times.seconds += each * count


def _response_name(code: int) -> str:
    member = ResponseCode._value2member_map_.get(code)
    return member.name if isinstance(member, ResponseCode) else str(code)
