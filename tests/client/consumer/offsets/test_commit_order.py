"""One queue of each broker and topic goes ahead of the others."""

from hanabi.client.consumer.offsets.commit_order import commit_rounds
from hanabi.message import MessageQueue


def test_one_queue_of_each_broker_and_topic_goes_ahead() -> None:
    queues = [MessageQueue(topic, broker, number) for topic in "TU" for broker in "ab" for number in range(3)]
    ahead, others = commit_rounds(queues)
    assert ahead == [queue for queue in queues if queue.queue_id == 0]
    assert others == [queue for queue in queues if queue.queue_id > 0]


def test_nothing_is_told_twice_or_left_out() -> None:
    queues = [MessageQueue("T", "a", 3), MessageQueue("T", "b", 3), MessageQueue("T", "a", 1)]
    ahead, others = commit_rounds(queues)
    assert (ahead, others) == (queues[:2], queues[2:])
    assert commit_rounds([]) == ([], [])
