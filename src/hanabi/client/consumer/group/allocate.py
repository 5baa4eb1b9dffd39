"""Allocation of queues to the members of a group: each member computes it, and all must get the same result. Pure.

Agrees, result for result, with the six classes of org.apache.rocketmq.client.consumer.rebalance, so that Java and
Python members can share a group; `tests/interop/test_allocation.py` compares with those classes. Queues and client ids
must be sorted as every member sorts them: see `sort_queues` and `sort_client_ids`.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from hanabi.errors import ConfigError
from hanabi.message import MessageQueue

VIRTUAL_NODES: Final = 10

T = TypeVar("T")


class Allocate(Protocol):
    """Strategy for dividing the queues of one topic; returns the share of *client_id* among *client_ids*."""

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str], /
    ) -> list[MessageQueue]: ...


def _as_java_compares(text: str) -> bytes:
    """Sort key of String.compareTo: it compares UTF-16 units, which differs from code point order for surrogates."""
    return text.encode("utf-16-be", "surrogatepass")


def sort_client_ids(client_ids: Iterable[str]) -> list[str]:
    """Sort client ids as Java does."""
    return sorted(client_ids, key=_as_java_compares)


def sort_queues(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Sort queues as Java's MessageQueue.compareTo does."""
    return sorted(
        queues, key=lambda queue: (_as_java_compares(queue.topic), _as_java_compares(queue.broker_name), queue.queue_id)
    )


def averagely(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
    """Give each member a contiguous range of queues, the first members one more if it does not divide: Apache's
    default.
    """
    if client_id not in client_ids:
        return []
    index = client_ids.index(client_id)
    each, left_over = divmod(len(queues), len(client_ids))
    start = index * each + min(index, left_over)
    return list(queues[start : start + each + (index < left_over)])


def by_circle(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
    """Deal the queues to the members one by one, round robin."""
    if client_id not in client_ids:
        return []
    return list(queues[client_ids.index(client_id) :: len(client_ids)])


class ByConfig(msgspec.Struct, frozen=True):
    """Fixed queues for this member, regardless of the other members."""

    queues: Sequence[MessageQueue]

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str], /
    ) -> list[MessageQueue]:
        return list(self.queues)


class ByMachineRoom(msgspec.Struct, frozen=True):
    """Only queues of brokers in these machine rooms, according to the broker's name: "room@broker-a"."""

    rooms: frozenset[str]

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str], /
    ) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        near = [queue for queue in queues if self._is_near(queue.broker_name)]
        index = client_ids.index(client_id)
        each, left_over = divmod(len(near), len(client_ids))
        share = near[index * each : (index + 1) * each]
        if index < left_over:  # the remainder is dealt from the end, not to neighbours as `averagely` does
            share.append(near[each * len(client_ids) + index])
        return share

    def _is_near(self, broker_name: str) -> bool:
        parts = broker_name.split("@")
        while parts and not parts[-1]:  # Java's split drops trailing empty parts
            parts.pop()
        return len(parts) == 2 and parts[0] in self.rooms


class MachineRoomNearby(msgspec.Struct, frozen=True):
    """Queues go to members in the same room; where a room has no member, all members share its queues."""

    inner: Allocate
    room_of_broker: Callable[[MessageQueue], str]
    room_of_client: Callable[[str], str]

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str], /
    ) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        queues_by_room = _grouped(queues, self.room_of_broker)
        clients_by_room = _grouped(client_ids, self.room_of_client)
        my_room = self.room_of_client(client_id)
        share: list[MessageQueue] = []
        if mine := queues_by_room.pop(my_room, None):
            share += self.inner(client_id, mine, clients_by_room[my_room])
        for room in sorted(queues_by_room, key=_as_java_compares):
            if room not in clients_by_room:
                share += self.inner(client_id, queues_by_room[room], client_ids)
        return share


class ConsistentHash(msgspec.Struct, frozen=True):
    """Members on a hash ring, each at several positions: few queues move when a member comes or goes."""

    virtual_nodes: int = VIRTUAL_NODES

    def __post_init__(self) -> None:
        if self.virtual_nodes < 0:
            raise ConfigError(f"virtual_nodes must not be negative, but is {self.virtual_nodes}")

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str], /
    ) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        # On a hash collision the later member wins, as in Java's TreeMap.
        ring = {_ring_hash(f"{member}-{node}"): member for member in client_ids for node in range(self.virtual_nodes)}
        places = sorted(ring)
        return [queue for queue in queues if _owner(ring, places, queue) == client_id]


def _owner(ring: Mapping[int, str], places: Sequence[int], queue: MessageQueue) -> str | None:
    if not places:
        return None
    # MessageQueue.toString(), which Java hashes.
    text = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
    at = bisect_left(places, _ring_hash(text))
    return ring[places[at % len(places)]]


def _ring_hash(text: str) -> int:
    """Return the first four bytes of MD5, as ConsistentHashRouter.MD5Hash does."""
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def _grouped(values: Iterable[T], room_of: Callable[[T], str]) -> dict[str, list[T]]:
    grouped: dict[str, list[T]] = {}
    for value in values:
        room = room_of(value)
        if not room:
            raise ConfigError(f"no machine room is known for {value}")
        grouped.setdefault(room, []).append(value)
    return grouped
