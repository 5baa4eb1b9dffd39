"""Base of producers and consumers: the lifecycle from `start` to `shutdown`.

    start() ──> _join: acquire resources, and register how to release them ──> running
    shutdown() ──> _leave: finish work in flight ──> release, in reverse order

A start that fails, is cancelled, or is overtaken by `shutdown` releases its resources. A client that the program did
not shut down is shut down when its event loop ends (`loop_guard`). Independent of messages.
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
    """Producer or consumer of one group. *kind* is its name in errors: producer or consumer."""

    def __init__(self, kind: str, group: str, config: ClientConfig) -> None:
        self.group, self.config = group, config
        self._wire_group = wrap(config.namespace, group)
        self.what = f"{kind} of group {group}"
        self._loop: asyncio.AbstractEventLoop | None = None  # the loop of the last start
        self._starting: asyncio.Task[None] | None = None
        self._ending: asyncio.Future[None] | None = None
        self._undo: AsyncExitStack | None = None  # while running: cleanup after `_leave`
        self._lost = False  # its event loop was closed while it ran

    @property
    def client_id(self) -> str:
        """Return the id by which brokers know this client."""
        raise NotImplementedError

    async def _join(self, undo: AsyncExitStack) -> None:
        """Acquire resources. *undo* gets the cleanup for a later failure, and for the end."""
        raise NotImplementedError

    async def _leave(self, seconds: float | None) -> None:
        """Finish work in flight, within *seconds* (None: as configured)."""
        raise NotImplementedError

    def _drop(self) -> None:
        """Drop the state of a closed event loop: nothing of it can be finished any more."""
        raise NotImplementedError

    def _loop_closed(self) -> None:
        """Reset to the state before the start: the event loop was closed without `shutdown`."""
        self._starting = self._ending = self._undo = None
        self._lost = True
        self._drop()

    def _not_running(self, what_to_do: str) -> MQError:
        """Return the error for a call that needs a running client."""
        lost = " (its event loop was closed without shutdown())" if self._lost else ""
        return MQError(f"{self.what} is not running{lost}: {what_to_do}")

    async def start(self) -> None:
        """Join the cluster. Raise on failure, and on a concurrent `shutdown`."""
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
        """Undo a start whose caller has given up, whether it is complete or not."""
        starting.cancel()
        await asyncio.wait((starting,))
        if not starting.cancelled():
            starting.exception()  # mark as retrieved: there is no other awaiter
        await self.shutdown(0.0)

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Leave the cluster, whether this runs, starts, or is shut down concurrently."""
        if self._undo is not None and self._loop is not asyncio.get_running_loop():  # we would wait there forever
            raise MQError(f"{self.what} was started in another event loop: shut it down there, before that one ends")
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            await asyncio.wait((self._starting,))
        if self._ending is not None:
            await asyncio.wait((self._ending,))  # a concurrent shutdown ends it
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
