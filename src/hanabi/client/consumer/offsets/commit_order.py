"""In which order brokers hear how far a group has come.

Apache's brokers make a table when they hear of a group and topic for the first time, and two requests at one moment
make two tables, of which one is lost, though both are answered well (4.9.8 ConsumerOffsetManager.commitOffset). So one
queue of each goes ahead, and the others follow when that was answered.
"""

from collections.abc import Iterable

from hanabi.message import MessageQueue


def in_two_rounds(queues: Iterable[MessageQueue]) -> tuple[list[MessageQueue], list[MessageQueue]]:
    """One of *queues* of each broker and topic; and all others."""
    ahead: dict[tuple[str, str], MessageQueue] = {}
    every = list(queues)
    for queue in every:
        ahead.setdefault((queue.broker_name, queue.topic), queue)
    first = set(ahead.values())
    return list(ahead.values()), [queue for queue in every if queue not in first]
