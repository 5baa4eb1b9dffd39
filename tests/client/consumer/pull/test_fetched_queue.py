"""Tests of giving back fetched messages: in order, and not after a seek."""

from hanabi.client.consumer.pull.fetched_queue import FetchedQueue
from hanabi.message import MessageQueue
from tests.client.consumer.stored import stored


def held() -> FetchedQueue:
    fetched = FetchedQueue(MessageQueue("T", "a", 0))
    fetched.next_offset = 0
    fetched.add([stored(offset) for offset in range(5)], 5)
    return fetched


def test_what_is_given_back_is_taken_again_in_order() -> None:
    fetched = held()
    fetched.take(2)
    fetched.take(2)
    fetched.give_back([2, 3])
    assert fetched.position == 2
    assert fetched.settle() == 2
    assert [message.queue_offset for message in fetched.take(9)] == [2, 3, 4]
    fetched.give_back([3])
    assert [message.queue_offset for message in fetched.take(9)] == [3, 4]
    assert fetched.body_bytes == 0


def test_only_the_last_take_can_be_given_back_and_nothing_after_a_seek() -> None:
    fetched = held()
    fetched.take(2)
    fetched.take(1)
    fetched.give_back([0, 1])
    assert fetched.position == 2  # the last one was behind the first that is given back
    fetched.take(1)
    fetched.seek(4)
    fetched.give_back([2])
    assert fetched.count == 0
    assert fetched.position == 4
