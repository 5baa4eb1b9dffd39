"""An event loop in a thread of its own, for programs that have none: how blocking calls get at the asyncio client.

One a process, started when first needed and ended with the last who needs it. A call hands over its coroutine and
sleeps on a bare lock until it is done, which costs a good deal less than `asyncio.run_coroutine_threadsafe` and its
futures. Knows nothing of producers and consumers but that they can be shut down.

After a fork the child has no such thread: whoever asks for the shared one gets a new one, and what hangs on the old one
says so in an error.
"""

import asyncio
import atexit
import contextlib
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar, cast

from hanabi.errors import BlockingCallError
from hanabi.remoting.loop import loop_factory

T = TypeVar("T")

EXIT_SECONDS: Final = 3.0  # for all that a program forgot to shut down, together
EXIT_SHARE: Final = 0.6  # of it, for what they have under way; the rest is for leaving the cluster
TIDY_SECONDS: Final = 1.0  # for what is cancelled to be gone
STOPS_A_LOOP: Final = (
    "a blocking call of hanabi stops the event loop that runs in this thread until it returns. Use the class of the"
    " same name in hanabi.aio and await it, or asyncio.to_thread"
)
# On Windows Ctrl-C is only noticed between two waits; elsewhere a signal interrupts the wait itself.
WAIT_SECONDS: Final = 0.1 if sys.platform == "win32" else -1.0

Shutdown: TypeAlias = Callable[[float], Coroutine[Any, Any, object]]  # within so many seconds

logger = logging.getLogger(__name__)


class _Call(Generic[T]):
    """One coroutine on its way through the loop's thread, and the thread that sleeps until it is back."""

    __slots__ = ("_began", "_coroutine", "_done", "_error", "_over", "_result", "_task", "_unclaimed")

    def __init__(
        self, coroutine: Coroutine[Any, Any, T] | None = None, unclaimed: Callable[[T], None] | None = None
    ) -> None:
        """*unclaimed* gets, in the loop's thread, a result that came when the thread that called had given up."""
        self._coroutine, self._unclaimed = coroutine, unclaimed
        self._done = threading.Lock()
        self._done.acquire()
        self._began = self._over = False
        self._error: BaseException | None = None
        self._result: T | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """In the loop's thread."""
        if self._coroutine is not None:
            self._task = asyncio.get_running_loop().create_task(self._drive(self._coroutine))

    async def _drive(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._began = True
        try:
            self._result = await coroutine
        except BaseException as error:  # noqa: BLE001 - it is raised again, in the thread that called
            self._error = error
        self._end()  # and not in a callback of the task, which has its turn only when the loop comes around again

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self._done.release()

    def cancel(self) -> None:
        """In the loop's thread: the thread that called waits no more."""
        if self._over:
            if self._unclaimed is not None and self._error is None:
                self._unclaimed(cast(T, self._result))
        elif self._task is not None:
            self._task.cancel()
            self._close_unbegun()

    def give_up(self) -> None:
        """In the loop's thread, when its loop is closed: nothing will end it any more."""
        if not self._over:
            self._close_unbegun()
            self._error = asyncio.CancelledError()
            self._end()

    def _close_unbegun(self) -> None:
        if self._coroutine is not None and not self._began:  # then it never will
            self._coroutine.close()

    def wait(self) -> T:
        """In the thread that called: until it is done. A signal's exception comes through."""
        while not self._done.acquire(timeout=WAIT_SECONDS):
            pass
        error = self._error
        if error is None:
            return cast(T, self._result)
        self._unclaimed = None
        if isinstance(error, asyncio.CancelledError):
            raise BlockingCallError("the call was given up: its client, or the whole interpreter, is shut down")
        try:
            raise error
        finally:
            del error, self._error  # the traceback holds this frame: no cycle for the collector


class _ShortCall(_Call[T]):
    """A call for which no task is needed, as long as nothing has to be waited for in between.

    *begin* is called in the loop's thread, with this. It says later that it is finished, or how to go on; or at once,
    by returning a coroutine.
    """

    __slots__ = ("_begin",)

    def __init__(self, begin: "Begin[T]") -> None:
        super().__init__()
        self._begin = begin

    def start(self) -> None:
        """In the loop's thread."""
        try:
            rest = self._begin(self)
        except BaseException as error:  # noqa: BLE001 - it is raised again, in the thread that called
            self._error = error
            self._end()
        else:
            if rest is not None:
                self.go_on(rest)

    def finish(self, result: T) -> None:
        """In the loop's thread."""
        self._result = result
        self._end()

    def go_on(self, rest: Coroutine[Any, Any, T]) -> None:
        """In the loop's thread."""
        self._coroutine = rest
        super().start()

    def cancel(self) -> None:
        """In the loop's thread. What was begun ends by itself; only what waits can be cancelled."""
        if self._began:
            super().cancel()


Begin: TypeAlias = Callable[[_ShortCall[T]], Coroutine[Any, Any, T] | None]


class LoopThread:
    """A loop, its thread, and what must be shut down before they end. `acquire` it, and `release` it as often."""

    _shared: ClassVar["LoopThread | None"] = None
    _users: ClassVar[int] = 0  # of the shared one
    _changing: ClassVar[threading.Lock] = threading.Lock()
    _inherited: ClassVar[list["LoopThread"]] = []  # in a child: the parent's, never to be tidied up here

    def __init__(self) -> None:
        self._process_id = os.getpid()
        self._loop = loop_factory()()
        self._stopping = False
        self._open: dict[int, Shutdown] = {}
        self._calls: set[_Call[Any]] = set()  # whose threads wait
        self._thread = threading.Thread(target=self._run, name="hanabi", daemon=True)
        self._thread.start()

    @classmethod
    def acquire(cls) -> "LoopThread":
        """The one of this process; a new one if there is none, as in a child that was just forked."""
        with cls._changing:
            if cls._shared is None:
                cls._shared = cls()
                atexit.unregister(cls._at_exit)
                atexit.register(cls._at_exit)
            cls._users += 1
            return cls._shared

    def release(self) -> None:
        """One who acquired it needs it no more; after the last it ends."""
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
        """In the child: perhaps another thread held the lock, and it is not there to let it go."""
        cls._changing = threading.Lock()
        if cls._shared is not None:
            cls._inherited.append(cls._shared)
        cls._shared, cls._users = None, 0

    @property
    def has_ended(self) -> bool:
        """Whether it was stopped, and everything on it shut down; in a child of the process that made it, never."""
        return self._process_id == os.getpid() and self._loop.is_closed()

    def run(self, coroutine: Coroutine[Any, Any, T], unclaimed: Callable[[T], None] | None = None) -> T:
        """The result of *coroutine*, or its exception. If a signal interrupts the wait, the coroutine is cancelled; if
        it had ended already, *unclaimed* gets its result."""
        if not self._can_wait():
            coroutine.close()
            raise BlockingCallError(self._why_not())
        return self._wait_for(_Call(coroutine, unclaimed))

    def run_short(self, begin: "Begin[T]") -> T:
        """The result of what *begin* begins; see `_ShortCall`."""
        if not self._can_wait():
            raise BlockingCallError(self._why_not())
        return self._wait_for(_ShortCall(begin))

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
            self._loop_soon(call.cancel)  # if it is not done: KeyboardInterrupt, say
            raise
        finally:
            self._calls.discard(call)

    def call(self, function: Callable[[], T]) -> T:
        """The result of a plain function that must run in the loop's thread; there, a callback may call it too."""
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
        """Whether an event loop runs in this thread that may be held up: any but our own, which would wait for itself.

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

    # What must be shut down

    def opened(self, owner: object, shutdown: Shutdown) -> None:
        """*owner* is at work: at the interpreter's end it is shut down if nobody did."""
        self._open[id(owner)] = shutdown

    def closed(self, owner: object) -> bool:
        """Whether it was open until now: true for one of all threads that say so at once."""
        return self._open.pop(id(owner), None) is not None

    def stop(self, seconds: float) -> None:
        """Shut down what is open, within so many seconds, and end the thread."""
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
        """A loop ends when a task of its ends with one of these. Here they come from the program's own functions, an
        `async def` listener that calls sys.exit() say, as signals go to the main thread: whoever waits for the task
        hears of it, and all other clients go on."""
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
            with contextlib.suppress(TimeoutError):  # a name server's name that is still being looked up, say
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
        logger.warning("%d clients were not shut down, and are not finished %g s later", len(late), seconds)
        await asyncio.wait(late, timeout=seconds)
    for task in done:
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("a client could not be shut down: %s", error)


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """As asyncio.run does at its end."""
    if tasks := asyncio.all_tasks(loop):
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.wait(tasks, timeout=TIDY_SECONDS))


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=LoopThread._forked)
