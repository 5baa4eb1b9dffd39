"""Locks on queues."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.broker.clients.queue_locks import LOCK_LIFE_MS, QueueLocks
from hanabi.errors import SystemBusy
from hanabi.message import MessageQueue
from hanabi.testing.clock import ManualClock

A, B, C = (MessageQueue("T", "broker-a", number) for number in range(3))


class Locks(QueueLocks):
    def __init__(self, locks_max: int = 100) -> None:
        self.clock = ManualClock()
        super().__init__(self.clock, locks_max=locks_max)


def test_a_queue_has_one_owner_and_others_wait() -> None:
    locks = Locks()
    assert locks.lock("G", "one", [A, B]) == [A, B]
    assert locks.lock("G", "two", [B, C]) == [C]
    assert locks.lock("G", "one", [A, B, C]) == [A, B]


def test_groups_do_not_know_of_each_other() -> None:
    locks = Locks()
    assert locks.lock("G", "one", [A]) == locks.lock("H", "two", [A]) == [A]


def test_a_lock_that_is_renewed_lasts_and_one_that_is_not_expires_after_60_seconds() -> None:
    locks = Locks()
    locks.lock("G", "one", [A, B])
    for _ in range(5):
        locks.clock.ms += LOCK_LIFE_MS
        assert locks.lock("G", "one", [A]) == [A]
        assert locks.lock("G", "two", [A]) == []
    assert locks.lock("G", "two", [B]) == [B]
    assert locks.lock("G", "one", [B]) == []


def test_it_expires_not_a_millisecond_too_early() -> None:
    locks = Locks()
    locks.lock("G", "one", [A])
    locks.clock.ms += LOCK_LIFE_MS
    assert locks.lock("G", "two", [A]) == []
    locks.clock.ms += 1
    assert locks.lock("G", "two", [A]) == [A]


def test_the_owner_unlocks_and_nobody_else() -> None:
    locks = Locks()
    locks.lock("G", "one", [A, B])
    locks.unlock("G", "two", [A])
    locks.unlock("unknown", "one", [A])
    assert locks.lock("G", "two", [A]) == []
    locks.unlock("G", "one", [A, C])
    assert locks.lock("G", "two", [A, B]) == [A]


def test_a_client_that_unregisters_has_stopped_and_its_queues_are_free_at_once() -> None:
    locks = Locks()
    locks.lock("G", "one", [A])
    locks.lock("H", "one", [A])
    locks.left("G", "one", True)
    assert locks.lock("G", "two", [A]) == [A]
    assert locks.lock("H", "two", [A]) == []


def test_a_client_whose_connection_ended_may_live_on_and_keeps_its_queues_while_it_believes_in_them() -> None:
    locks = Locks()
    locks.lock("G", "one", [A, B])
    locks.clock.ms += 20_000
    locks.left("G", "one", False)
    locks.clock.ms += 15_000  # clients believe for 30 seconds, and the last renewal may have been on its way for 5
    assert locks.lock("G", "two", [A]) == []
    locks.clock.ms += 1
    assert locks.lock("G", "two", [A]) == [A]
    locks.left("G", "stranger", False)


def test_a_client_that_comes_back_in_time_has_its_queues_for_60_seconds_again() -> None:
    locks = Locks()
    locks.lock("G", "one", [A])
    locks.left("G", "one", False)
    assert locks.lock("G", "one", [A]) == [A]
    locks.clock.ms += LOCK_LIFE_MS
    assert locks.lock("G", "two", [A]) == []


def test_locks_that_nobody_renews_are_forgotten() -> None:
    locks = Locks()
    locks.lock("G", "one", [A])
    locks.lock("H", "one", [A])
    locks.clock.ms += LOCK_LIFE_MS
    locks.lock("H", "one", [A])
    locks.clock.ms += 1
    locks.forget_expired()
    assert not locks.of_group("G")
    assert set(locks.of_group("H")) == {A}
    locks.remove_group("H")
    assert not locks.of_group("H")


def test_there_are_not_more_locks_than_the_limit() -> None:
    locks = Locks(locks_max=2)
    locks.lock("G", "one", [A, B])
    with pytest.raises(SystemBusy, match="2 queues are locked already"):
        locks.lock("H", "one", [C])
    assert not locks.of_group("H")
    assert locks.lock("G", "one", [A, B]) == [A, B]
    locks.unlock("G", "one", [A])
    assert locks.lock("H", "one", [C]) == [C]


steps = st.one_of(
    st.tuples(st.just("lock"), st.sampled_from("xyz"), st.lists(st.sampled_from([A, B, C]))),
    st.tuples(st.just("unlock"), st.sampled_from("xyz"), st.lists(st.sampled_from([A, B, C]))),
    st.tuples(st.just("leave"), st.sampled_from("xyz"), st.booleans()),
    st.tuples(st.just("wait"), st.integers(0, 70_000), st.none()),
)


@given(st.lists(steps, max_size=40))
def test_nobody_gets_a_queue_while_another_may_believe_it_has_it(moves: list[tuple[str, object, object]]) -> None:
    locks = Locks()
    believes: dict[MessageQueue, tuple[str, int]] = {}  # who was told that it has the queue, and until when it counts
    for move, who, what in moves:
        client = str(who)
        if move == "lock":
            assert isinstance(what, list)
            for queue in locks.lock("G", client, what):
                owner, until_ms = believes.get(queue, (client, 0))
                assert owner == client or until_ms < locks.clock.ms
                believes[queue] = client, locks.clock.ms + 30_000
        elif move == "unlock":
            assert isinstance(what, list)
            locks.unlock("G", client, what)
            believes = {queue: held for queue, held in believes.items() if queue not in what or held[0] != client}
        elif move == "leave":
            locks.left("G", client, bool(what))
            if what:
                believes = {queue: held for queue, held in believes.items() if held[0] != client}
        else:
            assert isinstance(who, int)
            locks.clock.ms += who
            locks.forget_expired()
