"""Topics of this broker: their settings, the rules for creating one, and their file.

`config/topics.json` is as Apache writes it. A change is in the file before it is answered: an administrator's change
when the method's result is awaited, a client's new topic when it is not in `unsaved` any more. Does not know messages,
queues on disk or name servers: `on_change` holds the callbacks of interested parts.

Agrees with TopicConfigManager and TopicValidator (4.9.8).
"""

import logging
import re
from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from hanabi.broker.settings import Settings
from hanabi.broker.tables.versioned_table import Content, Done, VersionedTable
from hanabi.errors import NoPermission
from hanabi.wire.bodies.topics import DataVersion, TopicConfig, TopicConfigTable
from hanabi.wire.fastjson import decode_file
from hanabi.wire.system_names import (
    BENCHMARK_TOPIC,
    CLOSED_TOPICS,
    DEFAULT_TOPIC,
    MEMBER_GROUP_PREFIX,
    OFFSET_MOVED_TOPIC,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_TOPIC_PREFIX,
    SYSTEM_TOPICS,
    TIMER_TOPIC,
    TOPIC_CHARACTERS_MAX,
)

PERM_INHERIT: Final = 1  # topics may be created from this one
PERM_WRITE: Final = 2
PERM_READ: Final = 4

# Not in Apache's list: a message in TIMER_TOPIC names its own destination, which can be any of these.
NOT_FOR_SENDING: Final = CLOSED_TOPICS | {TIMER_TOPIC}

DELAY_LEVELS: Final = 18
LOGGED_MAX: Final = 100  # changed members logged one by one: more lines would block the loop

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]*").fullmatch

logger = logging.getLogger(__name__)


def validate_topic(name: str) -> str | None:
    """Return why *name* is no valid topic name, in Apache's words; None if it is valid."""
    if not name.strip():
        return "The specified topic is blank."
    if not _LEGAL(name):
        return "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    if len(name) > TOPIC_CHARACTERS_MAX:
        return "The specified topic is longer than topic max length."
    return None


def is_legal_name(name: str) -> bool:
    """Return whether all characters are allowed in the name of a topic or group."""
    return _LEGAL(name) is not None


def perm_text(perm: int) -> str:
    """Format a permission as Apache's tools do: RW-, RWX, R--..."""
    return "".join(
        letter if perm & bit else "-" for letter, bit in (("R", PERM_READ), ("W", PERM_WRITE), ("X", PERM_INHERIT))
    )


class Topics:
    """The table, the rules, and the callbacks on changes."""

    def __init__(self, path: Path | None, settings: Settings, now_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._table = VersionedTable(path, "topicConfigTable", _decode, now_ms)
        self._at_start = system_topics(settings)
        for name, topic in self._at_start.items():
            self._table.members.setdefault(name, topic)  # the file takes precedence for a system topic
        self.find: Callable[[str], TopicConfig | None] = self._table.members.get
        self.unsaved = self._table.later.unsaved  # topics created by clients, until the file has them
        self.when_saved = self._table.later.when_saved  # runs an act after one of them is saved
        self.on_change: list[Callable[[], None]] = []  # called when a topic was created, changed or deleted

    @property
    def data_version(self) -> DataVersion:
        return self._table.version

    def __len__(self) -> int:
        return len(self._table.members)

    def __contains__(self, topic: str) -> bool:
        return topic in self._table.members

    def names(self) -> list[str]:
        return list(self._table.members)

    def is_system(self, topic: str) -> bool:
        """Return whether this topic belongs to the broker itself."""
        return topic in SYSTEM_TOPICS or topic in self._at_start or topic.startswith(SYSTEM_TOPIC_PREFIX)

    @staticmethod
    def may_send(topic: str) -> bool:
        """Return whether clients may send to this topic."""
        return topic not in NOT_FOR_SENDING

    def table(self) -> TopicConfigTable:
        """Return all topics, with the version of their table."""
        return TopicConfigTable(data_version=self._table.version, topic_config_table=dict(self._table.members))

    def save(self) -> None:
        """Write the table to disk now. Blocks."""
        self._table.save()

    def save_changes(self) -> None:
        """Write unsaved changes to disk now. Blocks."""
        self._table.save_changes()

    async def keep_saving(self) -> None:
        """Write new topics of clients in a thread, until cancelled."""
        await self._table.keep_saving()

    def create_on_send(
        self, topic: str, default_topic: str, queue_nums: int, topic_sys_flag: int = 0, peer: object = ""
    ) -> TopicConfig | None:
        """Return the topic, created from *default_topic* if it is missing and the rules allow it."""
        known = self.find(topic)
        if known is not None:
            return known
        model = self.find(default_topic)
        if model is None:
            logger.warning("%s: topic %s is not created, there is no default topic %s", peer, topic, default_topic)
            return None
        closed = default_topic == DEFAULT_TOPIC and not self._settings.broker.auto_create_topic
        if closed or not model.perm & PERM_INHERIT:
            logger.warning(
                "%s: topic %s is not created, default topic %s does not allow it", peer, topic, default_topic
            )
            return None
        queues = max(0, min(queue_nums, model.write_queue_nums))
        made = _topic(topic, queues, model.perm & ~PERM_INHERIT, topic_sys_flag)
        return self._create(msgspec.structs.replace(made, topic_filter_type=model.topic_filter_type), peer)

    def create_on_send_back(
        self, topic: str, queue_nums: int, perm: int, topic_sys_flag: int = 0
    ) -> TopicConfig | None:
        """Return the topic, created if it is missing: retry, dead-letter and system topics need no default topic."""
        known = self.find(topic)
        return known if known is not None else self._create(_topic(topic, queue_nums, perm, topic_sys_flag), "broker")

    def _create(self, topic: TopicConfig, peer: object) -> TopicConfig | None:
        if self._settings.is_slave:  # its topics are its master's
            return None
        if self._is_full:
            logger.warning("%s: topic %s is not created, there are topicsMax = %d", peer, topic.topic_name, len(self))
            return None
        self._table.put({topic.topic_name: topic})
        self._notify()
        logger.info("%s: new topic %s", peer, _in_words(topic))
        return topic

    @property
    def _is_full(self) -> bool:
        return self._table.count >= self._settings.broker.topics_max

    def restore(self, queues: Iterable[tuple[str, int]]) -> None:
        """Recreate the topics of a lost file from the *queues* that hold their messages.

        Does so only if the newest file could not be read: topics missing in a readable file were deleted.
        """
        if self._table.is_complete:
            return
        counts: dict[str, int] = {}
        for topic, queue_id in queues:
            if topic not in self:
                counts[topic] = max(counts.get(topic, 0), queue_id + 1)
        if not counts:
            return
        self._table.members.update({topic: _topic(topic, count) for topic, count in counts.items()})
        self._table.touch()
        logger.warning(
            "%d topics are recreated from their queues, as their file is missing or unreadable; check the permission "
            "and the number of queues of each: %s",
            len(counts),
            ", ".join(list(counts)[:LOGGED_MAX]),
        )

    def recreate(self, queues: Iterable[tuple[str, int]]) -> None:
        """Create the topics of *queues* that are missing: a slave that becomes a master has messages of topics that it
        had no time to copy."""
        counts: dict[str, int] = {}
        for topic, queue_id in queues:
            if topic not in self:
                counts[topic] = max(counts.get(topic, 0), queue_id + 1)
        if counts:
            self._table.put({topic: _topic(topic, count) for topic, count in counts.items()})
            logger.warning("topics recreated from their queues: %s", ", ".join(list(counts)[:LOGGED_MAX]))

    def use_state_version(self, number: int) -> None:
        """Mark the table as that of epoch *number*: name servers prefer the newest master's."""
        self._table.version = msgspec.structs.replace(self._table.version, state_version=number)
        self.touch()

    def newest(self, topic: str) -> TopicConfig | None:
        """Return the topic as it will be after all pending changes of administrators."""
        return self._table.newest(topic)

    def update(self, *topics: TopicConfig) -> Awaitable[None]:
        """Create or change topics for an administrator: all or none. In force when awaited."""
        old = {topic.topic_name: self.newest(topic.topic_name) for topic in topics}
        new = [name for name, known in old.items() if known is None]
        if new and self._table.count + len(new) > self._settings.broker.topics_max:
            known = f"there are {self._table.count} of topicsMax = {self._settings.broker.topics_max} topics"
            raise NoPermission(f"topic {new[0]} is not created: {known}")
        return self._change({topic.topic_name: topic for topic in topics}, then=partial(_log_update, topics, old))

    def delete(self, topic: str) -> Awaitable[None]:
        """Delete a topic; a missing one is no error, as the tools delete on every broker. Await it."""
        if self.newest(topic) is None:
            logger.warning("topic %s cannot be deleted, it is not there", topic)
            return Done()
        return self._change({}, gone=[topic], then=lambda: logger.info("topic %s is deleted", topic))

    def adopt(self, topics: Mapping[str, TopicConfig], version: DataVersion) -> None:
        """Replace all topics of a slave by a copy of its master's."""
        gone = self._table.members.keys() - topics.keys()
        self._table.adopt(Content(version, topics))
        logger.info("%d topics are copied from the master, %d are gone", len(topics), len(gone))
        self._notify()

    def touch(self) -> None:
        """Give the table its next version: the effective permissions have changed, though no topic has."""
        self._table.put({})
        self._notify()

    def set_order_topics(self, order_topics: Container[str]) -> None:
        """Mark the topics that are ordered, by the name server's list; all other topics are not."""
        changed = {
            name: msgspec.structs.replace(topic, order=not topic.order)
            for name, topic in self._table.members.items()
            if topic.order != (name in order_topics)
        }
        if changed:
            self._table.put(changed)  # `on_change` is not called: it came from the name servers
            logger.info("order changed of topics %s", ", ".join(changed))

    def _change(
        self, changed: dict[str, TopicConfig], *, gone: Iterable[str] = (), then: Callable[[], None]
    ) -> Awaitable[None]:
        def in_force() -> None:
            self._notify()
            then()

        return self._table.change(changed, gone=gone, then=in_force)

    def _notify(self) -> None:
        for callback in self.on_change:
            callback()


def _log_update(topics: Collection[TopicConfig], old: Mapping[str, TopicConfig | None]) -> None:
    if len(topics) > LOGGED_MAX:
        logger.info("%d topics are created or changed", len(topics))
        return
    for topic in topics:
        before = old[topic.topic_name]
        logger.info("topic %s, before: %s", _in_words(topic), _in_words(before) if before is not None else "none")


def _in_words(topic: TopicConfig) -> str:
    queues = f"{topic.write_queue_nums} queues to write, {topic.read_queue_nums} to read"
    return f"{topic.topic_name} ({queues}, {perm_text(topic.perm)}{', ordered' if topic.order else ''})"


def _decode(raw: bytes) -> Content[TopicConfig]:
    table = decode_file(raw, TopicConfigTable)
    return Content(table.data_version, table.topic_config_table)


def system_topics(settings: Settings) -> dict[str, TopicConfig]:
    """Return the topics that a broker has from its start."""
    broker = settings.broker
    read_write = PERM_READ | PERM_WRITE
    cluster_perm = PERM_INHERIT | (read_write if broker.cluster_topic_enabled else 0)
    broker_perm = PERM_INHERIT | (read_write if broker.broker_topic_enabled else 0)
    topics = [_topic(SELF_TEST_TOPIC, 1)]
    if broker.auto_create_topic:
        topics.append(_topic(DEFAULT_TOPIC, broker.default_topic_queue_nums, read_write | PERM_INHERIT))
    topics += [
        _topic(BENCHMARK_TOPIC, 1024),
        _topic(broker.cluster_name, 16, cluster_perm),
        _topic(broker.broker_name, 1, broker_perm),
        _topic(OFFSET_MOVED_TOPIC, 1),
        _topic(SCHEDULE_TOPIC, DELAY_LEVELS),
    ]
    if broker.trace_topic_enabled:
        topics.append(_topic(broker.trace_topic_name, 1))
    topics.append(_topic(broker.reply_topic, 1))
    if broker.acting_master_enabled:  # for brokers of 5.x that ask for its route to learn their members
        topics.append(_topic(f"{MEMBER_GROUP_PREFIX}{broker.broker_name}", 1, PERM_INHERIT))
    if broker.timer_enabled:
        topics.append(_topic(TIMER_TOPIC, 1))
    return {topic.topic_name: topic for topic in topics}


def _topic(name: str, queues: int, perm: int = PERM_READ | PERM_WRITE, sys_flag: int = 0) -> TopicConfig:
    return TopicConfig(
        topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm, topic_sys_flag=sys_flag
    )
