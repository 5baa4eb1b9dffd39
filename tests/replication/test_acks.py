"""The puts of a master and the acknowledgements of its slaves, together."""

from hanabi.replication.acks import Acknowledgements
from hanabi.replication.rules.progress import SlaveProgress
from hanabi.replication.rules.put_rules import Group, PutRule
from hanabi.store.message_store import PutStatus

OK, NO_SLAVE = PutStatus.PUT_OK, PutStatus.SLAVE_NOT_AVAILABLE
TIMEOUT = PutStatus.FLUSH_SLAVE_TIMEOUT
GAP = 1000


class World:
    """A master without sockets: a clock, its slaves, and what puts were told."""

    def __init__(self, rule: PutRule, waiting_max: int = 100) -> None:
        self.now = 0.0
        self.deadlines: list[float] = []
        self.told: list[PutStatus] = []
        self.acks = Acknowledgements(
            rule, timeout_seconds=3, now=lambda: self.now, waiting_max=waiting_max, on_wait=self.deadlines.append
        )

    def put(self, end: int) -> None:
        self.acks.wait(end, self.told.append)

    def slave(self, held: int) -> SlaveProgress:
        one = SlaveProgress(address="a", reported=held, held=held, sent=10_000, heard_at=0, caught_up_at=0)
        self.acks.join(one)
        return one

    def ack(self, slave: SlaveProgress, offset: int) -> None:
        slave.acknowledge(offset, end=offset, now=self.now)
        self.acks.acknowledged()


def sync_world(**settings: object) -> World:
    return World(PutRule(is_sync=True, fall_behind_bytes_max=GAP, **settings))  # type: ignore[arg-type]


def test_without_a_slave_a_put_is_told_so_at_once() -> None:
    world = sync_world()
    world.put(100)
    assert world.told == [NO_SLAVE]
    assert world.acks.waiting == 0


def test_a_slave_too_far_behind_is_no_slave() -> None:
    world = sync_world()
    world.slave(100)
    world.put(1100)
    assert world.told == [NO_SLAVE]
    world.put(1099)
    assert world.told == [NO_SLAVE]
    assert world.acks.waiting == 1


def test_a_put_waits_for_one_slave_and_a_first_report_does_not_count() -> None:
    world = sync_world()
    slave = world.slave(100)
    world.put(100)
    assert world.told == []
    world.ack(slave, 100)
    assert world.told == [OK]
    world.put(90)
    assert world.told == [OK, OK]


def test_the_fastest_slave_is_enough_and_its_word_outlives_its_connection() -> None:
    world = sync_world()
    fast, _slow = world.slave(0), world.slave(0)
    world.ack(fast, 100)
    world.acks.leave(fast)
    world.put(100)
    assert world.told == [OK]
    world.put(101)
    assert world.told == [OK]


def test_a_put_without_an_acknowledgement_expires_after_the_timeout() -> None:
    world = sync_world()
    world.slave(0)
    world.put(100)
    assert world.deadlines == [3.0]
    world.now = 2.99
    assert world.acks.expire() == 0
    world.now = world.acks.next_deadline or 0
    assert world.acks.expire() == 1
    assert world.told == [TIMEOUT]
    assert world.acks.next_deadline is None


def test_two_acknowledgements_are_two_slaves() -> None:
    world = sync_world(in_sync_replicas=3)
    one, two = world.slave(0), world.slave(0)
    world.put(100)
    world.ack(one, 100)
    assert world.told == []
    world.ack(two, 99)
    assert world.told == []
    world.ack(two, 100)
    assert world.told == [OK]


def test_when_there_is_no_room_to_wait_a_put_is_told_that_no_slave_has_it() -> None:
    world = World(PutRule(is_sync=True), waiting_max=1)
    world.slave(0)
    world.put(1)
    world.put(2)
    assert world.told == [TIMEOUT]
    assert world.acks.waiting == 1
    world.acks.end_all()
    assert world.told == [TIMEOUT, TIMEOUT]


def test_a_group_that_lost_its_slaves_stores_nothing() -> None:
    world = sync_world(group=Group.ACTING_MASTER, in_sync_replicas=2)
    assert world.acks.why_refused(100) == "1 of 2 replicas are in sync"
    world.slave(100)
    assert world.acks.why_refused(100) is None
    world.acks.alive = 1
    assert world.acks.why_refused(100) is not None
