"""The meter of one account: what it takes, and what it has taken beyond its quota."""

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol
from weakref import WeakSet

from hanabi.access.guard import Client
from hanabi.access.quotas.bucket import Bucket
from hanabi.access.quotas.quota import Quota

REQUESTS: Final = "requestsPerSecond"
BYTES_IN: Final = "bytesInPerSecond"
BYTES_OUT: Final = "bytesOutPerSecond"
CONNECTIONS: Final = "connections"
TOPICS: Final = "topics"


class Metered(Client, Protocol):
    """A connection whose requests are counted: of remoting or of gRPC."""

    @property
    def closed(self) -> bool:
        """Whether it has ended."""

    def hold(self, seconds: float) -> None:
        """Begin no further request of it for so long."""


class Excess(NamedTuple):
    """A limit that is reached, and how long until it is not; None: until the account closes a connection."""

    limit: str
    seconds: float | None


class Meter:
    """Counts what one account takes. *clock* is in seconds and never goes back.

    The fast path asks `is_over`, and tells `charge` of what it answered; the handlers ask `excess`.
    """

    def __init__(self, account: str, quota: Quota, clock: Callable[[], float]) -> None:
        self.account, self.quota, self._clock = account, quota, clock
        now = clock()
        rates = (
            (REQUESTS, quota.requests_per_second),
            (BYTES_IN, quota.bytes_in_per_second),
            (BYTES_OUT, quota.bytes_out_per_second),
        )
        self._buckets = {limit: Bucket(rate, now) for limit, rate in rates if rate is not None}
        self._connections: WeakSet[Metered] = WeakSet()
        self.requests = self.bytes_in = self.bytes_out = 0
        self.delayed: Counter[str] = Counter()  # requests, by limit
        self.refused: Counter[str] = Counter()

    def continue_from(self, former: "Meter") -> None:
        """Take over what *former* counted for this account, under another quota."""
        self._connections, self.delayed, self.refused = former._connections, former.delayed, former.refused
        self.requests, self.bytes_in, self.bytes_out = former.requests, former.bytes_in, former.bytes_out

    def is_over(self, connection: Metered) -> bool:
        """Return whether the next request must wait, or its connection is not known yet."""
        if self.quota.connections is not None and connection not in self._connections:
            return True
        now = self._clock()
        return any(bucket.owed_seconds(now) for bucket in self._buckets.values())

    def excess(self, connection: Metered) -> Excess | None:
        """Return the limit that the next request of *connection* exceeds most; None if there is none."""
        if self.quota.connections is not None and not self._has_place(connection, self.quota.connections):
            return Excess(CONNECTIONS, None)
        now = self._clock()
        owed = [(bucket.owed_seconds(now), limit) for limit, bucket in self._buckets.items()]
        seconds, limit = max(owed, default=(0.0, ""))
        return Excess(limit, seconds) if seconds else None

    def charge(self, bytes_in: int, bytes_out: int) -> None:
        """Count a request, and what is known of its answer."""
        self.requests += 1
        self.bytes_in += bytes_in
        buckets = self._buckets
        if REQUESTS in buckets:
            buckets[REQUESTS].take(1)
        if BYTES_IN in buckets:
            buckets[BYTES_IN].take(bytes_in)
        if bytes_out:
            self.charge_out(bytes_out)

    def charge_out(self, size: int) -> None:
        """Count the bytes of an answer."""
        self.bytes_out += size
        if BYTES_OUT in self._buckets:
            self._buckets[BYTES_OUT].take(size)

    @property
    def connections(self) -> int:
        """Open connections of the account, where their number is limited."""
        return sum(not connection.closed for connection in self._connections)

    def _has_place(self, connection: Metered, limit: int) -> bool:
        if connection in self._connections:
            return True
        if self.connections >= limit:
            return False
        self._connections.add(connection)
        return True
