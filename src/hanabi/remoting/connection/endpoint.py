"""The shared state of all connections of one server, or of one connector.

The table of handlers, the limits, the bytes that all of them hold, the counters, and one timer that looks for
peers which are idle, stalled or endlessly slow: a timer each would cost more than the peers. Over a limit on all
together, the connections that hold most are dropped.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hanabi.remoting.config import RemotingConfig
from hanabi.remoting.connection.dispatch import FastPath, Handler, LateAnswers
from hanabi.remoting.connection.reply_memory import ReplyMemory

if TYPE_CHECKING:
    from hanabi.remoting.connection.protocol import Connection

logger = logging.getLogger(__name__)

SWEEP_SECONDS_MAX = 5.0
UNSENT_OVERSHOOT = 1 / 16  # how far over their limit unsent bytes may get before they are weighed
ABORT_SECONDS = 1.0  # an aborted transport needs a turn or two of the loop; TLS may need some more


class Endpoint:
    """Invariant: `held_bytes` is the sum over `connections` of what each holds back of incomplete frames.

    `write_allowance` is what all of them may still write before their unsent bytes are weighed; none left, and
    `writes_too_much` says that no request is begun until that is done, a turn of the loop later: the loop tries
    to send what was written in a turn at its end, and a peer that reads must not count as one that does not.
    """

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        config: RemotingConfig,
        *,
        drops_silent: bool = False,
        on_open: Callable[["Connection"], None] | None = None,
        on_close: Callable[["Connection"], None] | None = None,
    ) -> None:
        """*drops_silent*: the peers are servers, which answer every request. One that does not is dead."""
        self.handlers = handlers
        self.drops_silent = drops_silent
        self.fast_path: FastPath | None = None  # asked first, for all that is read
        self.config = config
        self.connections: set[Connection] = set()
        self.held_bytes = 0
        self.write_allowance = config.write_buffer_total_bytes_max
        self.writes_too_much = False
        self.reply_memory = ReplyMemory(config.answers_total_bytes_max)
        self.requests = 0
        self.protocol_errors = 0
        self._on_open = on_open
        self._on_close = on_close
        self._timer: asyncio.TimerHandle | None = None
        self._skipped_sweep = False
        self._sweep_seconds = min(
            SWEEP_SECONDS_MAX, config.idle_seconds / 4, config.stalled_peer_seconds / 4, config.frame_seconds_max / 4
        )
        self._orphans: set[asyncio.Future[Any]] = set()
        self._all_gone: asyncio.Future[None] | None = None

    def joined(self, connection: "Connection") -> None:
        """Add *connection*, which is open."""
        self.connections.add(connection)
        if self._on_open is not None:
            self._on_open(connection)
        if self._timer is None:
            self._set_timer()

    def left(self, connection: "Connection", answering: Iterable[asyncio.Future[Any] | LateAnswers]) -> None:
        """Forget *connection*, which is lost, and cancel the answers that were still being made."""
        loop = asyncio.get_running_loop()
        for task in answering:
            loop.call_soon(task.cancel)  # soon, so that it has begun: nothing is left never awaited
            if isinstance(task, asyncio.Future):
                self._orphans.add(task)
                task.add_done_callback(self._orphans.discard)
        self.connections.discard(connection)
        self.reply_memory.leave(connection)
        if not self.connections:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._all_gone is not None and not self._all_gone.done():
                self._all_gone.set_result(None)
        if self._on_close is not None:
            try:
                self._on_close(connection)
            except Exception:
                logger.exception("what should follow the close of %s failed", connection.peer)

    def _set_timer(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + self._sweep_seconds
        self._timer = loop.call_at(due, self._sweep_and_set_timer, due)

    def _sweep_and_set_timer(self, due: float) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        if not self._late(now, now - due):
            self.sweep(now)
        if self.connections:
            self._set_timer()

    def _late(self, now: float, late_seconds: float) -> bool:
        """Return whether to skip this sweep: after a stall of ours (a suspended machine, a debugger, one slow request)
        no peer is late before what it sent meanwhile is read. Never twice in a row, so that load is no refuge."""
        stalled = late_seconds > self._sweep_seconds
        if stalled:
            for connection in self.connections:
                connection.extend_deadlines(late_seconds, now)
        self._skipped_sweep = stalled and not self._skipped_sweep
        return self._skipped_sweep

    def sweep(self, now: float) -> None:
        """End connections whose deadline is over, and the fullest if all leave too much unread."""
        for connection in list(self.connections):
            connection.check(now)
        self.limit_unsent()

    def limit_unsent_soon(self) -> None:
        """Call `limit_unsent` when the loop has tried to send what was written in this turn."""
        if not self.writes_too_much:
            self.writes_too_much = True
            asyncio.get_running_loop().call_soon(self.limit_unsent)

    def limit_unsent(self) -> None:
        """Drop the fullest connections if all together leave too much unread."""
        limit = self.config.write_buffer_total_bytes_max
        unsent = [(size, connection) for connection in self.connections if (size := connection.unsent_memory) > 0]
        total = sum(size for size, _ in unsent)
        if total > limit:
            for size, connection in sorted(unsent, key=lambda pair: pair[0], reverse=True):
                connection.drop(f"holds {size} unread bytes, all peers together {total}, limit {limit}")
                total -= size
                if total <= limit:
                    break
        self.write_allowance = max(limit - total, int(limit * UNSENT_OVERSHOOT))
        self.writes_too_much = False

    def drop_largest_frame(self) -> None:
        """Drop the connection with the largest incomplete frame: all together are over their limit."""
        limit = self.config.read_buffer_total_bytes_max
        largest = max(self.connections, key=lambda connection: connection.held_bytes)
        held, total = largest.held_bytes, self.held_bytes
        largest.drop(f"holds {held} bytes of an incomplete frame, all peers together {total}, limit {limit}")

    async def all_gone(self, deadline_seconds: float) -> None:
        """Wait until every connection is gone, with its handlers; at the deadline, cut those that are left."""
        if self.connections:
            await self._wait_until_gone(deadline_seconds)
        if self.connections:
            for connection in list(self.connections):
                connection.drop(f"not finished {deadline_seconds} s after the shutdown began")
            await self._wait_until_gone(ABORT_SECONDS)
        if self._orphans:
            await asyncio.wait(self._orphans, timeout=ABORT_SECONDS)

    async def _wait_until_gone(self, seconds: float) -> None:
        self._all_gone = asyncio.get_running_loop().create_future()
        await asyncio.wait((self._all_gone,), timeout=seconds)
