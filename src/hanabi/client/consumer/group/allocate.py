"""Who of a group gets which queues: every member works it out for itself, and all must come to the same. Pure.

Agrees, result for result, with the six classes of org.apache.rocketmq.client.consumer.rebalance, so that Java and
Python members can share a group; `tests/interop/test_allocation.py` asks those classes themselves. Queues and client
ids come in as every member sorts them: see `sort_queues` and `sort_client_ids`.
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
    """A way of dividing the queues of one topic: the share of *client_id* among *client_ids*."""

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str], /
    ) -> list[MessageQueue]: ...


def _as_java_compares(text: str) -> bytes:
    """String.compareTo goes by UTF-16 units: not the order of code points where surrogates are in play."""
    return text.encode("utf-16-be", "surrogatepass")


def sort_client_ids(client_ids: Iterable[str]) -> list[str]:
    """In the order in which Java sorts them."""
    return sorted(client_ids, key=_as_java_compares)


def sort_queues(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """In the order of Java's MessageQueue.compareTo."""
    return sorted(
        queues, key=lambda queue: (_as_java_compares(queue.topic), _as_java_compares(queue.broker_name), queue.queue_id)
    )


def averagely(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
    """Neighbouring queues to each, the first members one more when it does not divide: Apache's default."""
    if client_id not in client_ids:
        return []
    index = client_ids.index(client_id)
    each, left_over = divmod(len(queues), len(client_ids))
    start = index * each + min(index, left_over)
    return list(queues[start : start + each + (index < left_over)])


def by_circle(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
    """One queue to each in turn, as cards are dealt."""
    if client_id not in client_ids:
        return []
    return list(queues[client_ids.index(client_id) :: len(client_ids)])


class ByConfig(msgspec.Struct, frozen=True):
    """The queues that this member was told to take, whoever else is there."""

    queues: Sequence[MessageQueue]

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str], /
    ) -> list[MessageQueue]:
        return list(self.queues)


class ByMachineRoom(msgspec.Struct, frozen=True):
    """Only queues of brokers whose name says that they are in one of these rooms: "room@broker-a"."""

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
        if index < left_over:  # what is left over is dealt from the end, not given to neighbours as `averagely` does
            share.append(near[each * len(client_ids) + index])
        return share

    def _is_near(self, broker_name: str) -> bool:
        parts = broker_name.split("@")
        while parts and not parts[-1]:  # Java's split drops what is empty at the end
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
    """Members on a ring of hashes, each at several places: few queues move when a member comes or goes."""

    virtual_nodes: int = VIRTUAL_NODES

    def __post_init__(self) -> None:
        if self.virtual_nodes < 0:
            raise ConfigError(f"virtual_nodes must not be negative, but is {self.virtual_nodes}")

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str], /
    ) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        # Where two hashes are the same, the member that comes later has the place, as in Java's TreeMap.
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
    """The first four bytes of MD5, as ConsistentHashRouter.MD5Hash."""
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def _grouped(values: Iterable[T], room_of: Callable[[T], str]) -> dict[str, list[T]]:
    grouped: dict[str, list[T]] = {}
    for value in values:
        room = room_of(value)
        if not room:
            raise ConfigError(f"no machine room is known for {value}")
        grouped.setdefault(room, []).append(value)
    return grouped
