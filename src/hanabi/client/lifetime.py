"""The life of one blocking object: which loop thread its calls go to, from start to shutdown.

The asyncio object does everything; this only carries calls to its loop. An object that was made before a fork and not
started yet starts in the child like any other; one that was started belongs to the parent.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from hanabi.client.loop_thread import Begin, LoopThread
from hanabi.errors import BlockingCallError, MQError

T = TypeVar("T")


class Run(Protocol):
    """See `LoopThread.run`."""

    def __call__(
        self, coroutine: Coroutine[Any, Any, Any], unclaimed: Callable[[Any], None] | None = None, /
    ) -> Any: ...


class Lifetime:
    """`run` carries a coroutine to the loop and waits for it. *what* is how errors call the object."""

    def __init__(self, what: str) -> None:
        self._what = what
        self.on_end: Callable[[], object] = lambda: None  # called in whichever thread ends it
        self._thread: LoopThread | None = None
        # Both are the loop thread's own while started.
        self.run: Run = self._refuse
        self.run_short: Callable[[Begin[Any]], Any] = self._refuse_short

    def _refuse(self, coroutine: Coroutine[Any, Any, Any], unclaimed: object = None) -> Any:
        coroutine.close()
        return self._refuse_short()

    def _refuse_short(self, begin: object = None) -> Any:
        raise MQError(f"{self._what} is not running: use `with`, or start() it, and not after shutdown()")

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    def start(
        self, start: Callable[[], Coroutine[Any, Any, T]], shutdown: Callable[[float], Coroutine[Any, Any, object]]
    ) -> T:
        """Run *start* on the loop. If the program forgets the end, *shutdown* is run when the interpreter ends, with
        the seconds that it may take."""
        if self._thread is not None:
            return self._thread.run(start())  # which knows that it is started already, and says so
        thread = LoopThread.acquire()
        if not thread.opened(self, shutdown):  # another thread was quicker
            try:
                return thread.run(start())
            finally:
                thread.release()
        self._thread = thread  # from here on `shutdown` can end it, in another thread and before it has started
        try:
            started = thread.run(start())
        except BaseException:
            self._ended(thread)
            raise
        self.run, self.run_short = thread.run, thread.run_short
        if self._thread is not thread:  # ended already
            self.run, self.run_short = self._refuse, self._refuse_short
        return started

    def shutdown(self, shutdown: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Run *shutdown* on the loop. The second time does nothing."""
        thread = self._thread
        if thread is None:
            return
        if not thread.has_ended:  # if it has, it has shut us down before
            try:
                thread.run(shutdown())
            except BlockingCallError:
                if self._thread is thread:
                    raise  # not here: somebody must call it where it can wait
                return  # another thread was quicker, and has ended the loop too
            except BaseException:
                self._ended(thread)
                raise
        self._ended(thread)

    def _ended(self, thread: LoopThread) -> None:
        if not thread.closed(self):  # another thread has ended it at the same time
            return
        self._thread = None
        self.run, self.run_short = self._refuse, self._refuse_short
        thread.release()
        self.on_end()

    def call(self, function: Callable[[], T]) -> T:
        """The result of a plain function that must not run beside the loop: on it while started, here before."""
        return function() if self._thread is None else self._thread.call(function)
