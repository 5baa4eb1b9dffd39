"""Which messages are wanted: by topic, queue, offset, store time and tags. Pure.

Options make one. What is None does not matter.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hanabi.wire.message.tags import tags_code


@dataclass(frozen=True)
class Selection:
    """All that is given must hold. Times and offsets are [from, to)."""

    topics: frozenset[str] | None = None
    topic_pattern: str | None = None
    queues: frozenset[tuple[str, int]] | None = None
    tags: frozenset[str] | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    from_offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)  # by topic and queue, where it is told
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
        """Return what is wanted of a queue that has [first, end), as far as offsets say it."""
        queue = topic, queue_id
        return max(first, self.from_offsets.get(queue, 0)), min(end, self.to_offsets.get(queue, end))

    def tags_codes(self) -> list[int] | None:
        """What consume queues keep of these tags."""
        return None if self.tags is None else sorted(tags_code(tag) for tag in self.tags)
