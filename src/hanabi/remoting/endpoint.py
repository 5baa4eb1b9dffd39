"""What the connections of one server, or of one connector, have in common.

The table of handlers, the limits, the bytes that all of them hold, the counters, and one timer that looks for
peers which are idle, stalled or endlessly slow: a timer each would cost more than the peers.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from hanabi.remoting.config import RemotingConfig
from hanabi.remoting.dispatch import Handler

if TYPE_CHECKING:
    from hanabi.remoting.protocol import Connection

logger = logging.getLogger(__name__)

SWEEP_SECONDS_MAX = 5.0
ABORT_SECONDS = 1.0  # an aborted transport needs a turn or two of the loop; TLS may need some more


class Endpoint:
    """Invariant: `held_bytes` is the sum over `connections` of what each holds back of incomplete frames."""

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        config: RemotingConfig,
        *,
        on_open: Callable[["Connection"], None] | None = None,
        on_close: Callable[["Connection"], None] | None = None,
    ) -> None:
        self.handlers = handlers
        self.config = config
        self.connections: set[Connection] = set()
        self.held_bytes = 0
        self.requests = 0
        self.protocol_errors = 0
        self._on_open = on_open
        self._on_close = on_close
        self._timer: asyncio.TimerHandle | None = None
        self._sweep_seconds = min(
            SWEEP_SECONDS_MAX, config.idle_seconds / 4, config.stalled_peer_seconds / 4, config.frame_seconds_max / 4
        )
        self._orphans: set[asyncio.Task[None]] = set()
        self._all_gone: asyncio.Future[None] | None = None

    def joined(self, connection: "Connection") -> None:
        """*connection* is open."""
        self.connections.add(connection)
        if self._on_open is not None:
            self._on_open(connection)
        if self._timer is None:
            self._set_timer()

    def left(self, connection: "Connection", answering: Iterable[asyncio.Task[None]]) -> None:
        """*connection* is gone, and nobody will hear the answers that still wait to be made."""
        loop = asyncio.get_running_loop()
        for task in answering:
            loop.call_soon(task.cancel)  # soon, so that it has begun: nothing is left never awaited
            self._orphans.add(task)
            task.add_done_callback(self._orphans.discard)
        self.connections.discard(connection)
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
        self._timer = asyncio.get_running_loop().call_later(self._sweep_seconds, self._sweep_and_set_timer)

    def _sweep_and_set_timer(self) -> None:
        self._timer = None
        self.sweep(asyncio.get_running_loop().time())
        if self.connections:
            self._set_timer()

    def sweep(self, now: float) -> None:
        """Part with the peers that time has run out for, and with the fullest if all hold too much unsent."""
        unsent: list[tuple[int, Connection]] = []
        for connection in list(self.connections):
            connection.check(now)
            if (size := connection.unsent_bytes) > 0:
                unsent.append((size, connection))
        total, limit = sum(size for size, _ in unsent), self.config.write_buffer_total_bytes_max
        if total <= limit:
            return
        for size, connection in sorted(unsent, key=lambda pair: pair[0], reverse=True):
            connection.drop(f"holds {size} unread bytes, all peers together {total}, limit {limit}")
            total -= size
            if total <= limit:
                return

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
