"""Positions of a stream, as its checkpoint has them. Pure.

    {"Orders": {"broker-a": {"0": [1200, 881234, 1763189100000], "1": 0}}}

A queue has its offset, and where a message stands before that, its log offset and store time. Checkpoints of earlier
versions have offsets alone: such a queue is not compared until it moves on.
"""

from typing import Any, Final, TypeAlias

from hanabi.message import MessageQueue
from hanabi.spark.shared.offsets import from_json
from hanabi.spark.shared.queue_marks import Mark, Positions

JsonPositions: TypeAlias = dict[str, dict[str, dict[str, int | list[int]]]]

CHECKPOINT: Final = "the checkpoint"


def positions_to_json(positions: Positions) -> JsonPositions:
    """Return *positions* by topic, broker and queue, sorted: Spark compares their text."""
    told: JsonPositions = {}
    for queue in sorted(positions.offsets):
        offset, mark = positions.offsets[queue], positions.marks.get(queue)
        queues = told.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})
        queues[str(queue.queue_id)] = offset if mark is None else [offset, *mark]
    return told


def positions_from_json(told: Any) -> Positions:
    """Parse the output of `positions_to_json`, or of an earlier version. Raises ConfigError."""
    offsets = from_json(told, CHECKPOINT)
    marks = {queue: mark for queue in offsets if (mark := _mark(told, queue)) is not None}
    return Positions(offsets, marks)


def _mark(told: Any, queue: MessageQueue) -> Mark | None:
    match told[queue.topic][queue.broker_name][str(queue.queue_id)]:
        case [int(), int(log_offset), int(stored_ms)]:
            return Mark(log_offset, stored_ms)
    return None
