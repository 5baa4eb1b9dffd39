"""Tests of the choice of a queue: turns, and avoided brokers."""

import pytest

from hanabi.client.producer.routing.fault_tolerance import FaultTolerance, avoid_seconds
from hanabi.client.producer.routing.queue_choice import QueueChoice, alternating
from hanabi.client.producer.routing.topic_creation import TopicCreation
from hanabi.message import MessageQueue
from hanabi.testing.clock import ManualClock


def queues(**counts: int) -> list[MessageQueue]:
    return [MessageQueue("T", name, number) for name, count in counts.items() for number in range(count)]


def test_brokers_alternate() -> None:
    assert [(queue.broker_name, queue.queue_id) for queue in alternating(queues(a=3, b=2))] == [
        ("a", 0),
        ("b", 0),
        ("a", 1),
        ("b", 1),
        ("a", 2),
    ]


def test_every_queue_has_its_turn() -> None:
    choice = QueueChoice(queues(a=2, b=2), start=3)
    first = [choice.next() for _ in range(4)]
    assert set(first) == set(queues(a=2, b=2))
    assert [choice.next() for _ in range(4)] == first


def test_brokers_that_were_tried_are_avoided_while_there_are_others() -> None:
    choice = QueueChoice(queues(a=4, b=4, c=4))
    for _ in range(10):
        assert choice.next(["a"]).broker_name in "bc"
        assert choice.next(["a", "c"]).broker_name == "b"
    assert choice.next(["a", "b", "c"]).broker_name in "abc"


@pytest.mark.parametrize(
    ("latency", "avoided"),
    [
        (0.0, 0),
        (0.54, 0),
        (0.55, 30),
        (0.99, 30),
        (1.0, 60),
        (2.0, 120),
        (3.0, 180),
        (14.9, 180),
        (15.0, 600),
        (99, 600),
    ],
)
def test_the_slower_an_answer_the_longer_its_broker_is_avoided(latency: float, avoided: float) -> None:
    assert avoid_seconds(latency) == avoided


def test_a_slow_broker_is_avoided_until_its_time_is_over() -> None:
    clock = ManualClock(1_000_000)
    faults = FaultTolerance(clock.seconds)
    choice = QueueChoice(queues(a=2, b=2), faults=faults)
    faults.record("a", 0.6, failed=False)
    assert {choice.next().broker_name for _ in range(8)} == {"b"}
    clock.ms += 29_900
    assert {choice.next().broker_name for _ in range(8)} == {"b"}
    clock.ms += 200
    assert {choice.next().broker_name for _ in range(8)} == {"a", "b"}


def test_a_broker_that_failed_is_avoided_for_ten_minutes_and_a_good_answer_ends_that() -> None:
    clock = ManualClock(1_000_000)
    faults = FaultTolerance(clock.seconds)
    faults.record("a", 0.001, failed=True)
    clock.ms += 599_000
    assert not faults.is_usable("a")
    faults.record("a", 0.001, failed=False)
    assert faults.is_usable("a")


def test_of_bad_brokers_the_least_bad_is_taken() -> None:
    clock = ManualClock(1_000_000)
    faults = FaultTolerance(clock.seconds)
    choice = QueueChoice(queues(a=2, b=2, c=2), faults=faults)
    faults.record("a", 5.0, failed=False)
    faults.record("b", 0.7, failed=False)
    faults.record("c", 2.5, failed=False)
    assert choice.next().broker_name == "b"
    assert choice.next(["b"]).broker_name == "c"


def test_the_first_messages_of_a_topic_go_to_each_broker_in_turn() -> None:
    first = TopicCreation(queues(a=4, b=4, c=4))
    turns = [first.next() for _ in range(4)]
    assert [queue.broker_name for queue in turns if queue] == ["a", "b", "c", "a"]
    first.mark_tried("a")
    first.mark_tried("c")
    assert not first.over
    assert {queue.broker_name for _ in range(3) if (queue := first.next())} == {"b"}
    first.mark_tried("b")
    first.mark_tried("b")
    assert first.over
    assert first.next() is None


def test_many_first_messages_go_to_all_queues_of_their_broker() -> None:
    first = TopicCreation(queues(a=4))
    assert [queue.queue_id for _ in range(5) if (queue := first.next())] == [0, 1, 2, 3, 0]
