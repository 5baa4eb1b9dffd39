"""Pairs of group and topic that have offsets, indexed both ways. Does not know the offsets."""

import sys
from collections.abc import Iterable


class OffsetPairs:
    """Pairs of a topic and a group. Each name is stored once."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._groups: dict[str, set[str]] = {}  # by topic
        self._topics: dict[str, set[str]] = {}  # by group
        for topic, group in pairs:
            self.add(topic, group)

    def add(self, topic: str, group: str) -> None:
        topic, group = sys.intern(topic), sys.intern(group)
        self._groups.setdefault(topic, set()).add(group)
        self._topics.setdefault(group, set()).add(topic)

    def discard(self, topic: str, group: str) -> None:
        _discard(self._groups, topic, group)
        _discard(self._topics, group, topic)

    def groups_of(self, topic: str) -> set[str]:
        """Return a copy, unaffected by later changes."""
        return set(self._groups.get(topic, ()))

    def topics_of(self, group: str) -> set[str]:
        """Return a copy, unaffected by later changes."""
        return set(self._topics.get(group, ()))


def _discard(table: dict[str, set[str]], key: str, name: str) -> None:
    names = table.get(key)
    if names is not None:
        names.discard(name)
        if not names:
            del table[key]
