"""Offsets of queues, as options and checkpoints write them. Pure.

    {"Orders": {"broker-a": {"0": 1200, "1": 1187}}}

Spark compares offsets by their text, so the output is always sorted. Offsets from one query's checkpoint are valid as
another query's `startingOffsets`.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from hanabi.errors import ConfigError
from hanabi.message import MessageQueue

Offsets: TypeAlias = dict[MessageQueue, int]
JsonOffsets: TypeAlias = dict[str, dict[str, dict[str, int]]]

EARLIEST: Final = -2  # as Kafka's connector
LATEST: Final = -1


def to_json(offsets: Mapping[MessageQueue, int]) -> JsonOffsets:
    """Return *offsets* by topic, broker and queue, in their order."""
    data: JsonOffsets = {}
    for queue in sorted(offsets):
        data.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return data


def from_json(data: object, where: str, *, least: int = 0) -> Offsets:
    """Return the offsets in *data*.

    A ConfigError names the fault and *where* it is, such as "option startingOffsets".
    """
    found: Offsets = {}
    for topic, brokers in _object(data, where).items():
        for broker_name, queues in _object(brokers, f"{where}, topic {topic}").items():
            for queue_id, offset in _object(queues, f"{where}, topic {topic}, broker {broker_name}").items():
                place = f"{where}, topic {topic}, broker {broker_name}, queue {queue_id}"
                if not queue_id.isdecimal():
                    raise ConfigError(f"{place}: a queue is named by its number")
                found[MessageQueue(topic, broker_name, int(queue_id))] = _offset(offset, place, least)
    return found


def _offset(data: object, place: str, least: int) -> int:
    """Return a number; of a checkpoint's entry, the first number (see `positions`)."""
    offset = data[0] if isinstance(data, list) and data else data
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < least:
        raise ConfigError(f"{place}: {data!r} must be a whole number, at least {least}")
    return offset


def _object(data: object, where: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise ConfigError(f'{where}: must be of the form {{"Orders": {{"broker-a": {{"0": 1200}}}}}}, not {data!r}')
    return data


def describe(queue: MessageQueue) -> str:
    """Return the text of a queue for errors."""
    return f"topic {queue.topic}, queue {queue.queue_id} of {queue.broker_name}"
