"""Updates of the client tables when a connection ends and as heartbeats expire.

Agrees with Java's ClientHousekeepingService, with one difference: Java closes the connection of a client that is silent
in one group; here a client that is alive in another group keeps it.
"""

import logging
from collections.abc import Callable, Iterator
from itertools import chain

from hanabi.broker.clients.consumers import Consumers
from hanabi.broker.clients.producers import Producers
from hanabi.broker.clients.queue_locks import QueueLocks
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.connection.turns import spread

logger = logging.getLogger(__name__)

EXPIRY_INTERVAL_MS = 10_000
EXPIRY_LATE_MS = 20_000  # a call this late means that the loop stalled or the clock was set


class ClientTables:
    """All tables that follow the life of connections."""

    def __init__(
        self,
        producers: Producers,
        consumers: Consumers,
        locks: QueueLocks,
        now_ms: Callable[[], int],
        *,
        spread: Callable[[Iterator[object]], object] = spread,
    ) -> None:
        """*spread* runs the steps of an iterator, now or over several loop iterations."""
        self._producers = producers
        self._consumers = consumers
        self._locks = locks
        self._now_ms = now_ms
        self._spread = spread
        self._expired_ms: int | None = None  # time of the last expiry

    def closed(self, connection: Connection) -> None:
        """Remove a closed *connection* from all tables. Call it in the loop. Cost: one step for each of its groups."""
        self._spread(chain(self._producers.leaving(connection), self._consumers.leaving(connection)))

    def expire(self) -> None:
        """Expire silent clients. Call it in the loop, every 10 seconds.

        After a stall (SIGSTOP, a suspended machine) heartbeats wait unread in the sockets, and after the clock was set
        all times are wrong: all deadlines then move by the difference.
        """
        now_ms = self._now_ms()
        last_ms, self._expired_ms = self._expired_ms, now_ms
        passed_ms = now_ms - last_ms if last_ms is not None else EXPIRY_INTERVAL_MS
        if not 0 <= passed_ms <= EXPIRY_INTERVAL_MS + EXPIRY_LATE_MS:
            excused_ms = passed_ms - EXPIRY_INTERVAL_MS
            logger.warning(
                "%.1f s since the last check, expected 10 s: client deadlines move by the difference", passed_ms / 1000
            )
            self._producers.extend_deadlines(excused_ms)
            self._consumers.extend_deadlines(excused_ms)
        self._spread(self._expiring())
        self._locks.forget_expired()

    def _expiring(self) -> Iterator[None]:
        for connection in chain(self._producers.expiring(), self._consumers.expiring()):
            if connection not in self._producers and connection not in self._consumers:
                connection.close("no heartbeat for 120 s")
            yield
