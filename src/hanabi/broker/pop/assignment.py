"""Queues of a consumer that asks the broker for them (QUERY_ASSIGNMENT), by pull or by POP. Pure.

Agrees with Java's QueryAssignmentProcessor (5.3.3). All members of a group get their answer from brokers that know the
same members and queues, so all answers fit together.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from hanabi.message import MessageQueue

PULL: Final = "PULL"
POP: Final = "POP"
ANY_QUEUE: Final = -1

Share = Callable[[Sequence[MessageQueue], int, int], list[MessageQueue]]  # of the member at this index of so many


def averagely(queues: Sequence[MessageQueue], index: int, members: int) -> list[MessageQueue]:
    """Return a contiguous range of queues."""
    each, left_over = divmod(len(queues), members)
    start = index * each + min(index, left_over)
    return list(queues[start : start + each + (index < left_over)])


def by_circle(queues: Sequence[MessageQueue], index: int, members: int) -> list[MessageQueue]:
    """Return every so-many-th queue."""
    return list(queues[index::members])


STRATEGIES: Final[Mapping[str, Share]] = {"AVG": averagely, "AVG_BY_CIRCLE": by_circle}


def pull_share(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], client_id: str, share: Share
) -> list[MessageQueue]:
    """Return the queues of a member that pulls. Both sequences are sorted."""
    return share(queues, client_ids.index(client_id), len(client_ids)) if client_id in client_ids else []


def pop_share(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], client_id: str, share: Share, share_queues: int
) -> list[MessageQueue]:
    """Return the queues of a member that pops: any queue of each broker, or its own and those of the next
    *share_queues* members."""
    members = len(client_ids)
    if share_queues <= 0 or share_queues >= members - 1:
        return [MessageQueue(queue.topic, queue.broker_name, ANY_QUEUE) for queue in queues]
    if members > len(queues):
        return [queues[client_ids.index(client_id) % len(queues)]] if client_id in client_ids and queues else []
    if client_id not in client_ids:
        return []
    index = client_ids.index(client_id)
    return [queue for step in range(share_queues + 1) for queue in share(queues, (index + step) % members, members)]
