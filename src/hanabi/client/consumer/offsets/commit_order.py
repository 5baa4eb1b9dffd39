"""Order of first-time offset commits (works around a race in Apache's ConsumerOffsetManager).

Apache's brokers create a table at the first commit for a group and topic. Two concurrent first commits create two
tables; one is lost although both commits succeed (4.9.8 ConsumerOffsetManager.commitOffset). So one queue of each topic
and broker is committed first, and the rest follow after its response.
"""

from collections.abc import Iterable

from hanabi.message import MessageQueue


def commit_rounds(queues: Iterable[MessageQueue]) -> tuple[list[MessageQueue], list[MessageQueue]]:
    """Split *queues* into one per broker and topic, and the rest."""
    ahead: dict[tuple[str, str], MessageQueue] = {}
    every = list(queues)
    for queue in every:
        ahead.setdefault((queue.broker_name, queue.topic), queue)
    first = set(ahead.values())
    return list(ahead.values()), [queue for queue in every if queue not in first]
