"""Access check of a pull: permission and filter, or the reply that refuses it.

Agrees with the first half of PullMessageProcessor (4.9.8): the order of the checks, codes and remarks.
"""

from typing import Final

from hanabi.broker.filters.message_filter import MessageFilter
from hanabi.broker.pull.filters import PullFilters
from hanabi.broker.settings import Settings
from hanabi.broker.tables.groups import Groups
from hanabi.broker.tables.topics import PERM_READ, Topics
from hanabi.remoting.connection.dispatch import Reply
from hanabi.wire.bodies.groups import SubscriptionGroupConfig
from hanabi.wire.bodies.topics import TopicConfig
from hanabi.wire.codes import ResponseCode
from hanabi.wire.headers.pull import PullMessageHeader

_SEE: Final = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."


Access = tuple[SubscriptionGroupConfig, MessageFilter]  # the group and the filter of an allowed pull


class PullAccess:
    """Decides by the settings of broker, group and topic, and by the group's subscriptions."""

    def __init__(self, settings: Settings, topics: Topics, groups: Groups, filters: PullFilters) -> None:
        self._settings, self._topics, self._groups, self._filters = settings, topics, groups, filters

    def check(self, pull: PullMessageHeader, peer: str) -> Access | Reply:
        """Return the access of *pull*, or the reply that refuses it."""
        broker = self._settings.broker
        if not broker.permission & PERM_READ:
            return Reply(
                ResponseCode.NO_PERMISSION,
                f"the broker[{broker.advertised_host or broker.broker_name}] pulling message is forbidden",
            )
        group = self._groups.find(pull.consumer_group)
        if group is None or not group.consume_enable:
            return _refuse_group(pull.consumer_group, group)
        topic = self._topics.find(pull.topic)
        if topic is None or not topic.perm & PERM_READ or not 0 <= pull.queue_id < topic.read_queue_nums:
            return _refuse_queue(pull, topic, peer)
        found = self._filters.find(pull, group)
        return found if isinstance(found, Reply) else (group, found)


def _refuse_group(name: str, group: SubscriptionGroupConfig | None) -> Reply:
    if group is None:
        return Reply(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{name}] does not exist, {_SEE}")
    return Reply(ResponseCode.NO_PERMISSION, f"subscription group no permission, {name}")


def _refuse_queue(pull: PullMessageHeader, topic: TopicConfig | None, peer: str) -> Reply:
    name = pull.topic
    if topic is None:
        return Reply(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please! {_SEE}")
    if not topic.perm & PERM_READ:
        return Reply(ResponseCode.NO_PERMISSION, f"the topic[{name}] pulling message is forbidden")
    return Reply(
        ResponseCode.SYSTEM_ERROR,
        f"queueId[{pull.queue_id}] is illegal, topic:[{name}] topicConfig.readQueueNums:[{topic.read_queue_nums}]"
        f" consumer:[{peer}]",
    )
