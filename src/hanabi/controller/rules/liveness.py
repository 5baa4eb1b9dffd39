"""Living brokers: those whose heartbeat is younger than its timeout, and whose connection is open.

Reads no clock; every call has the time. An id belongs to one address while that is alive, so that a second broker with
a copied identity is noticed and not taken for the first. Agrees with DefaultBrokerHeartbeatManager, which keeps the
first connection of a broker; here the last one counts.
"""

from typing import Final, NamedTuple

import msgspec

from hanabi.controller.rules.state import Live
from hanabi.wire.headers.namesrv import BrokerHeartbeatHeader

TIMEOUT_MS: Final = 10_000  # of a broker that names none
TIMEOUT_MS_MAX: Final = 600_000
PRIORITY_LAST: Final = 2**31 - 1
BROKERS_MAX: Final = 10_000  # any peer may send heartbeats


class BrokerKey(NamedTuple):
    """One broker process."""

    cluster: str
    name: str
    broker_id: int


class _Heard(msgspec.Struct):
    live: Live
    seen_ms: int
    timeout_ms: int
    connection: object


class Liveness:
    """The last heartbeat of each broker."""

    def __init__(self) -> None:
        self._heard: dict[BrokerKey, _Heard] = {}

    def heartbeat(self, beat: BrokerHeartbeatHeader, connection: object, now_ms: int) -> str | None:
        """Note a heartbeat; return the address of another living broker with this id, which keeps it."""
        if beat.broker_id is None or beat.broker_id < 0:  # not registered yet
            return None
        key = BrokerKey(beat.cluster_name, beat.broker_name, beat.broker_id)
        before = self._heard.get(key)
        if before is not None and before.live.address != beat.broker_addr and not _is_silent(before, now_ms):
            return before.live.address
        if before is not None or len(self._heard) < BROKERS_MAX:
            self._heard[key] = _Heard(_live(beat), now_ms, _timeout_ms(beat), connection)
        return None

    def alive(self, cluster: str, name: str, now_ms: int) -> dict[int, Live]:
        """Return the living brokers of one name."""
        return {
            key.broker_id: heard.live
            for key, heard in self._heard.items()
            if key.name == name and key.cluster == cluster and not _is_silent(heard, now_ms)
        }

    def closed(self, connection: object) -> list[BrokerKey]:
        """Forget the brokers of a connection that is gone, and return them."""
        return self._forget([key for key, heard in self._heard.items() if heard.connection is connection])

    def expire(self, now_ms: int) -> list[BrokerKey]:
        """Forget the brokers that were silent for too long, and return them."""
        return self._forget([key for key, heard in self._heard.items() if _is_silent(heard, now_ms)])

    def stalled(self, late_ms: int) -> None:
        """Extend all deadlines: this process did not run, and heartbeats wait in its sockets."""
        for heard in self._heard.values():
            heard.seen_ms += late_ms

    def _forget(self, gone: list[BrokerKey]) -> list[BrokerKey]:
        for key in gone:
            del self._heard[key]
        return gone


def _is_silent(heard: _Heard, now_ms: int) -> bool:
    return now_ms - heard.seen_ms > heard.timeout_ms


def _timeout_ms(beat: BrokerHeartbeatHeader) -> int:
    asked = beat.heartbeat_timeout_mills
    return min(asked, TIMEOUT_MS_MAX) if asked is not None and asked > 0 else TIMEOUT_MS


def _live(beat: BrokerHeartbeatHeader) -> Live:
    return Live(
        address=beat.broker_addr,
        epoch=-1 if beat.epoch is None else beat.epoch,
        max_offset=-1 if beat.max_offset is None else beat.max_offset,
        priority=PRIORITY_LAST if beat.election_priority is None else beat.election_priority,
    )
