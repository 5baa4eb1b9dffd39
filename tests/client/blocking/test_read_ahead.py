"""Iteration over a blocking lite pull consumer takes many messages in one call, and commits one by one."""

import contextlib
from collections.abc import Iterator

import pytest

from hanabi import LitePullConsumer, Message, MessageQueue, Producer
from hanabi.client.hooks import ConsumeContext
from hanabi.testing.embedded import EmbeddedCluster
from hanabi.testing.waiting import wait_until

COUNT = 100


class _Counting:
    """Hook that counts the messages of each hand-over."""

    def __init__(self, taken: list[int]) -> None:
        self._taken = taken

    def before_consume(self, context: ConsumeContext) -> None:
        self._taken.append(len(context.messages))

    def after_consume(self, context: ConsumeContext) -> None: ...


@pytest.fixture
def cluster(hanabi_cluster: EmbeddedCluster) -> EmbeddedCluster:
    hanabi_cluster.create_topic("T", queues=1)
    with Producer("p", namesrv=hanabi_cluster.namesrv) as producer:
        producer.send_batch([Message("T", b"%d" % number) for number in range(COUNT)])
    return hanabi_cluster


@contextlib.contextmanager
def consuming(cluster: EmbeddedCluster, *, auto_commit: bool = True) -> Iterator[tuple[LitePullConsumer, MessageQueue]]:
    consumer = LitePullConsumer("c", namesrv=cluster.namesrv, consume_from="first", auto_commit=auto_commit)
    consumer.subscribe("T")
    with consumer:
        (queue,) = consumer.queues_of("T")
        yield consumer, queue


def numbers(consumer: LitePullConsumer, count: int) -> list[int]:
    return [int(message.body) for _, message in zip(range(count), consumer, strict=False)]


def test_messages_come_in_order_and_the_hand_overs_are_few(cluster: EmbeddedCluster) -> None:
    taken: list[int] = []
    consumer = LitePullConsumer("c", namesrv=cluster.namesrv, consume_from="first", hooks=[_Counting(taken)])
    consumer.subscribe("T")
    with consumer:
        assert numbers(consumer, COUNT) == list(range(COUNT))
    assert sum(taken) == COUNT
    assert len(taken) <= COUNT // 8


def test_an_exception_leaves_the_current_message_and_none_before_it_unconsumed(cluster: EmbeddedCluster) -> None:
    with contextlib.suppress(ZeroDivisionError), consuming(cluster) as (consumer, _):
        for message in consumer:
            if message.body == b"41":
                raise ZeroDivisionError
    with consuming(cluster) as (consumer, queue):
        assert consumer.committed(queue) == 41
        assert numbers(consumer, 2) == [41, 42]


def test_a_break_counts_the_current_message_and_none_behind_it(cluster: EmbeddedCluster) -> None:
    with consuming(cluster) as (consumer, _):
        for message in consumer:
            if message.body == b"41":
                break
    with consuming(cluster) as (consumer, queue):
        assert consumer.committed(queue) == 42


def test_shutdown_outside_of_with_does_not_count_the_current_message(cluster: EmbeddedCluster) -> None:
    consumer = LitePullConsumer("c", namesrv=cluster.namesrv, consume_from="first")
    consumer.subscribe("T")
    consumer.start()
    assert numbers(consumer, 10) == list(range(10))
    consumer.shutdown()
    assert list(consumer) == []
    with consuming(cluster) as (consumer, queue):
        assert consumer.committed(queue) == 9


def test_commit_within_the_loop_commits_what_was_handed_out(cluster: EmbeddedCluster) -> None:
    with consuming(cluster, auto_commit=False) as (consumer, queue):
        assert numbers(consumer, 10) == list(range(10))
        consumer.commit()
        assert consumer.committed(queue) == 10
        assert numbers(consumer, 5) == [10, 11, 12, 13, 14]
    with consuming(cluster, auto_commit=False) as (consumer, _):
        assert numbers(consumer, 1) == [10]


def test_other_calls_see_the_position_behind_the_current_message(cluster: EmbeddedCluster) -> None:
    with consuming(cluster) as (consumer, queue):
        assert numbers(consumer, 10) == list(range(10))
        assert consumer.position(queue) == 10
        assert [int(message.body) for message in consumer.poll(count=2)] == [10, 11]
        assert numbers(consumer, 1) == [12]
        consumer.seek(queue, 50)
        assert numbers(consumer, 2) == [50, 51]
        message = next(consumer)
        consumer.give_back([message])
        assert numbers(consumer, 2) == [52, 53]


def test_a_paused_queue_hands_out_nothing_that_was_taken_before(cluster: EmbeddedCluster) -> None:
    with consuming(cluster) as (consumer, queue):
        assert numbers(consumer, 3) == [0, 1, 2]
        consumer.pause([queue])
        assert consumer.poll(0.05) == []
        consumer.resume([queue])
        assert numbers(consumer, 2) == [3, 4]


def test_a_queue_that_moved_to_another_member_is_not_read_on(cluster: EmbeddedCluster) -> None:
    with consuming(cluster) as (consumer, _):
        assert numbers(consumer, 3) == [0, 1, 2]
        consumer.unsubscribe("T")
        wait_until(lambda: not consumer.queues, "the queue is released")
        consumer.subscribe("T")
        assert numbers(consumer, 1) == [0]  # nothing was committed: the same as for any member that gets the queue
