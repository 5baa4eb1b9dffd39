"""Selection of messages by topic, queue, offset, store time and tags. Pure.

Built from options. None means no restriction.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hanabi.wire.message.tags import tags_code


@dataclass(frozen=True)
class Selection:
    """Conditions that must all hold. Times and offsets are [from, to)."""

    topics: frozenset[str] | None = None
    topic_pattern: str | None = None
    queues: frozenset[tuple[str, int]] | None = None
    tags: frozenset[str] | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    from_offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)  # by topic and queue, where given
    to_offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def has_topic(self, topic: str) -> bool:
        return (
            (self.topics is None or topic in self.topics)
            and (self.topic_pattern is None or re.fullmatch(self.topic_pattern, topic) is not None)
            and (self.queues is None or any(topic == each for each, _ in self.queues))
        )

    def has_queue(self, topic: str, queue_id: int) -> bool:
        return self.has_topic(topic) and (self.queues is None or (topic, queue_id) in self.queues)

    def offsets_of(self, topic: str, queue_id: int, first: int, end: int) -> tuple[int, int]:
        """Return the range of selected offsets of a queue that holds [first, end)."""
        queue = topic, queue_id
        return max(first, self.from_offsets.get(queue, 0)), min(end, self.to_offsets.get(queue, end))

    def tags_codes(self) -> list[int] | None:
        """Return the hash codes that consume queues keep of the selected tags; None without a selection."""
        return None if self.tags is None else sorted(tags_code(tag) for tag in self.tags)
