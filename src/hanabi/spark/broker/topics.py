"""Selection of topics and queues by the options `subscribe`, `subscribePattern` or `assign`. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hanabi.errors import ConfigError
from hanabi.message import MessageQueue
from hanabi.spark.shared.option_values import OptionValues
from hanabi.wire.system_names import DEAD_LETTER_PREFIX, RETRY_PREFIX, is_system

ANY_BROKER: Final = ""
_WAYS: Final = ("subscribe", "subscribePattern", "assign")


@dataclass(frozen=True)
class Wanted:
    """Selected topics, or a pattern of their names; all their queues, or only those assigned: (topic, broker, id)."""

    topics: frozenset[str] = frozenset()
    pattern: str | None = None
    assigned: frozenset[tuple[str, str, int]] | None = None

    def matching(self, topics: Iterable[str]) -> list[str]:
        """Return the *topics* that match the pattern.

        Brokers' own topics never match; retry and dead-letter topics only if the pattern names their prefix.
        """
        groups = (RETRY_PREFIX, DEAD_LETTER_PREFIX)
        return sorted(
            topic
            for topic in topics
            if re.fullmatch(self.pattern or "", topic)
            and not is_system(topic)
            and (not topic.startswith(groups) or topic[:5] in (self.pattern or ""))
        )

    def has(self, queue: MessageQueue) -> bool:
        assigned = self.assigned
        return (
            assigned is None
            or (queue.topic, queue.broker_name, queue.queue_id) in assigned
            or (queue.topic, ANY_BROKER, queue.queue_id) in assigned
        )

    def missing(self, queues: Iterable[MessageQueue]) -> list[str]:
        """Return the assigned queues that are not among *queues*."""
        there = {(queue.topic, queue.broker_name, queue.queue_id) for queue in queues}
        there |= {(topic, ANY_BROKER, queue_id) for topic, _, queue_id in there}
        return [
            f"topic {topic}, queue {queue_id}" + (f" of {broker}" if broker else "")
            for topic, broker, queue_id in sorted((self.assigned or frozenset()) - there)
        ]


def parse_wanted(values: OptionValues) -> Wanted:
    """Parse the selection. Raises ConfigError unless exactly one of the three options is given."""
    given = [name for name in _WAYS if values.text(name) is not None]
    if len(given) != 1:
        which = f"{' and '.join(given)} exclude each other" if given else "which topics to read is not said"
        raise ConfigError(f"{which}: give one of the options {', '.join(_WAYS)}")
    pattern = values.text("subscribePattern")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"option subscribePattern={pattern!r} is no regular expression: {error}") from None
    assigned = _assigned(values)
    topics = values.words("subscribe") or frozenset(topic for topic, _, _ in assigned or ())
    return Wanted(topics=topics, pattern=pattern, assigned=assigned)


def _assigned(values: OptionValues) -> frozenset[tuple[str, str, int]] | None:
    told = values.json_object("assign")
    if told is None:
        return None
    found: set[tuple[str, str, int]] = set()
    for topic, brokers in told.items():
        by_broker = brokers if isinstance(brokers, dict) else {ANY_BROKER: brokers}
        for broker, queue_ids in by_broker.items():
            if not isinstance(queue_ids, list) or not all(type(each) is int and each >= 0 for each in queue_ids):
                raise ConfigError(
                    f'option assign, topic {topic}: {queue_ids!r} must be numbers of queues: {{"{topic}": [0, 1]}}'
                    f' or {{"{topic}": {{"broker-a": [0, 1]}}}}'
                )
            found |= {(topic, broker, queue_id) for queue_id in queue_ids}
    if not found:
        raise ConfigError("option assign names no queue")
    return frozenset(found)
