"""Which messages are wanted: by topic, queue, offset, store time and tags. Pure.

Options make one, and filters that Spark pushes down make it narrower. What is None does not matter.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hanabi.wire.tags import tags_code

T = TypeVar("T")


@dataclass(frozen=True)
class Selection:
    """All that is given must hold. Times and offsets are [from, to)."""

    topics: frozenset[str] | None = None
    topic_pattern: str | None = None
    queues: frozenset[tuple[str, int]] | None = None
    queue_ids: frozenset[int] | None = None
    tags: frozenset[str] | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    from_offset: int | None = None
    to_offset: int | None = None
    from_offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)  # by topic and queue, where it is told
    to_offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def has_topic(self, topic: str) -> bool:
        return (
            (self.topics is None or topic in self.topics)
            and (self.topic_pattern is None or re.fullmatch(self.topic_pattern, topic) is not None)
            and (self.queues is None or any(topic == each for each, _ in self.queues))
        )

    def has_queue(self, topic: str, queue_id: int) -> bool:
        return (
            self.has_topic(topic)
            and (self.queues is None or (topic, queue_id) in self.queues)
            and (self.queue_ids is None or queue_id in self.queue_ids)
        )

    def offsets_of(self, topic: str, queue_id: int, first: int, end: int) -> tuple[int, int]:
        """What is wanted of a queue that has [first, end), as far as offsets say it."""
        queue = topic, queue_id
        begin = max(first, self.from_offset or 0, self.from_offsets.get(queue, 0))
        stops = (end, self.to_offset, self.to_offsets.get(queue))
        return begin, min(stop for stop in stops if stop is not None)

    def tags_codes(self) -> list[int] | None:
        """What consume queues keep of these tags."""
        return None if self.tags is None else sorted(tags_code(tag) for tag in self.tags)

    def narrowed(
        self,
        *,
        topics: frozenset[str] | None = None,
        queue_ids: frozenset[int] | None = None,
        tags: frozenset[str] | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        from_offset: int | None = None,
        to_offset: int | None = None,
    ) -> "Selection":
        """What this one and the given conditions both want."""
        return replace(
            self,
            topics=_both(self.topics, topics),
            queue_ids=_both(self.queue_ids, queue_ids),
            tags=_both(self.tags, tags),
            from_ms=_latest(self.from_ms, from_ms),
            to_ms=_earliest(self.to_ms, to_ms),
            from_offset=_latest(self.from_offset, from_offset),
            to_offset=_earliest(self.to_offset, to_offset),
        )


def _both(one: frozenset[T] | None, other: frozenset[T] | None) -> frozenset[T] | None:
    return other if one is None else one if other is None else one & other


def _latest(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)


def _earliest(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)
