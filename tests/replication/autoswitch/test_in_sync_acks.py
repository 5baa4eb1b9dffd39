"""Puts of a master in controller mode: what they wait for when the set changes meanwhile."""

from hanabi.replication.autoswitch.acks import NO_LIMIT, InSyncAcks
from hanabi.replication.rules.put_rules import Group, PutRule
from hanabi.replication.rules.sync_set import Replica, SyncSet
from hanabi.store.message_store import PutStatus


class Master:
    """The acknowledgements of broker 1, whose log ends at `end`."""

    def __init__(self, minimum: int, *, is_all: bool = True, needed: int = 2) -> None:
        self.end, self.now, self.limits = 0, 0.0, list[int]()
        rule = PutRule(
            is_sync=True,
            group=Group.CONTROLLER,
            in_sync_replicas=needed,
            min_in_sync_replicas=minimum,
            is_all=is_all,
        )
        self.acks = InSyncAcks(
            rule,
            timeout_seconds=3.0,
            now=lambda: self.now,
            end_offset=lambda: self.end,
            on_confirmed=self.limits.append,
        )

    def put(self, end: int) -> list[PutStatus]:
        self.end = end
        statuses: list[PutStatus] = []
        self.acks.wait(end, statuses.append)
        return statuses

    def ack(self, number: int, offset: int) -> None:
        self.acks.replicas[number].acked = offset
        self.acks.acknowledged()


def members(*numbers: int, epoch: int = 1) -> SyncSet:
    return SyncSet(members=frozenset(numbers), epoch=epoch)


def master_of(*numbers: int, minimum: int = 2, is_all: bool = True, needed: int = 2) -> Master:
    master = Master(minimum, is_all=is_all, needed=needed)
    master.acks.begin(1, members(1))
    for number in numbers:
        master.acks.join_replica(Replica(number, acked=0))
    master.acks.use_set(members(1, *numbers, epoch=2))
    return master


def test_a_put_is_not_acknowledged_by_fewer_replicas_than_the_minimum_when_the_set_shrinks() -> None:
    master = master_of(2)
    statuses = master.put(100)
    master.acks.use_set(members(1, epoch=3))
    assert statuses == []
    assert master.acks.why_refused(100) == "1 of 2 replicas are in sync"
    master.now = 3.0
    master.acks.expire()
    assert statuses == [PutStatus.FLUSH_SLAVE_TIMEOUT]


def test_a_put_is_acknowledged_when_the_rest_of_a_large_enough_set_has_it() -> None:
    master = master_of(2, 3)
    statuses = master.put(100)
    master.ack(2, 100)
    assert statuses == []
    master.acks.use_set(members(1, 2, epoch=3))
    assert statuses == [PutStatus.PUT_OK]


def test_without_a_minimum_a_master_alone_acknowledges() -> None:
    master = master_of(2, minimum=1)
    statuses = master.put(100)
    master.acks.use_set(members(1, epoch=3))
    assert statuses == [PutStatus.PUT_OK]


def test_readers_follow_the_slowest_replica_and_never_go_back() -> None:
    master = master_of(2, 3)
    master.put(100)
    master.ack(2, 100)
    master.ack(3, 50)
    assert master.acks.confirmed == 50
    master.acks.use_set(members(1, 2, epoch=3))
    assert master.acks.confirmed == 100
    master.acks.use_set(members(1, 2, 3, epoch=4))
    assert master.acks.confirmed == 100


def test_with_other_replicas_in_its_first_set_a_master_confirms_nothing_alone() -> None:
    master = Master(1)
    master.end = 100
    master.acks.begin(1, members(1, 2))
    assert master.acks.confirmed == 0
    assert master.limits[-1] == 0


def test_one_acknowledgement_is_enough_without_all_ack() -> None:
    master = master_of(2, 3, is_all=False)
    statuses = master.put(100)
    master.ack(3, 100)
    assert statuses == [PutStatus.PUT_OK]
    assert master.acks.confirmed == NO_LIMIT
