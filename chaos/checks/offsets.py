"""Offsets never go backwards: neither the ends of a queue nor how far a group has come. Not at a kill either.

Nobody in these runs seeks or resets, so no step back is meant.
"""

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence

from chaos.checks.ledger import Ledger
from chaos.history import Position


def backwards(ledger: Ledger, kills: Mapping[str, Sequence[float]]) -> list[str]:
    """*kills*: when each broker was killed, which is no excuse, but good to know."""
    queues: dict[tuple[str, str, str, int], list[Position]] = defaultdict(list)
    for each in sorted(ledger.positions, key=lambda position: position.at):
        queues[each.group, each.topic, each.broker, each.queue_id].append(each)
    found: list[str] = []
    for (group, topic, broker, queue_id), positions in sorted(queues.items()):
        name = f"{topic} {broker} queue {queue_id}"
        for before, after in itertools.pairwise(positions):
            if after.asked < before.at:  # asked side by side: nobody knows which was answered first
                continue
            killed = any(before.asked <= kill <= after.at for kill in kills.get(broker, ()))
            when = f"at {after.at:.3f}, {'after a kill' if killed else 'and nobody was killed'}"
            if after.last < before.last:
                found.append(f"{name}: its end went from {before.last} to {after.last} {when}")
            if after.first < before.first:
                found.append(f"{name}: its begin went from {before.first} to {after.first} {when}")
            was, now = before.committed or 0, after.committed or 0
            if now < was:
                found.append(f"{group} in {name}: went from {was} to {now} {when}")
    return found
