"""Puts that wait: each is told once, in order, as early as it may be and not later than its deadline."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from hanabi.replication.rules.waiters import Waiters
from hanabi.store.message_store import PutStatus

OK, TIMEOUT = PutStatus.PUT_OK, PutStatus.FLUSH_SLAVE_TIMEOUT


class Told:
    """Outcomes of the puts, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[int, PutStatus]] = []

    def __call__(self, number: int) -> Callable[[PutStatus], None]:
        return lambda status: self.events.append((number, status))


def test_one_acknowledgement_releases_all_at_or_below_it() -> None:
    told, waiters = Told(), Waiters(10)
    for offset in (10, 20, 30):
        assert waiters.add(offset, 3.0, told(offset))
    assert waiters.release(9) == 0
    assert waiters.release(20) == 2
    assert told.events == [(10, OK), (20, OK)]
    assert len(waiters) == 1


def test_puts_expire_at_their_deadline_and_are_not_told_again() -> None:
    told, waiters = Told(), Waiters(10)
    waiters.add(10, 3.0, told(1))
    waiters.add(20, 3.5, told(2))
    assert waiters.next_deadline == 3.0
    assert waiters.expire(2.9) == 0
    assert waiters.expire(3.0) == 1
    assert waiters.next_deadline == 3.5
    assert waiters.release(100) == 1
    assert waiters.next_deadline is None
    assert told.events == [(1, TIMEOUT), (2, OK)]


def test_there_is_room_for_so_many_and_no_more() -> None:
    told, waiters = Told(), Waiters(2)
    assert waiters.add(1, 1, told(1))
    assert waiters.add(2, 1, told(2))
    assert not waiters.add(3, 1, told(3))
    waiters.end_all(TIMEOUT)
    assert told.events == [(1, TIMEOUT), (2, TIMEOUT)]


def test_a_put_that_is_added_while_others_are_told_waits_for_its_own_turn() -> None:
    told, waiters = Told(), Waiters(10)

    def put_more(status: PutStatus) -> None:
        waiters.add(11, 2, told(11))

    waiters.add(10, 1, put_more)
    waiters.add(11, 1, told(110))
    assert waiters.release(11) == 2
    assert told.events == [(110, OK)]
    assert waiters.release(11) == 1
    assert told.events == [(110, OK), (11, OK)]


@given(st.lists(st.tuples(st.sampled_from(["put", "ack", "tick"]), st.integers(0, 5)), max_size=60))
def test_every_put_is_told_once_and_never_ok_before_its_offset_is_acknowledged(
    steps: list[tuple[str, int]],
) -> None:
    told, waiters = Told(), Waiters(1000)
    end = acked = now = 0
    ends: list[int] = []
    for step, size in steps:
        if step == "put":
            end += size
            ends.append(end)
            waiters.add(end, now + 3, told(len(ends) - 1))
        elif step == "ack":
            acked = min(acked + 2 * size, end)
            waiters.release(acked)
        else:
            now += size
            waiters.expire(now)
        assert all(ends[number] <= acked for number, status in told.events if status is OK)
    waiters.end_all(TIMEOUT)
    assert [number for number, _ in told.events] == list(range(len(ends)))
