"""Calls of a listener: a `def` runs in a thread, an `async def` as a task. Both report their result to the loop.

Independent of queues, offsets and retries.
"""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, Protocol, cast

from hanabi.client.consumer.listening.listener import Listener, ReturnCheck, is_async, refuse_coroutine
from hanabi.client.consumer.listening.listener_threads import ListenerThreads
from hanabi.message import StoredMessage

Ended = Callable[[BaseException | None], None]

# Owner of the listener that runs in this context; None outside listeners. Each call has its own context.
IN_LISTENER: ContextVar[object] = ContextVar("hanabi_in_listener", default=None)

_CANCEL_S: Final = 1.0  # time for a cancelled listener to end


class ListenerRuns(Protocol):
    """Calls of one listener. `start` never calls *ended* itself: that happens in a later loop iteration."""

    def start(self, messages: list[StoredMessage], ended: Ended) -> object:
        """Call the listener, then *ended* with the exception it raised, or None. Return the handle for `stop`."""
        ...

    def stop(self, run: object) -> bool:
        """Try to end this call; False where that is impossible, as with threads."""
        ...

    async def close(self, seconds: float) -> bool:
        """End everything; False if a call did not end in time and is left behind."""
        ...


def listener_runs(listener: Listener, concurrency: int, name: str, owner: object = None) -> ListenerRuns:
    """Return the runner for this *listener*. Call it in the loop. `IN_LISTENER` is *owner* during a call."""
    if is_async(listener):
        return _TaskRuns(cast(Callable[[list[StoredMessage]], Awaitable[Any]], listener), name, owner)
    return _ThreadRuns(listener, concurrency, name, owner)


class _TaskRuns:
    """Runner with one task per call, so that context set by one call does not reach the next."""

    def __init__(self, listener: Callable[[list[StoredMessage]], Awaitable[Any]], name: str, owner: object) -> None:
        self._listener, self._name, self._owner, self._returned = listener, name, owner, ReturnCheck(name)
        self._create_task = asyncio.get_running_loop().create_task
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, messages: list[StoredMessage], ended: Ended) -> object:
        task = self._create_task(self._call(messages), name=self._name)
        self._tasks.add(task)
        task.add_done_callback(partial(self._done, ended))
        return task

    async def _call(self, messages: list[StoredMessage]) -> None:
        IN_LISTENER.set(self._owner)
        self._returned.check(await self._listener(messages))

    def _done(self, ended: Ended, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if task.cancelled():
            ended(asyncio.CancelledError("the listener was cancelled"))
        else:
            ended(task.exception())

    def stop(self, run: object) -> bool:
        return isinstance(run, asyncio.Task) and run.cancel("it took too long")

    async def close(self, seconds: float) -> bool:
        if not self._tasks:
            return True
        _, unfinished = await asyncio.wait(self._tasks, timeout=seconds)
        if not unfinished:
            return True
        for task in unfinished:
            task.cancel("the consumer is shut down")
        await asyncio.wait(unfinished, timeout=_CANCEL_S)
        return False


class _ThreadRuns:
    """Runner with one thread per call, from a limited pool."""

    def __init__(
        self, listener: Callable[[list[StoredMessage]], Any], concurrency: int, name: str, owner: object
    ) -> None:
        self._listener, self._owner, self._returned = listener, owner, ReturnCheck(name)
        self._threads = ListenerThreads(concurrency, name)

    def start(self, messages: list[StoredMessage], ended: Ended) -> object:
        self._threads.submit(partial(contextvars.copy_context().run, self._call, messages), ended)
        return None

    def _call(self, messages: list[StoredMessage]) -> None:
        IN_LISTENER.set(self._owner)
        returned = self._listener(messages)
        if returned is not None:
            refuse_coroutine(returned)
            self._returned.check(returned)

    def stop(self, run: object) -> bool:
        return False

    async def close(self, seconds: float) -> bool:
        return await self._threads.close(seconds)
