"""Lifetime of one blocking object: the loop thread of its calls, from each start to its shutdown.

The asyncio object does the work; this passes calls to its loop. Any number of threads may start it and shut it down at
once: the loop, which serializes them, decides the order. An object that was made before a fork and not started yet
starts in the child like any other; one that was started belongs to the parent.
"""

import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from hanabi.client.blocking.loop_thread import Begin, LoopThread
from hanabi.errors import BlockingCallError, MQError

T = TypeVar("T")


class Run(Protocol):
    """Signature of `LoopThread.run`."""

    def __call__(
        self, coroutine: Coroutine[Any, Any, Any], unclaimed: Callable[[Any], None] | None = None, /
    ) -> Any: ...


class _Life:
    """One start, and the state until its shutdown. `ended` belongs to the loop: a shutdown has been called."""

    def __init__(self, thread: LoopThread) -> None:
        self.thread = thread
        self.ended = False


class Lifetime:
    """`run` passes a coroutine to the loop and waits for it. *what* names the object in errors."""

    def __init__(self, what: str) -> None:
        self._what = what
        self.on_end: Callable[[], object] = lambda: None  # called in the thread that ends it
        self._changing = threading.Lock()
        self._life: _Life | None = None
        # These are those of the loop thread while started.
        self.run: Run = self._refuse
        self.run_short: Callable[[Begin[Any]], Any] = self._refuse_short
        self.submit: Callable[[Begin[Any]], Future[Any]] = self._refuse_short

    def _refuse(self, coroutine: Coroutine[Any, Any, Any], unclaimed: object = None) -> Any:
        coroutine.close()
        return self._refuse_short()

    def _refuse_short(self, begin: object = None) -> Any:
        raise MQError(f"{self._what} is not running: use `with`, or start() it, and not after shutdown()")

    @property
    def in_loop_thread(self) -> bool:
        """Return True in the event loop's own thread, where a call cannot wait."""
        life = self._life
        return life is not None and life.thread.is_current

    @property
    def is_running(self) -> bool:
        return self._life is not None

    def start(
        self, start: Callable[[], Coroutine[Any, Any, T]], shutdown: Callable[[float], Coroutine[Any, Any, object]]
    ) -> T:
        """Run *start* on the loop. If the program does not shut it down, *shutdown* runs at interpreter exit, with its
        timeout in seconds.
        """
        thread = LoopThread.acquire()  # held for this call: a concurrent shutdown does not end the loop
        try:
            life = self._begin(thread)
            thread.opened(life, shutdown)
            return self._started(life, start, shutdown)
        finally:
            thread.release()

    def _begin(self, thread: LoopThread) -> _Life:
        with self._changing:
            if self._life is not None:
                self._life.thread.must_be_able_to_wait()  # raises in a child of the process that started it
                raise MQError(f"{self._what} is started already")
            self._life = _Life(LoopThread.acquire())  # until `_end`
            return self._life

    def _started(
        self,
        life: _Life,
        start: Callable[[], Coroutine[Any, Any, T]],
        shutdown: Callable[[float], Coroutine[Any, Any, object]],
    ) -> T:
        async def begin() -> T:
            if life.ended:
                raise MQError(f"{self._what} was shut down before it had started")
            return await start()

        try:
            started = life.thread.run(begin())
        except BaseException:
            with contextlib.suppress(BlockingCallError):  # the loop has ended, and everything on it
                life.thread.run(shutdown(0.0))  # a signal may have come just after the start was done
            self._end(life)
            raise
        self._carry(life)
        return started

    def shutdown(self, shutdown: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Run *shutdown* on the loop. Calling it again does nothing."""
        life = self._life
        if life is None:
            return

        async def end() -> None:
            life.ended = True
            await shutdown()

        if not life.thread.has_ended:  # an ended loop has shut us down
            try:
                life.thread.run(end())
            except BlockingCallError:
                if self._life is life:
                    raise  # not allowed in this thread: it must be called where it can wait
                return  # another thread was faster, and has ended the loop too
            except BaseException:
                self._end(life)
                raise
        self._end(life)

    def _end(self, life: _Life) -> None:
        if not life.thread.closed(life):  # another thread has ended it at the same time
            return
        with self._changing:
            if self._life is life:
                self._life = None
        self._carry(life)
        life.thread.release()
        self.on_end()

    def _carry(self, life: _Life) -> None:
        """Pass calls to the loop while *life* lasts."""
        with self._changing:
            if self._life is life:
                self.run, self.run_short, self.submit = life.thread.run, life.thread.run_short, life.thread.submit
            elif self._life is None:
                self.run, self.run_short, self.submit = self._refuse, self._refuse_short, self._refuse_short

    def call(self, function: Callable[[], T]) -> T:
        """Call a plain function that must not run concurrently with the loop: on the loop while started, here
        before.
        """
        life = self._life
        return function() if life is None else life.thread.call(function)
