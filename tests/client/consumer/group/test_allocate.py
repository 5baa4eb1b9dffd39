"""Queues are shared completely and without overlap. That Apache shares them alike is in tests/interop."""

import random

import pytest

from hanabi.client.consumer.group.allocate import (
    Allocate,
    ByConfig,
    ByMachineRoom,
    ConsistentHash,
    MachineRoomNearby,
    averagely,
    by_circle,
    sort_client_ids,
    sort_queues,
)
from hanabi.errors import ConfigError
from hanabi.message import MessageQueue


def _queues(count: int, broker: str = "broker-a") -> list[MessageQueue]:
    return [MessageQueue("Orders", broker, number) for number in range(count)]


def _numbers(queues: list[MessageQueue]) -> list[int]:
    return [queue.queue_id for queue in queues]


def test_averagely_gives_neighbours_and_the_first_members_one_more() -> None:
    shares = [_numbers(averagely(client, _queues(8), ["a", "b", "c"])) for client in ("a", "b", "c")]
    assert shares == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_by_circle_deals_one_after_the_other() -> None:
    shares = [_numbers(by_circle(client, _queues(8), ["a", "b", "c"])) for client in ("a", "b", "c")]
    assert shares == [[0, 3, 6], [1, 4, 7], [2, 5]]


def test_members_beyond_the_number_of_queues_get_none() -> None:
    for allocate in (averagely, by_circle):
        assert [_numbers(allocate(client, _queues(2), ["a", "b", "c"])) for client in "abc"] == [[0], [1], []]


def test_a_machine_room_is_served_by_name_and_what_is_left_over_is_dealt() -> None:
    queues = sort_queues(_queues(5, "r1@broker-a") + _queues(4, "r2@broker-b") + _queues(4, "broker-c"))
    allocate = ByMachineRoom(frozenset({"r1"}))
    assert [_numbers(allocate(client, queues, ["a", "b"])) for client in "ab"] == [[0, 1, 4], [2, 3]]


def test_queues_near_a_member_are_its_own_and_those_of_empty_rooms_are_shared() -> None:
    near = MachineRoomNearby(averagely, lambda queue: queue.broker_name[0], lambda client: client[0])
    queues = sort_queues(_queues(2, "a-1") + _queues(2, "b-1") + _queues(2, "c-1"))
    shares = {client: near(client, queues, ["a1", "b1"]) for client in ("a1", "b1")}
    assert [f"{queue.broker_name}:{queue.queue_id}" for queue in shares["a1"]] == ["a-1:0", "a-1:1", "c-1:0"]
    assert [f"{queue.broker_name}:{queue.queue_id}" for queue in shares["b1"]] == ["b-1:0", "b-1:1", "c-1:1"]


def test_a_member_or_broker_in_no_room_is_an_error() -> None:
    near = MachineRoomNearby(averagely, lambda _: "", lambda client: client[0])
    with pytest.raises(ConfigError, match="no machine room"):
        near("a", _queues(1), ["a"])


def test_by_config_takes_what_it_was_told_whoever_is_there() -> None:
    assert ByConfig(_queues(2))("a", _queues(8), ["b", "c"]) == _queues(2)


def test_few_queues_move_on_the_ring_when_a_member_goes() -> None:
    queues, members = _queues(64), [f"10.0.0.{number}@1" for number in range(4)]
    ring = ConsistentHash()
    before = {queue: member for member in members for queue in ring(member, queues, members)}
    after = {queue: member for member in members[:3] for queue in ring(member, queues, members[:3])}
    assert len(before) == len(after) == 64
    assert all(after[queue] == member for queue, member in before.items() if member != members[3])


def test_a_negative_number_of_places_on_the_ring_is_an_error() -> None:
    with pytest.raises(ConfigError, match="virtual_nodes"):
        ConsistentHash(-1)


@pytest.mark.parametrize(
    "allocate",
    [averagely, by_circle, ConsistentHash(), MachineRoomNearby(by_circle, lambda q: q.broker_name[0], lambda c: c[0])],
)
def test_every_queue_is_exactly_one_members(allocate: Allocate) -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    for _ in range(100):
        members = sort_client_ids(
            f"{chance.choice('abc')}{chance.getrandbits(30)}" for _ in range(chance.randint(1, 9))
        )
        queues = sort_queues(
            queue for broker in "abcd"[: chance.randint(1, 4)] for queue in _queues(chance.randint(1, 9), broker)
        )
        shares = [queue for member in members for queue in allocate(member, queues, members)]
        assert sorted(shares) == sorted(queues), f"seed {seed}"
        assert allocate("absent", queues, members) == []


def test_names_are_sorted_as_java_sorts_them() -> None:
    assert sort_client_ids(["\uffee", "😀", "b", "B"]) == ["B", "b", "😀", "\uffee"]
