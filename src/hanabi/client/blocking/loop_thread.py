"""Event loop in a thread of its own, by which blocking calls use the asyncio client.

There is one per process, started on first use and ended with its last user. A call passes its coroutine and sleeps on a
bare lock until it is done, which is much cheaper than `asyncio.run_coroutine_threadsafe` and its futures. Of producers
and consumers it knows only that they can be shut down.

After a fork the child has no such thread: `acquire` makes a new one there, and objects bound to the old one raise an
error that says so.
"""

import asyncio
import atexit
import contextlib
import logging
import os
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar, cast

from hanabi.errors import BlockingCallError
from hanabi.remoting.loop import loop_factory

T = TypeVar("T")

EXIT_SECONDS: Final = 3.0  # for all clients together that the program did not shut down
EXIT_SHARE: Final = 0.6  # share of it for work in flight; the rest is for leaving the cluster
TIDY_SECONDS: Final = 1.0  # for cancelled tasks to end
STOPS_A_LOOP: Final = (
    "a blocking call of hanabi stops the event loop that runs in this thread until it returns. Use the class of the"
    " same name in hanabi.aio and await it, or asyncio.to_thread"
)
GIVEN_UP: Final = "the call was given up: its client, or the whole interpreter, is shut down"
SUBMITTED_MAX: Final = 256  # calls without a waiting thread that start in one loop iteration
# On Windows Ctrl-C is noticed only between two waits; elsewhere a signal interrupts the wait itself.
WAIT_SECONDS: Final = 0.1 if sys.platform == "win32" else -1.0

Shutdown: TypeAlias = Callable[[float], Coroutine[Any, Any, object]]  # the argument is the time limit in seconds

logger = logging.getLogger(__name__)


class _Call(Generic[T]):
    """One coroutine in the loop's thread, and the calling thread that sleeps until it is done."""

    __slots__ = ("_began", "_coroutine", "_done", "_error", "_over", "_result", "_task", "_unclaimed")

    def __init__(
        self, coroutine: Coroutine[Any, Any, T] | None = None, unclaimed: Callable[[T], None] | None = None
    ) -> None:
        """Make a call. *unclaimed* gets, in the loop's thread, a result that came after the calling thread had given
        up.
        """
        self._coroutine, self._unclaimed = coroutine, unclaimed
        self._done = threading.Lock()
        self._done.acquire()
        self._began = self._over = False
        self._error: BaseException | None = None
        self._result: T | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the coroutine. Runs in the loop's thread."""
        if self._coroutine is not None:
            self._task = asyncio.get_running_loop().create_task(self._drive(self._coroutine))

    async def _drive(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._began = True
        try:
            self._result = await coroutine
        except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
            self._error = error
        self._end()  # not in a callback of the task, which would run only in the next loop iteration

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self._done.release()

    def cancel(self) -> None:
        """Cancel: the calling thread waits no more. Runs in the loop's thread."""
        if self._over:
            if self._unclaimed is not None and self._error is None:
                self._unclaimed(cast(T, self._result))
        elif self._task is not None:
            self._task.cancel()
            self._close_unbegun()

    def give_up(self) -> None:
        """Give up because the loop is closed and cannot finish it. Runs in the loop's thread."""
        if not self._over:
            self._close_unbegun()
            self._error = asyncio.CancelledError()
            self._end()

    def _close_unbegun(self) -> None:
        if self._coroutine is not None and not self._began:  # then it never will
            self._coroutine.close()

    def wait(self) -> T:
        """Wait until it is done. Runs in the calling thread. A signal's exception passes through."""
        while not self._done.acquire(timeout=WAIT_SECONDS):
            pass
        error = self._error
        if error is None:
            return cast(T, self._result)
        self._unclaimed = None
        if isinstance(error, asyncio.CancelledError):
            raise BlockingCallError(GIVEN_UP)
        try:
            raise error
        finally:
            del error, self._error  # the traceback holds this frame: no cycle for the collector


class _ShortCall(_Call[T]):
    """A call that needs no task as long as nothing has to be awaited.

    *begin* is called in the loop's thread, with this call. It calls `finish` or `go_on` later, or returns a coroutine
    at once.
    """

    __slots__ = ("_begin",)

    def __init__(self, begin: "Begin[T]") -> None:
        super().__init__()
        self._begin = begin

    def start(self) -> None:
        """Start the call. Runs in the loop's thread."""
        try:
            rest = self._begin(self)
        except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
            self._error = error
            self._end()
        else:
            if rest is not None:
                self.go_on(rest)

    def finish(self, result: T) -> None:
        """Finish the call with a result. Runs in the loop's thread."""
        self._result = result
        self._end()

    def go_on(self, rest: Coroutine[Any, Any, T]) -> None:
        """Continue with a coroutine. Runs in the loop's thread."""
        self._coroutine = rest
        super().start()

    def cancel(self) -> None:
        """Cancel the awaited part; work without a task ends by itself. Runs in the loop's thread."""
        if self._began:
            super().cancel()


Begin: TypeAlias = Callable[[_ShortCall[T]], Coroutine[Any, Any, T] | None]


class _FutureCall(_ShortCall[T]):
    """A short call without a waiting thread: its result goes to *future*. *calls* has the calls that have not ended."""

    __slots__ = ("_calls", "_future")

    def __init__(self, begin: "Begin[T]", future: "Future[T]", calls: "set[_Call[Any]]") -> None:
        super().__init__(begin)
        self._future, self._calls = future, calls

    def start(self) -> None:
        """Start the call, unless its future was cancelled. Runs in the loop's thread."""
        if self._future.set_running_or_notify_cancel():
            super().start()
        else:
            self._over = True
            self._calls.discard(self)

    def _end(self) -> None:
        if self._over:
            return
        self._over = True
        self._calls.discard(self)
        error, self._error = self._error, None
        if error is None:
            self._future.set_result(cast(T, self._result))
        elif isinstance(error, asyncio.CancelledError):
            self._future.set_exception(BlockingCallError(GIVEN_UP))
        else:
            self._future.set_exception(error)

    def give_up(self) -> None:
        """Give up because the loop is closed. Runs in the loop's thread."""
        if not self._future.running() and not self._future.set_running_or_notify_cancel():
            self._over = True
        super().give_up()


class LoopThread:
    """A loop, its thread, and the clients to shut down before they end. `acquire` it, and `release` it as often."""

    _shared: ClassVar["LoopThread | None"] = None
    _users: ClassVar[int] = 0  # of the shared one
    _changing: ClassVar[threading.Lock] = threading.Lock()
    _inherited: ClassVar[list["LoopThread"]] = []  # in a child: the parent's, which must never be cleaned up here

    def __init__(self) -> None:
        self._process_id = os.getpid()
        self._loop = loop_factory()()
        self._stopping = False
        self._open: dict[int, Shutdown] = {}
        self._calls: set[_Call[Any]] = set()  # calls that have not ended
        self._submitted: deque[_Call[Any]] = deque()  # calls that have not started, without a waiting thread
        self._waking = False  # a wake-up for them is in flight
        self._thread = threading.Thread(target=self._run, name="hanabi", daemon=True)
        self._thread.start()

    @classmethod
    def acquire(cls) -> "LoopThread":
        """Return the one of this process; make a new one if there is none, as in a just forked child."""
        with cls._changing:
            if cls._shared is None:
                cls._shared = cls()
                atexit.unregister(cls._at_exit)
                atexit.register(cls._at_exit)
            cls._users += 1
            return cls._shared

    def release(self) -> None:
        """Release it for one user; after the last one it ends."""
        cls = type(self)
        with cls._changing:
            if cls._shared is not self:
                return
            cls._users -= 1
            if cls._users:
                return
            cls._shared = None
        self.stop(EXIT_SECONDS)

    @classmethod
    def _at_exit(cls) -> None:
        if cls._shared is not None:
            cls._shared.stop(EXIT_SECONDS)

    @classmethod
    def _forked(cls) -> None:
        """Reset the state in the child: another thread of the parent may have held the lock."""
        cls._changing = threading.Lock()
        if cls._shared is not None:
            cls._inherited.append(cls._shared)
        cls._shared, cls._users = None, 0

    @property
    def has_ended(self) -> bool:
        """Return True once it has stopped and shut everything down; never in a child of the process that made it."""
        return self._process_id == os.getpid() and self._loop.is_closed()

    @property
    def is_current(self) -> bool:
        """Return True in the loop's own thread."""
        return threading.current_thread() is self._thread

    def run(self, coroutine: Coroutine[Any, Any, T], unclaimed: Callable[[T], None] | None = None) -> T:
        """Return the result of *coroutine*, or raise its exception. If a signal interrupts the wait, the coroutine is
        cancelled; if it had ended already, *unclaimed* gets its result.
        """
        if not self._can_wait():
            coroutine.close()
            raise BlockingCallError(self._why_not())
        return self._wait_for(_Call(coroutine, unclaimed))

    def run_short(self, begin: "Begin[T]") -> T:
        """Return the result of the call that *begin* starts; see `_ShortCall`."""
        if not self._can_wait():
            raise BlockingCallError(self._why_not())
        return self._wait_for(_ShortCall(begin))

    def submit(self, begin: "Begin[T]") -> "Future[T]":
        """Start the call that *begin* starts, and return its future at once. Calls that are submitted together wake the
        loop once. Any thread may use it, the loop's own too.
        """
        if self._process_id != os.getpid() or self._loop.is_closed():
            raise BlockingCallError(self._why_not())
        future: Future[T] = Future()
        call = _FutureCall(begin, future, self._calls)
        self._calls.add(call)
        self._submitted.append(call)
        if not self._waking:
            self._waking = True
            try:
                self._loop.call_soon_threadsafe(self._start_submitted)
            except RuntimeError:  # another thread stopped it just now
                self._calls.discard(call)
                raise BlockingCallError(self._why_not()) from None
        return future

    def _start_submitted(self) -> None:
        self._waking = False  # before the look: a call that is submitted meanwhile wakes again
        for _ in range(SUBMITTED_MAX):
            if not self._submitted:
                return
            self._submitted.popleft().start()
        self._waking = True
        self._loop.call_soon(self._start_submitted)

    def _wait_for(self, call: _Call[T]) -> T:
        self._calls.add(call)
        try:
            self._loop.call_soon_threadsafe(call.start)
        except RuntimeError:  # another thread stopped it just now
            self._calls.discard(call)
            call.give_up()
            raise BlockingCallError(self._why_not()) from None
        try:
            return call.wait()
        except BaseException:
            self._loop_soon(call.cancel)  # it is not done: KeyboardInterrupt, for example
            raise
        finally:
            self._calls.discard(call)

    def call(self, function: Callable[[], T]) -> T:
        """Call a plain function in the loop's thread; return its result. A callback in that thread may use it too."""
        if threading.current_thread() is self._thread:
            return function()

        async def work() -> T:
            return function()

        return self.run(work())

    def _loop_soon(self, callback: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # closed: then there is nothing left to do either
            self._loop.call_soon_threadsafe(callback)

    def must_be_able_to_wait(self) -> None:
        """Raise a BlockingCallError where `run` would."""
        if not self._can_wait():
            raise BlockingCallError(self._why_not())

    def _can_wait(self) -> bool:
        return (
            self._process_id == os.getpid()
            and not self._loop.is_closed()
            and (asyncio._get_running_loop() is None or self._may_stop_the_callers_loop())
        )

    def _may_stop_the_callers_loop(self) -> bool:
        """Return True if an event loop runs in this thread and may be blocked: any but our own, which would wait for
        itself.

        A notebook runs every cell in a loop, and expects cells to take their time. Elsewhere it is worth a warning,
        which Python shows once, as it always comes from this line.
        """
        if threading.current_thread() is self._thread:
            return False
        if "ipykernel" not in sys.modules:
            warnings.warn(STOPS_A_LOOP, RuntimeWarning, stacklevel=1)
        return True

    def _why_not(self) -> str:
        if self._process_id != os.getpid():
            return (
                f"this object was made in process {self._process_id}, before os.fork(): its connections belong to that"
                f" process. Make a new one here, in process {os.getpid()}"
            )
        if threading.current_thread() is self._thread:
            return (
                "a blocking call in the event loop's own thread would wait for itself. Call it in a def listener or in"
                " a thread, or await the same method of hanabi.aio's class"
            )
        return "the event loop of the blocking clients is stopped: the interpreter is about to end"

    # Clients to shut down

    def opened(self, owner: object, shutdown: Shutdown) -> None:
        """Register *owner*: it is shut down at interpreter exit if the program does not do it."""
        self._open[id(owner)] = shutdown

    def closed(self, owner: object) -> bool:
        """Unregister; return True if it was open: for exactly one of several concurrent calls."""
        return self._open.pop(id(owner), None) is not None

    def stop(self, seconds: float) -> None:
        """Shut down open clients within *seconds*, and end the thread."""
        left_open = [] if self.has_ended else list(self._open.values())
        if left_open:
            with contextlib.suppress(BlockingCallError):
                self.run(_shut_down(left_open, seconds))
        self._loop_soon(self._stop_loop)
        self._thread.join(seconds)

    def _stop_loop(self) -> None:
        self._stopping = True
        self._loop.stop()

    def _run_until_stopped(self) -> None:
        """Run the loop, and restart it after a SystemExit or KeyboardInterrupt of a task. They come from the
        program's own functions, for example an `async def` listener that calls sys.exit(), as signals go to the main
        thread: the task's awaiter gets the exception, and all other clients continue.
        """
        while not self._stopping:
            try:
                self._loop.run_forever()
            except (SystemExit, KeyboardInterrupt) as error:
                logger.warning("%r in the event loop of the blocking clients does not end the program", error)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._run_until_stopped()
            _cancel_all(self._loop)
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            with contextlib.suppress(TimeoutError):  # for example a pending DNS lookup of a name server
                self._loop.run_until_complete(asyncio.wait_for(self._loop.shutdown_default_executor(), TIDY_SECONDS))
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()
            for call in list(self._calls):
                call.give_up()


async def _shut_down(shutdowns: list[Shutdown], seconds: float) -> None:
    tasks = [asyncio.ensure_future(shutdown(seconds * EXIT_SHARE)) for shutdown in shutdowns]
    done, late = await asyncio.wait(tasks, timeout=seconds)
    for task in late:
        task.cancel()
    if late:
        logger.warning(
            "%d clients were not shut down by the program, and have not finished within %g s", len(late), seconds
        )
        await asyncio.wait(late, timeout=seconds)
    for task in done:
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("a client could not be shut down: %s", error)


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel all tasks, as asyncio.run does at its end."""
    if tasks := asyncio.all_tasks(loop):
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.wait(tasks, timeout=TIDY_SECONDS))


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=LoopThread._forked)
