"""Filter of a pull: from the subscription that the pull carries, or from the registered one of its group.

Filters are cached for as long as their inputs are unchanged. A pull without a valid subscription gets a reply that
names the fault. Agrees with the middle of PullMessageProcessor (4.9.8).
"""

from typing import Final, NamedTuple

from hanabi.broker.clients.consumers import Consumers
from hanabi.broker.filters.consumer_filters import ConsumerFilters, FilterData
from hanabi.broker.filters.message_filter import MessageFilter, make_filter
from hanabi.broker.filters.subscription_parsing import is_tag_type, parse_subscription
from hanabi.broker.pull.outcome import SUBSCRIPTION
from hanabi.broker.settings import Settings
from hanabi.errors import MQError
from hanabi.remoting.connection.dispatch import Reply
from hanabi.wire.bodies.groups import SubscriptionGroupConfig
from hanabi.wire.bodies.heartbeat import MessageModel, SubscriptionData
from hanabi.wire.codes import ResponseCode
from hanabi.wire.headers.pull import PullMessageHeader

_OWN_MAX: Final = 1_000  # cached subscriptions that pulls carry
_OWN_CHARACTERS_MAX: Final = 256 * 1024  # in total; parsed they take up to ninety times as much
_GROUPS_MAX: Final = 50_000
_SEE: Final = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."


class _Made(NamedTuple):
    """A filter, and its inputs."""

    subscription: SubscriptionData
    data: FilterData | None
    filter: MessageFilter


class PullFilters:
    """Cache of filters."""

    def __init__(self, settings: Settings, consumers: Consumers, filters: ConsumerFilters) -> None:
        self._settings, self._consumers, self._filters = settings, consumers, filters
        self._by_group: dict[tuple[str, str], _Made] = {}
        self._own: dict[tuple[str, str, str | None, str | None], MessageFilter] = {}
        self._own_characters = 0
        settings.on_change.append(self.forget)

    def forget(self) -> None:
        """Drop all cached filters: settings that they depend on have changed."""
        self._by_group.clear()
        self._own.clear()
        self._own_characters = 0

    def find(self, pull: PullMessageHeader, group: SubscriptionGroupConfig) -> MessageFilter | Reply:
        """Return the filter for *pull*, or the reply that refuses it."""
        if pull.sys_flag & SUBSCRIPTION:
            carried = pull.consumer_group, pull.topic, pull.subscription, pull.expression_type
            return self.carried(*carried, pull.sub_version)
        name, topic = pull.consumer_group, pull.topic
        consumers = self._consumers.find_group(name)
        if consumers is None:
            return Reply(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist" + _SEE)
        if consumers.message_model is MessageModel.BROADCASTING and not group.consume_broadcast_enable:
            return Reply(ResponseCode.NO_PERMISSION, f"the consumer group[{name}] can not consume by broadcast way")
        subscription = consumers.subscriptions.get(topic)
        if subscription is None:
            return Reply(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist" + _SEE)
        if subscription.sub_version < pull.sub_version:
            return Reply(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        made = self._by_group.get((name, topic))
        if made is not None and made.subscription is subscription and made.data is None:
            return made.filter
        if is_tag_type(subscription.expression_type):
            return self._make(pull, subscription, None)
        return self._find_with_data(pull, subscription, made)

    def _find_with_data(
        self, pull: PullMessageHeader, subscription: SubscriptionData, made: _Made | None
    ) -> MessageFilter | Reply:
        data = self._filters.find(pull.topic, pull.consumer_group)
        if data is None:
            return Reply(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                "The broker's consumer filter data is not exist!Your expression may be wrong!",
            )
        if data.client_version < pull.sub_version:
            return Reply(ResponseCode.FILTER_DATA_NOT_LATEST, "the consumer's consumer filter data not latest")
        if not self._settings.broker.property_filter_enabled:
            return _unsupported(subscription.expression_type)
        if made is not None and made.subscription is subscription and made.data is data:
            return made.filter
        return self._make(pull, subscription, data)

    def _make(self, pull: PullMessageHeader, subscription: SubscriptionData, data: FilterData | None) -> MessageFilter:
        made = make_filter(subscription, data, self._filters, retry=self._settings.broker.filter_support_retry)
        if len(self._by_group) >= _GROUPS_MAX:
            self._by_group.clear()
        self._by_group[pull.consumer_group, pull.topic] = _Made(subscription, data, made)
        return made

    def carried(
        self, group: str, topic: str, text: str | None, kind: str | None, version: int
    ) -> MessageFilter | Reply:
        """Return the filter of a subscription that a request carries, or the reply that refuses it."""
        own = self._own.get((group, topic, text, kind))
        return own if own is not None else self._make_own(group, topic, text, kind, version)

    def _make_own(
        self, group: str, topic: str, text: str | None, kind: str | None, version: int
    ) -> MessageFilter | Reply:
        data = None
        try:
            subscription = parse_subscription(topic, text, kind, version)
            if not is_tag_type(kind):
                if not self._settings.broker.property_filter_enabled:
                    return _unsupported(subscription.expression_type)
                data = FilterData.build(topic, group, text or "", kind or "", version)
        except (ValueError, MQError) as error:
            return Reply(ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {error}")
        made = make_filter(subscription, data, self._filters, retry=self._settings.broker.filter_support_retry)
        characters = len(text or "")
        if len(self._own) >= _OWN_MAX or self._own_characters + characters > _OWN_CHARACTERS_MAX:
            self._own.clear()
            self._own_characters = 0
        self._own[group, topic, text, kind] = made
        self._own_characters += characters
        return made


def _unsupported(expression_type: str) -> Reply:
    return Reply(
        ResponseCode.SYSTEM_ERROR, f"The broker does not support consumer to filter message by {expression_type}"
    )
