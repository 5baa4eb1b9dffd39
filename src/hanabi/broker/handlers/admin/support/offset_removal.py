"""Removal of offsets in small steps: a group may have one in every topic, and a topic one of every group.

A removal completes even if the requesting connection ends.
"""

from collections.abc import Iterable

from hanabi.broker.handlers.admin.support.uncancelled import uncancelled
from hanabi.broker.handlers.yielding import Yielder
from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets


async def forget_group(offsets: ConsumerOffsets, group: str) -> None:
    """Remove all offsets of *group*."""
    await uncancelled(_forget(offsets, [(group, topic) for topic in offsets.topics_of(group)]))


async def forget_topic(offsets: ConsumerOffsets, topic: str) -> None:
    """Remove the offsets of all groups in *topic*."""
    await uncancelled(_forget(offsets, [(group, topic) for group in offsets.groups_of(topic)]))


async def _forget(offsets: ConsumerOffsets, pairs: Iterable[tuple[str, str]]) -> None:
    pace = Yielder()
    for group, topic in pairs:
        await pace.pause()
        offsets.remove(group, topic)
