"""QueryRoute and QueryAssignment: the queues of a topic, and those that a push consumer asks for."""

from collections.abc import Awaitable, Iterator
from typing import Any, TypeVar

from hanabi.grpc.backend.backend import Backend, BrokerQueues, TopicFacts
from hanabi.grpc.calls.support.access import Doorkeeper
from hanabi.grpc.calls.support.context import CallContext
from hanabi.grpc.calls.support.names import group_name, set_status, topic_name
from hanabi.grpc.proto.messages import Proto, message_class
from hanabi.grpc.proto.numbers import AddressScheme, Code, Permission
from hanabi.grpc.rules.faults import CallRefused
from hanabi.grpc.rules.messages import accepted_types
from hanabi.wire.codes import RequestCode

ANY_QUEUE = -1
ADDRESSES_MAX = 64  # of the endpoints that a client names; they are returned with each queue
_HOST_CHARACTERS_MAX = 255

T = TypeVar("T")


async def resolved(value: "Awaitable[T] | T") -> T:
    """Return *value*, or what it is waiting for."""
    return await value if isinstance(value, Awaitable) else value


class Routes:
    """Answers about routes. *advertised* is the address that clients are told, None: the one that they used."""

    def __init__(self, backend: Backend, door: Doorkeeper, advertised: tuple[str, int] | None) -> None:
        self._backend, self._door, self._advertised = backend, door, advertised

    async def query_route(self, request: Proto, context: CallContext) -> Proto:
        """Return the queues of a topic."""
        context.client_id  # noqa: B018 - a call without one is refused
        topic = topic_name(known_fields(request.topic))
        self._door.check(context, RequestCode.GET_TOPIC_CONFIG, (topic,))
        facts = await self._facts(topic)
        reply = message_class("QueryRouteResponse")()
        types = [int(kind) for kind in accepted_types(facts.message_type)]
        endpoints = self._endpoints(request.endpoints, context)
        for broker in facts.brokers:
            for queue_id, permission in _queues(broker):
                queue = reply.message_queues.add(id=queue_id, permission=permission)
                queue.topic.CopyFrom(request.topic)
                queue.accept_message_types.extend(types)
                queue.broker.name = broker.broker_name
                queue.broker.endpoints.CopyFrom(endpoints)
        if not reply.message_queues:
            raise CallRefused(Code.FORBIDDEN, f"topic {topic} has no queue that can be read or written")
        set_status(reply.status)
        return reply

    async def query_assignment(self, request: Proto, context: CallContext) -> Proto:
        """Return what a push consumer receives from: each broker, or each queue if its group is ordered."""
        context.client_id  # noqa: B018
        topic, group = topic_name(known_fields(request.topic)), group_name(request.group)
        self._door.check(context, RequestCode.QUERY_ASSIGNMENT, (topic,), (group,))
        facts = await self._facts(topic)
        settings = await resolved(self._backend.group(group))
        if settings is None:
            raise CallRefused(Code.CONSUMER_GROUP_NOT_FOUND, f"there is no consumer group {group}")
        reply = message_class("QueryAssignmentResponse")()
        endpoints = self._endpoints(request.endpoints, context)
        for broker in facts.brokers:
            for queue_id in range(broker.readable) if settings.is_ordered else (ANY_QUEUE,) if broker.readable else ():
                queue = reply.assignments.add().message_queue
                queue.topic.CopyFrom(request.topic)
                queue.id, queue.permission = queue_id, Permission.READ
                queue.broker.name = broker.broker_name
                queue.broker.endpoints.CopyFrom(endpoints)
        if not reply.assignments:
            raise CallRefused(Code.FORBIDDEN, f"topic {topic} has no queue that can be read")
        set_status(reply.status)
        return reply

    async def _facts(self, topic: str) -> TopicFacts:
        facts = await resolved(self._backend.topic(topic))
        if facts is None:
            raise CallRefused(Code.TOPIC_NOT_FOUND, f"there is no topic {topic}: create it first")
        return facts

    def _endpoints(self, asked: Any, context: CallContext) -> Any:
        """Return where clients are to go: the advertised address, else where this client came."""
        if self._advertised is None and asked.addresses:
            return _checked(asked)
        host, port = self._advertised or context.own_address
        endpoints = message_class("Endpoints")(scheme=scheme_of(host))
        endpoints.addresses.add(host=host, port=port or context.own_address[1])
        return endpoints


def _checked(endpoints: Any) -> Any:
    hosts = [address.host for address in endpoints.addresses]
    if len(hosts) > ADDRESSES_MAX or any(len(host) > _HOST_CHARACTERS_MAX for host in hosts):
        raise CallRefused(Code.BAD_REQUEST, f"endpoints of more than {ADDRESSES_MAX} addresses, or a host is too long")
    return known_fields(endpoints)


def known_fields(resource: Any) -> Any:
    """Return *resource* without unknown fields: it is copied into replies, perhaps a thousand times."""
    resource.DiscardUnknownFields()
    return resource


def scheme_of(host: str) -> AddressScheme:
    """Return the kind of address that *host* is."""
    if ":" in host:
        return AddressScheme.IPV6
    is_figures = host.count(".") == 3 and all(part.isdecimal() for part in host.split("."))
    return AddressScheme.IPV4 if is_figures else AddressScheme.DOMAIN_NAME


def _queues(broker: BrokerQueues) -> Iterator[tuple[int, Permission]]:
    """Yield queues and what they allow: both, then what only one side may use."""
    readable, writable = broker.readable, broker.writable
    for queue_id in range(max(readable, writable)):
        if queue_id < readable:
            yield queue_id, Permission.READ_WRITE if queue_id < writable else Permission.READ
        else:
            yield queue_id, Permission.WRITE
