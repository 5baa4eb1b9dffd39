"""Requests of one peer whose handlers have not answered yet, and how many of them a connection takes in.

A connection that waits for too many answers, for too many tasks, or whose requests wait for their turn of the loop,
reads no more until some of these are done.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hanabi.remoting.connection.dispatch import InTurn, LateAnswers, Reply, error_reply, settled
from hanabi.remoting.connection.writing import Piece, Writer
from hanabi.wire.command import Command

if TYPE_CHECKING:
    from hanabi.remoting.connection.endpoint import Endpoint
    from hanabi.remoting.connection.protocol import Connection

logger = logging.getLogger(__name__)

IN_TURN_MAX: Final = 2  # requests of one connection that wait for their turn; a client has one or two at a time


class Answering:
    """The answers that one connection waits for. Tells the connection to pause reading, and to go on.

    Does not hold the connection, which holds this: a lost connection is freed at once, without a garbage collection.
    """

    __slots__ = (
        "_endpoint",
        "_in_turn",
        "_large_bytes",
        "_loop",
        "_pending_max",
        "_tasks",
        "_tasks_max",
        "_unsent_max",
        "_writer",
        "waiting",
    )

    def __init__(self, endpoint: "Endpoint", loop: asyncio.AbstractEventLoop, writer: Writer) -> None:
        config = endpoint.config
        self._endpoint, self._loop, self._writer = endpoint, loop, writer
        self._pending_max, self._tasks_max = config.pending_requests_max, config.waiting_tasks_max
        self._unsent_max = config.write_buffer_bytes_max
        self.waiting: set[asyncio.Future[Any] | LateAnswers] = set()
        self._tasks = 0  # of those, for which a coroutine waits: each takes some kilobytes
        self._large_bytes = 0  # of large answers that are being made
        self._in_turn = 0  # requests that wait for their turn

    @property
    def is_full(self) -> bool:
        """True when no further request can be taken in now."""
        return len(self.waiting) >= self._pending_max or self._tasks >= self._tasks_max or self._in_turn >= IN_TURN_MAX

    def add(self, connection: "Connection", request: Command, answer: Awaitable[Reply]) -> None:
        """Answer *request* when *answer* is there."""
        if not isinstance(answer, asyncio.Future):
            self._add_task(connection, request, answer)
            return
        self._wait_for(connection, answer, partial(self._answer_with, connection, request))
        if isinstance(answer, InTurn):
            self._in_turn += 1
            answer.add_done_callback(partial(self._had_turn, connection))
            if self._in_turn >= IN_TURN_MAX:  # to take in more of them would hold up other connections
                connection.pause_reading()

    def add_together(self, connection: "Connection", answers: LateAnswers) -> None:
        """Write the fast path's *answers* when they are there."""
        self._wait_for(connection, answers, partial(self._write_together, connection))

    def take_large(self, connection: "Connection", size: int) -> bool:
        """Take memory for an answer of *size* bytes. If there is none, the connection is called when there may be."""
        large = self._large_bytes
        if large and large + self._writer.unsent_bytes + size > self._unsent_max:
            return False  # until one of those is written
        return self._endpoint.reply_memory.take(size, connection)

    def give_back_large(self, size: int) -> None:
        """Give back memory whose answer is written already."""
        self._endpoint.reply_memory.give_back(size)

    def add_large(self, connection: "Connection", request: Command, answer: Awaitable[Reply], size: int) -> None:
        """Do as `add`, and give the *size* bytes of `take_large` back when the answer is written, or never will be."""
        self._large_bytes += size
        awaited = settled(answer, request, connection) if isinstance(answer, asyncio.Future) else answer
        self._add_task(connection, request, awaited).add_done_callback(partial(self._made_large, connection, size))

    def _made_large(self, connection: "Connection", size: int, _: asyncio.Task[None]) -> None:
        self._large_bytes -= size
        self.give_back_large(size)
        connection.go_on_if_possible()

    def _had_turn(self, connection: "Connection", _: asyncio.Future[Reply]) -> None:
        self._in_turn -= 1
        if not self._in_turn:
            connection.go_on_if_possible()

    def _wait_for(
        self, connection: "Connection", answer: asyncio.Future[Any] | LateAnswers, then: Callable[[Any], None]
    ) -> None:
        self.waiting.add(answer)
        answer.add_done_callback(then)
        if len(self.waiting) >= self._pending_max:
            connection.pause_reading()

    def _add_task(self, connection: "Connection", request: Command, answer: Awaitable[Reply]) -> asyncio.Task[None]:
        task = self._loop.create_task(self._answer(connection, request, answer))
        self._wait_for(connection, task, partial(self._task_ended, connection))
        self._tasks += 1
        if self._tasks >= self._tasks_max:
            connection.pause_reading()
        return task

    async def _answer(self, connection: "Connection", request: Command, answer: Awaitable[Reply]) -> None:
        reply = await answer
        while (resumed := self._writer.resumed) is not None:
            await asyncio.wait((resumed,))
        self._write(connection, request, reply)

    def _answer_with(self, connection: "Connection", request: Command, future: asyncio.Future[Reply]) -> None:
        """Answer with what *future* brought, at once if the peer reads."""
        if not future.cancelled():
            if self._writer.resumed is not None:
                self._add_task(connection, request, settled(future, request, connection))
            else:
                error = future.exception()
                reply = error_reply(error, request, connection) if isinstance(error, Exception) else future.result()
                self._write(connection, request, reply)
        self._forget(connection, future)

    def _write(self, connection: "Connection", request: Command, reply: Reply) -> None:
        pieces: list[Piece] = []
        self._writer.write_soon(pieces, connection.append_reply(pieces, request, reply))

    def _write_together(self, connection: "Connection", answers: LateAnswers) -> None:
        if not answers.cancelled():
            _, data = answers.result()
            self._writer.write_soon([data], len(data))
        self._forget(connection, answers)

    def _task_ended(self, connection: "Connection", task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            logger.error("%s: an answer could not be sent", connection.peer, exc_info=error)
        self._tasks -= 1
        self._forget(connection, task)
        if self._tasks + 1 == self._tasks_max:
            connection.go_on_if_possible()

    def _forget(self, connection: "Connection", answer: asyncio.Future[Any] | LateAnswers) -> None:
        self.waiting.discard(answer)
        if len(self.waiting) + 1 == self._pending_max:
            connection.go_on_if_possible()
        connection.answered()
