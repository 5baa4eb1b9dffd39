"""Whoever takes part in a cluster: what producers and consumers have in common between `start` and `shutdown`.

    start() ──> _join: acquire what is needed, and say how to undo it ──> running
    shutdown() ──> _leave: finish what is under way ──> undo, last things first

A start that fails, is cancelled, or is overtaken by `shutdown` undoes what it had begun. What a program forgot is shut
down when its event loop ends (`loop_guard`). Knows nothing of messages.
"""

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Self

from hanabi.client.config import ClientConfig
from hanabi.client.loop_guard import LoopGuard
from hanabi.client.namespace import wrap
from hanabi.errors import MQError


class Participant:
    """For one group. *kind* is how errors call it: producer or consumer."""

    def __init__(self, kind: str, group: str, config: ClientConfig) -> None:
        self.group, self.config = group, config
        self._wire_group = wrap(config.namespace, group)
        self.what = f"{kind} of group {group}"
        self._loop: asyncio.AbstractEventLoop | None = None  # where it was last started
        self._starting: asyncio.Task[None] | None = None
        self._ending: asyncio.Future[None] | None = None
        self._undo: AsyncExitStack | None = None  # while it runs: what is left to do after `_leave`
        self._lost = False  # its event loop was closed while it ran

    @property
    def client_id(self) -> str:
        """The id by which brokers know this client."""
        raise NotImplementedError

    async def _join(self, undo: AsyncExitStack) -> None:
        """Begin. *undo* gets what must be done when this fails later, and at the end."""
        raise NotImplementedError

    async def _leave(self, seconds: float | None) -> None:
        """Finish what is under way, within so many *seconds* (None: as the settings say)."""
        raise NotImplementedError

    def _drop(self) -> None:
        """Forget what ran in an event loop that is closed: nothing of it can be finished any more."""
        raise NotImplementedError

    def _loop_closed(self) -> None:
        """The event loop was closed without `shutdown`: be as if never started."""
        self._starting = self._ending = self._undo = None
        self._lost = True
        self._drop()

    def _not_running(self, what_to_do: str) -> MQError:
        """The error for a call that needs the cluster."""
        lost = " (its event loop was closed without shutdown())" if self._lost else ""
        return MQError(f"{self.what} is not running{lost}: {what_to_do}")

    async def start(self) -> None:
        """Take part. Raises what keeps it from that; `shutdown` meanwhile does."""
        if self._starting is not None and self._loop is not None and self._loop.is_closed():
            self._loop_closed()
        if self._starting is not None or self._ending is not None or self._undo is not None:
            raise MQError(f"{self.what} is started already")
        self._loop, self._lost = asyncio.get_running_loop(), False
        self._starting = task = asyncio.create_task(self._begin(), name=f"{self.what} starts")
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            await self._interrupt(task)
            raise
        finally:
            self._starting = None
        if not task.cancelled():
            task.result()
        if self._undo is None:
            raise MQError(f"{self.what} was shut down before it had started: start() it again if it is still wanted")

    async def _begin(self) -> None:
        async with AsyncExitStack() as undo:
            await self._join(undo)
            undo.push_async_callback(LoopGuard(self.what, partial(self.shutdown, 0.0), self._loop_closed).end)
            self._undo = undo.pop_all()

    async def _interrupt(self, starting: "asyncio.Task[None]") -> None:
        """Whoever waited for the start has given up: undo it, be it half done or just done."""
        starting.cancel()
        await asyncio.wait((starting,))
        if not starting.cancelled():
            starting.exception()  # looked at: nobody else will
        await self.shutdown(0.0)

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Take part no more, whether it runs, starts, or is ended by somebody else at the same time."""
        if self._undo is not None and self._loop is not asyncio.get_running_loop():  # we would wait there forever
            raise MQError(f"{self.what} was started in another event loop: shut it down there, before that one ends")
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            await asyncio.wait((self._starting,))
        if self._ending is not None:
            await asyncio.wait((self._ending,))  # somebody else ends it
            return
        undo, self._undo = self._undo, None
        if undo is None:
            return
        self._ending = ending = asyncio.get_running_loop().create_future()
        try:
            async with undo:
                await self._leave(timeout)
        finally:
            self._ending = None
            ending.set_result(None)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.shutdown()
