"""Ordered traffic stays in order: as it was sent, so it is stored; as it is stored, so each queue is consumed.

Being delivered again is allowed (a crash, a queue that changes hands): then a queue goes back a little and on again.
What is not allowed is that a message comes for the first time before one that lies in front of it.
"""

from collections import defaultdict

from chaos.checks.ledger import Ledger
from chaos.history import Delivered
from chaos.traffic import Kind

Queue = tuple[str, int]


def _by_queue(ledger: Ledger) -> dict[Queue, list[Delivered]]:
    queues: dict[Queue, list[Delivered]] = defaultdict(list)
    for each in ledger.deliveries():
        if each.kind is Kind.ORDERLY:
            queues[each.broker, each.queue_id].append(each)
    return queues


def reordered(ledger: Ledger) -> list[str]:
    """First deliveries of each queue must be 0, 1, 2 ...: neither a step back nor a gap."""
    found: list[str] = []
    for (broker, queue_id), deliveries in sorted(_by_queue(ledger).items()):
        wanted = 0
        seen: set[int] = set()
        for each in deliveries:
            if each.offset in seen:
                continue
            seen.add(each.offset)
            if each.offset != wanted:
                found.append(
                    f"{broker} queue {queue_id}: {each.consumer} got offset {each.offset} ({each.label})"
                    f" at {each.at:.3f} where {wanted} was next"
                )
            wanted = max(wanted, each.offset + 1)
    return found


def stored_out_of_order(ledger: Ledger) -> list[str]:
    """Return one sender sends to a queue one message after the other, so their first places in it must ascend."""
    first: dict[tuple[Queue, str], dict[int, int]] = defaultdict(dict)
    for queue, deliveries in _by_queue(ledger).items():
        for each in deliveries:
            places = first[queue, each.producer]
            places[each.number] = min(each.offset, places.get(each.number, each.offset))
    found: list[str] = []
    for ((broker, queue_id), producer), places in sorted(first.items()):
        last = -1
        for number in sorted(places):
            if places[number] < last:
                found.append(f"{broker} queue {queue_id}: {producer}'s {number} is stored before what it sent earlier")
            last = max(last, places[number])
    return found


def overlaps(ledger: Ledger) -> int:
    """Return how often two members were at work on one queue at once. A member that is stopped, or whose broker
    forgot its lock by a crash, cannot know; so it is counted and not judged."""
    returned = {(each.consumer, each.broker, each.queue_id, each.offset): each.at for each in ledger.returned}
    count = 0
    for (broker, queue_id), deliveries in _by_queue(ledger).items():
        busy_until: dict[str, float] = {}
        for each in deliveries:
            count += any(until > each.at for other, until in busy_until.items() if other != each.consumer)
            end = returned.get((each.consumer, broker, queue_id, each.offset), each.at)
            busy_until[each.consumer] = max(end, busy_until.get(each.consumer, 0.0))
    return count
