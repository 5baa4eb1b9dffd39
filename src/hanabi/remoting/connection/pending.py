"""The requests of one connection that wait for an answer, and the one timer that all of them share.

A timer for each would cost more than all else that a request needs. This one is set for the request whose time is
over first; when it rings it looks at all of them, which with answers that come in time is once in a timeout.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from hanabi.errors import ConnectionLostError, RequestTimeoutError, TransportError
from hanabi.wire.codes import RequestCode, request_name
from hanabi.wire.command import Command

_NEVER: Final = float("inf")
HELD_CODES: Final = frozenset((int(RequestCode.PULL_MESSAGE), int(RequestCode.LITE_PULL_MESSAGE)))  # by long polling
CLOCK_STEP_SECONDS: Final = 0.001  # of uvloop's clock: a timer may ring that much before its time


class Answer(Protocol):
    """The receiver of a request's outcome. A future is one."""

    def done(self) -> bool: ...

    def set_result(self, result: Command, /) -> None: ...

    def set_exception(self, exception: TransportError, /) -> None: ...


class AnswerTo:
    """Calls *ended*, which must not raise, in the turn of the loop in which the answer comes: no task has to wake up
    for it."""

    __slots__ = ("_ended",)

    def __init__(self, ended: Callable[[Command | TransportError], None]) -> None:
        self._ended = ended

    def done(self) -> bool:
        return False

    def set_result(self, result: Command, /) -> None:
        self._ended(result)

    def set_exception(self, exception: TransportError, /) -> None:
        self._ended(exception)


# The answer to come, when its time is over, what was asked, and how long an answer might have taken. No class of its
# own: one is made for every request.
_Waiting: TypeAlias = tuple[Answer, float, int, float]


def _pass(_began: float) -> None:
    """Hear of no request."""


class PendingRequests:
    """By their opaque numbers. *peer* is for errors. *unanswered* is called with the time at which a request began
    that has timed out, or was given up by its caller."""

    __slots__ = ("_loop", "_peer", "_rings_at", "_timer", "_unanswered", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, peer: str, unanswered: Callable[[float], None] = _pass) -> None:
        self._loop, self._peer, self._unanswered = loop, peer, unanswered
        self._waiting: dict[int, _Waiting] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = _NEVER

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, opaque: int, code: int, timeout: float, answer: Answer) -> None:
        """*answer* will be told, if only of a RequestTimeoutError, unless it is `end`ed before."""
        ends = self._loop.time() + timeout
        self._waiting[opaque] = (answer, ends, code, timeout)
        if ends < self._rings_at:
            self._set_timer(ends)

    def end(self, opaque: int) -> Answer | None:
        """Remove and return what waits for this answer; None if nothing does."""
        waiting = self._waiting.pop(opaque, None)
        return None if waiting is None else waiting[0]

    def give_up(self, opaque: int) -> None:
        """Forget a request whose caller does not wait any longer. The peer may have been silent on purpose if it holds
        such requests: a consumer that shuts down, or loses a queue, gives up its pulls on a healthy connection."""
        if (waiting := self._waiting.pop(opaque, None)) is not None:
            _, ends, code, timeout = waiting
            if code not in HELD_CODES:
                self._unanswered(ends - timeout)

    def fail(self, reason: str) -> None:
        """Fail all requests: the connection is lost."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._rings_at = None, _NEVER
        self._unanswered = _pass  # it holds the connection, which holds us: without it both are freed at once
        waiting, self._waiting = self._waiting, {}
        for answer, *_ in waiting.values():
            if not answer.done():
                answer.set_exception(ConnectionLostError(f"{self._peer}: {reason}"))

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._rings_at = self._loop.call_at(at, self._ring), at

    def _ring(self) -> None:
        self._timer, self._rings_at = None, _NEVER
        now = self._loop.time() + CLOCK_STEP_SECONDS
        late = [opaque for opaque, (_, ends, _, _) in self._waiting.items() if ends <= now]
        timed_out = [self._waiting.pop(opaque) for opaque in late]
        if timed_out:  # first: a caller that asks again at once must not get a connection that is dead
            self._unanswered(min(ends - timeout for _, ends, _, timeout in timed_out))
        for answer, _, code, timeout in timed_out:
            if not answer.done():
                answer.set_exception(
                    RequestTimeoutError(f"{self._peer}: no answer to {request_name(code)} within {timeout:.3g} s")
                )
        first = min((ends for _, ends, _, _ in self._waiting.values()), default=_NEVER)
        if first < self._rings_at:
            self._set_timer(first)
