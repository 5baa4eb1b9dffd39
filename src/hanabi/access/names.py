"""Topics and groups that a request names, from the header and the body that its handler reads. Pure.

A request may name a message by its place in the log: it then names the topic of that message, which `Surroundings`
looks up.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from hanabi.access.needs import Named
from hanabi.errors import RemoteProtocolError
from hanabi.wire.bodies.heartbeat import CheckClientRequest, HeartbeatData
from hanabi.wire.bodies.locks import LockRequest
from hanabi.wire.bodies.pop import BatchAckRequest, MessageRequestMode, QueryAssignmentRequest
from hanabi.wire.bodies.topics import TopicConfigList
from hanabi.wire.fastjson import decode_body
from hanabi.wire.message.message_id import decode_offset_id
from hanabi.wire.receipts import original_topic
from hanabi.wire.system_names import RETRY_PREFIX


class Surroundings(NamedTuple):
    """Facts of the server that a request is for."""

    cluster: str
    reply_topic: str
    topic_at: Callable[[int], str | None]  # the topic of the message at a log offset, by its final destination


Naming = Callable[[Any, bytes, Surroundings], Named]


def nothing(_header: Any, _body: bytes, _around: Surroundings) -> Named:
    """Name nothing: the request is about the server."""
    return Named()


def topic(header: Any, _body: bytes, _around: Surroundings) -> Named:
    """Name the header's topic."""
    return Named(_given(header.topic))


def consumer_group(header: Any, _body: bytes, _around: Surroundings) -> Named:
    """Name the header's consumer group."""
    return Named((), _given(header.consumer_group))


def group(header: Any, _body: bytes, _around: Surroundings) -> Named:
    """Name the header's group, where its field has the short name."""
    return Named((), _given(header.group))


def group_name(header: Any, _body: bytes, _around: Surroundings) -> Named:
    """Name the header's group, where its field is `groupName`."""
    return Named((), _given(header.group_name))


def topic_and_consumer_group(header: Any, _body: bytes, _around: Surroundings) -> Named:
    """Name the header's topic and consumer group."""
    return Named(_given(header.topic), _given(header.consumer_group))


def topic_and_group(header: Any, _body: bytes, _around: Surroundings) -> Named:
    """Name the header's topic and group, where the group's field has the short name."""
    return Named(_given(header.topic), _given(header.group))


def topic_and_compared_group(header: Any, _body: bytes, _around: Surroundings) -> Named:
    """Name the topic of a correction query, and the group that is compared."""
    return Named(_given(header.topic), _given(header.compare_group))


def cloned_groups(header: Any, _body: bytes, _around: Surroundings) -> Named:
    """Name both groups between which offsets are copied, and the topic if there is one."""
    return Named(_given(header.topic), (header.src_group, header.dest_group))


def reply(header: Any, _body: bytes, around: Surroundings) -> Named:
    """Name the topic of an answer to a request; the cluster's own reply topic is open to each client."""
    return Named(() if header.topic == around.reply_topic else (header.topic,))


def sent_back(header: Any, _body: bytes, around: Surroundings) -> Named:
    """Name the group, and the topic of the message: a copy of it goes to the group's retry topic."""
    return Named(_given(around.topic_at(header.offset)), (header.group,))


def viewed(header: Any, _body: bytes, around: Surroundings) -> Named:
    """Name the topic of the message at the header's log offset."""
    return Named(_given(around.topic_at(header.offset)))


def ended_transaction(header: Any, _body: bytes, around: Surroundings) -> Named:
    """Name the final topic of a half message."""
    return Named(_given(around.topic_at(header.commit_log_offset)))


def consumed_directly(header: Any, _body: bytes, around: Surroundings) -> Named:
    """Name the group, the header's topic, and the topic of the message that a member of the group shall consume."""
    found = None
    if header.msg_id is not None:
        try:
            found = around.topic_at(decode_offset_id(header.msg_id).log_offset)
        except RemoteProtocolError:
            found = None  # an invalid id: there is no message to protect, and the handler says so
    return Named((*_given(found), *_given(header.topic)), (header.consumer_group,))


def acknowledged(header: Any, _body: bytes, _around: Surroundings) -> Named:
    """Name the consumer group, and the topic that it pops; the header's may be the group's retry topic of it."""
    return Named((original_topic(header.topic, header.consumer_group),), (header.consumer_group,))


def acknowledged_batches(_header: Any, body: bytes, _around: Surroundings) -> Named:
    """Name each topic and consumer group of several acknowledgements."""
    acks = decode_body(body, BatchAckRequest).acks if body else []
    return Named(tuple(ack.topic for ack in acks), tuple(ack.consumer_group for ack in acks))


def assigned(_header: Any, body: bytes, _around: Surroundings) -> Named:
    """Name the topic and the consumer group of a member that asks for its queues; a retry topic is the group's own."""
    request = decode_body(body, QueryAssignmentRequest)
    is_own = request.topic == RETRY_PREFIX + request.consumer_group
    return Named(() if is_own else (request.topic,), (request.consumer_group,))


def request_mode(_header: Any, body: bytes, _around: Surroundings) -> Named:
    """Name the topic and the consumer group whose request mode is set."""
    request = decode_body(body, MessageRequestMode)
    return Named(_given(request.topic), _given(request.consumer_group))


def heartbeat(_header: Any, body: bytes, _around: Surroundings) -> Named:
    """Name each consumer group of a client and the topics to which it subscribes; producers are not named."""
    consumers = decode_body(body, HeartbeatData).consumer_data_set
    topics = tuple(each.topic for consumer in consumers for each in consumer.subscription_data_set)
    return Named(topics, tuple(consumer.group_name for consumer in consumers))


def locked_queues(_header: Any, body: bytes, _around: Surroundings) -> Named:
    """Name the group that locks or unlocks queues, and their topics."""
    request = decode_body(body, LockRequest)
    return Named(tuple(queue.topic for queue in request.mq_set), (request.consumer_group,))


def checked_subscription(_header: Any, body: bytes, _around: Surroundings) -> Named:
    """Name the group and the topic of a subscription that is checked before a consumer starts."""
    request = decode_body(body, CheckClientRequest)
    return Named((request.subscription_data.topic,), (request.group,))


def created_topics(_header: Any, body: bytes, _around: Surroundings) -> Named:
    """Name each topic of a list that is created or changed."""
    return Named(tuple(each.topic_name for each in decode_body(body, TopicConfigList).topic_config_list))


def _given(name: str | None) -> tuple[str, ...]:
    return (name,) if name else ()
