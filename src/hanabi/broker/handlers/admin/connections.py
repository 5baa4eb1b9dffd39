"""Connected clients and their subscriptions.

    203  the members of a consuming group      204  of a producing group          328  all producers
    343  the topics of a group (5.x)           345  its subscription to one (5.x)

Agrees with AdminBrokerProcessor (4.9.8; 5.3.3 where marked). 203 has one addition: if members subscribe differently,
the subscriptions of each. Java's tools ignore it.
"""

from collections.abc import Callable

from hanabi.broker.clients.client import Client
from hanabi.broker.clients.consumer_group import ConsumerGroup
from hanabi.broker.clients.consumers import Consumers
from hanabi.broker.clients.producers import Producers
from hanabi.broker.handlers.admin.support.limits import NO_BODY_BYTES_MAX
from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.wire.bodies.clients import Connection as ConnectionBody
from hanabi.wire.bodies.clients import (
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTable,
    SubscriptionOpinion,
)
from hanabi.wire.bodies.groups import GroupSubscription
from hanabi.wire.bodies.route import TopicList
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import encode_body
from hanabi.wire.header import NoHeader
from hanabi.wire.headers.client import GetConsumerConnectionListHeader, GetProducerConnectionListHeader
from hanabi.wire.headers.group import QuerySubscriptionByConsumerHeader, QueryTopicsByConsumerHeader


def connection_handlers(
    producers: Producers, consumers: Consumers, offsets: ConsumerOffsets, address: str, now_ms: Callable[[], int]
) -> dict[int, Handler]:
    """Return the handlers that show clients. *address* is how clients reach this broker."""
    of_producers = ProducerHandlers(producers, now_ms)
    of_consumers = ConsumerHandlers(consumers, offsets, address)
    return {
        RequestCode.GET_CONSUMER_CONNECTION_LIST: Handler(
            GetConsumerConnectionListHeader, of_consumers.members, NO_BODY_BYTES_MAX
        ),
        RequestCode.GET_PRODUCER_CONNECTION_LIST: Handler(
            GetProducerConnectionListHeader, of_producers.members, NO_BODY_BYTES_MAX
        ),
        RequestCode.GET_ALL_PRODUCER_INFO: Handler(NoHeader, of_producers.all, NO_BODY_BYTES_MAX),
        RequestCode.QUERY_TOPICS_BY_CONSUMER: Handler(
            QueryTopicsByConsumerHeader, of_consumers.topics, NO_BODY_BYTES_MAX
        ),
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: Handler(
            QuerySubscriptionByConsumerHeader, of_consumers.subscription, NO_BODY_BYTES_MAX
        ),
    }


def _shown(client: Client) -> ConnectionBody:
    return ConnectionBody(
        client_addr=client.connection.peer,
        client_id=client.client_id,
        language=client.language,
        version=client.version,
    )


def _opinions(group: ConsumerGroup) -> list[SubscriptionOpinion]:
    return [
        SubscriptionOpinion(client_ids=list(opinion.client_ids), subscribes=str(opinion.statement))
        for opinion in group.opinions()
    ]


class ProducerHandlers:
    """Handlers about connected producers."""

    def __init__(self, producers: Producers, now_ms: Callable[[], int]) -> None:
        self._producers, self._now_ms = producers, now_ms

    def members(self, header: GetProducerConnectionListHeader, _: Command, connection: Connection) -> Reply:
        members = self._producers.group(header.producer_group)
        if members is None:
            return Reply(ResponseCode.SYSTEM_ERROR, f"the producer group[{header.producer_group}] not exist")
        return Reply(body=encode_body(ProducerConnection(connection_set=[_shown(member.client) for member in members])))

    def all(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        table = {
            group: [
                ProducerInfo(
                    client_id=member.client.client_id,
                    language=member.client.language,
                    last_update_timestamp=self._now_ms() - self._producers.silent_ms(member),
                    remote_ip=f"/{member.client.connection.peer}",  # as Java writes an address without a name
                    version=member.client.version,
                )
                for member in members.values()
            ]
            for group, members in self._producers.groups().items()
        }
        return Reply(body=encode_body(ProducerTable(data=table)))


class ConsumerHandlers:
    """Handlers about connected consumers."""

    def __init__(self, consumers: Consumers, offsets: ConsumerOffsets, address: str) -> None:
        self._consumers, self._offsets, self._address = consumers, offsets, address

    def members(self, header: GetConsumerConnectionListHeader, _: Command, connection: Connection) -> Reply:
        group = self._consumers.find_group(header.consumer_group)
        if group is None:
            return Reply(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{header.consumer_group}] not online")
        found = ConsumerConnection(
            connection_set=[_shown(member.client) for member in group.members.values()],
            consume_from_where=group.consume_from_where.value,
            consume_type=group.consume_type.value,
            message_model=group.message_model.value,
            subscription_opinions=None if group.agrees else _opinions(group),
            subscription_table=dict(group.subscriptions),
        )
        return Reply(body=encode_body(found))

    def topics(self, header: QueryTopicsByConsumerHeader, _: Command, connection: Connection) -> Reply:
        topics = sorted(self._offsets.topics_of(header.group))
        return Reply(body=encode_body(TopicList(topic_list=topics, broker_addr=self._address)))

    def subscription(self, header: QuerySubscriptionByConsumerHeader, _: Command, connection: Connection) -> Reply:
        found = GroupSubscription(
            group=header.group,
            topic=header.topic,
            subscription_data=self._consumers.subscription(header.group, header.topic or ""),
        )
        return Reply(body=encode_body(found))
