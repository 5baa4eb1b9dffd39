"""Target of a send: topic, permission and queue checks.

The facts about a topic are cached for as long as its settings are the same object; each message then costs one
comparison of it, and one of the queue id.

Agrees with Java's AbstractSendMessageProcessor.msgCheck in order, codes and remarks. Two differences: a topic that
became read-only refuses (Java takes the message, as its clients do not see such topics), and so does a random queue of
a topic that has none (Java divides by zero). A broker without write permission refuses only ordered topics, as in Java:
clients go on sending until they know of it, so that it can be drained, but never out of order.
"""

from typing import Final

import msgspec

from hanabi.broker.send.retry_rules import READ_AND_WRITE, topic_sys_flag
from hanabi.broker.send.store_host import StoreHost
from hanabi.broker.settings import Settings
from hanabi.broker.tables.groups import Groups
from hanabi.broker.tables.topics import PERM_WRITE, Topics, perm_text, validate_topic
from hanabi.errors import BrokerError, NoPermission, SubscriptionGroupNotExist, TopicNotExist
from hanabi.wire.bodies.groups import SubscriptionGroupConfig
from hanabi.wire.bodies.topics import TopicConfig, TopicFilterType
from hanabi.wire.headers.send import AnySendMessageHeader
from hanabi.wire.message import sysflag
from hanabi.wire.system_names import RETRY_PREFIX

SEE_FAQ: Final = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."
_TARGETS_MAX: Final = 100_000  # existing topics, plus stale entries of deleted ones


class SendTarget(msgspec.Struct, frozen=True):
    """A topic that clients may send to."""

    topic: str
    config: TopicConfig
    queues: int  # valid queue ids for clients
    write_queues: int  # to choose from if the client names none
    sys_flag: int  # for every message of the topic
    is_retry: bool


class SendTargets:
    """Lookup of the target of a send; raises the reason if there is none."""

    def __init__(self, topics: Topics, settings: Settings, store_host: StoreHost) -> None:
        self._topics, self._settings, self._store_host = topics, settings, store_host
        self._find_config = topics.find
        self._known: dict[str, SendTarget] = {}  # cached; the settings may have changed since

    def find(self, header: AnySendMessageHeader, peer: str) -> SendTarget:
        """Return the target that *header* names, created if the rules allow it; *peer* is the client, for remarks."""
        config = self._find_config(header.topic)
        target = self._known.get(header.topic)
        if target is None or target.config is not config:
            target = self._look_up(config, header, peer)
        if header.queue_id >= target.queues:
            raise BrokerError(
                f"request queueId[{header.queue_id}] is illegal, {_described(target.config)} Producer: {peer}"
            )
        if target.config.order:
            self._must_take_ordered()
        return target

    def ordinary(self, topic: str) -> SendTarget | None:
        """Return the target of sends to *topic* if only the queue is left to check: it is cached and unchanged, it is
        saved, and it is neither ordered nor a retry topic."""
        target = self._known.get(topic)
        if target is None or target.is_retry or target.config.order or topic in self._topics.unsaved:
            return None
        return target if target.config is self._find_config(topic) else None

    def _look_up(self, config: TopicConfig | None, header: AnySendMessageHeader, peer: str) -> SendTarget:
        topic = header.topic
        why_not = validate_topic(topic)
        if why_not is not None:
            raise BrokerError(why_not)
        if not self._topics.may_send(topic):
            raise NoPermission(f"Sending message to topic[{topic}] is forbidden.")
        if config is None:
            config = self._create(header, peer)
        if not config.perm & PERM_WRITE:
            raise NoPermission(f"the topic[{topic}] sending message is forbidden")
        target = self._known[topic] = SendTarget(
            topic=topic,
            config=config,
            queues=max(config.write_queue_nums, config.read_queue_nums),
            write_queues=config.write_queue_nums,
            sys_flag=sysflag.MULTI_TAGS if config.topic_filter_type == TopicFilterType.MULTI_TAG else 0,
            is_retry=topic.startswith(RETRY_PREFIX),
        )
        if len(self._known) > _TARGETS_MAX:
            self._known.clear()
        return target

    def _create(self, header: AnySendMessageHeader, peer: str) -> TopicConfig:
        topic, unit_flag = header.topic, topic_sys_flag(header.topic, header.unit_mode)
        config = self._topics.create_on_send(
            topic, header.default_topic, header.default_topic_queue_nums, unit_flag, peer
        )
        if config is None and topic.startswith(RETRY_PREFIX):
            config = self._topics.create_on_send_back(topic, 1, READ_AND_WRITE, unit_flag)
        if config is None:
            raise TopicNotExist(f"topic[{topic}] not exist, apply first please!{SEE_FAQ}")
        return config

    def _must_take_ordered(self) -> None:
        if not self._settings.broker.permission & PERM_WRITE:
            raise NoPermission(f"the broker[{self._store_host.host}] sending message is forbidden")


def group_of(groups: Groups, name: str) -> SubscriptionGroupConfig:
    """Return the group of a message that failed; raise the refusal if there is none."""
    group = groups.find(name)
    if group is None:
        raise SubscriptionGroupNotExist(f"subscription group not exist, {name} {SEE_FAQ}")
    return group


def retry_target(topics: Topics, topic: str, queues: int, sys_flag: int = 0) -> TopicConfig:
    """Return a topic of retries or dead letters, created if it is missing; raise the refusal if it cannot be."""
    config = topics.create_on_send_back(topic, queues, READ_AND_WRITE, sys_flag)
    if config is None:
        raise BrokerError(f"topic[{topic}] not exist")
    return config


def _described(config: TopicConfig) -> str:
    """Format as Java's TopicConfig.toString."""
    return (
        f"TopicConfig [topicName={config.topic_name}, readQueueNums={config.read_queue_nums}, "
        f"writeQueueNums={config.write_queue_nums}, perm={perm_text(config.perm)}, "
        f"topicFilterType={config.topic_filter_type}, topicSysFlag={config.topic_sys_flag}, "
        f"order={str(config.order).lower()}]"
    )
