"""Forgetting offsets without holding up messages: a group may have one in every topic, and a topic one of every group.

A removal goes on to its end whatever becomes of the connection that asked for it.
"""

from collections.abc import Iterable

from hanabi.broker.handlers.admin.support.uncancelled import uncancelled
from hanabi.broker.handlers.yielding import Yielder
from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets


async def forget_group(offsets: ConsumerOffsets, group: str) -> None:
    """Forget how far *group* has come, everywhere."""
    await uncancelled(_forget(offsets, [(group, topic) for topic in offsets.topics_of(group)]))


async def forget_topic(offsets: ConsumerOffsets, topic: str) -> None:
    """Forget how far any group has come in *topic*."""
    await uncancelled(_forget(offsets, [(group, topic) for group in offsets.groups_of(topic)]))


async def _forget(offsets: ConsumerOffsets, pairs: Iterable[tuple[str, str]]) -> None:
    pace = Yielder()
    for group, topic in pairs:
        await pace.pause()
        offsets.remove(group, topic)
