"""What happens to the tables of clients when a connection ends, and when time passes.

Agrees with Java's ClientHousekeepingService. It closes the connection of whoever was silent in one group; here a client
that is alive in another keeps it.
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
EXPIRY_LATE_MS = 20_000  # so much later than it should be, a call says that we stood still, or the clock was set


class ClientTables:
    """Everything that follows the life of connections."""

    def __init__(
        self,
        producers: Producers,
        consumers: Consumers,
        locks: QueueLocks,
        now_ms: Callable[[], int],
        *,
        spread: Callable[[Iterator[object]], object] = spread,
    ) -> None:
        """*spread* takes steps, now or later: the loop's turns."""
        self._producers = producers
        self._consumers = consumers
        self._locks = locks
        self._now_ms = now_ms
        self._spread = spread
        self._expired_ms: int | None = None  # when we last looked

    def closed(self, connection: Connection) -> None:
        """Call it in the loop when *connection* is gone. Costs as much as the connection had groups, in turns."""
        self._spread(chain(self._producers.leaving(connection), self._consumers.leaving(connection)))

    def expire(self) -> None:
        """Expire silent clients. Call it in the loop, every 10 seconds.

        After we ourselves stood still (SIGSTOP, a suspended machine) signs of life wait unread in the sockets, and
        after the clock was set all times are wrong: then everybody is given that much more, or less, time.
        """
        now_ms = self._now_ms()
        last_ms, self._expired_ms = self._expired_ms, now_ms
        passed_ms = now_ms - last_ms if last_ms is not None else EXPIRY_INTERVAL_MS
        if not 0 <= passed_ms <= EXPIRY_INTERVAL_MS + EXPIRY_LATE_MS:
            excused_ms = passed_ms - EXPIRY_INTERVAL_MS
            logger.warning("%.1f s passed where 10 s should have: clients are given the difference", passed_ms / 1000)
            self._producers.excuse(excused_ms)
            self._consumers.excuse(excused_ms)
        self._spread(self._expiring())
        self._locks.forget_expired()

    def _expiring(self) -> Iterator[None]:
        for connection in chain(self._producers.expiring(), self._consumers.expiring()):
            if connection not in self._producers and connection not in self._consumers:
                connection.close("no heartbeat for 120 s")
            yield
