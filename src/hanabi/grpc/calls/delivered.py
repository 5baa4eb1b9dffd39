"""Messages as clients receive them: from stored records to `Message`."""

import hashlib
from typing import Any, Final

from hanabi.errors import MQError
from hanabi.grpc.backend.popped import Delivery
from hanabi.grpc.proto.messages import Proto, message_class
from hanabi.grpc.proto.numbers import DigestType, Encoding, MessageType
from hanabi.grpc.rules.durations import set_milliseconds
from hanabi.message import StoredMessage
from hanabi.wire.message import property_names as names
from hanabi.wire.message.stored import to_messages

# Properties that have a field of their own, or that brokers keep for themselves.
_HIDDEN: Final = names.RESERVED | {
    names.SHARDING_KEY,
    names.TRACE_CONTEXT,
    names.TRANSACTION_ID,
    names.CHECK_IMMUNITY_TIME_IN_SECONDS,
    names.TRANSACTION_CHECK_TIMES,
}


def fill_message(message: Proto, stored: StoredMessage, topic: Any) -> None:
    """Fill *message* with a stored one; *topic* is the resource that the client asked for."""
    message.topic.CopyFrom(topic)
    message.body = stored.body
    properties = stored.properties
    for name, value in properties.items():
        if name not in _HIDDEN and not name.startswith(names.TRANSIENT_PREFIX):
            message.user_properties[name] = value
    system = message.system_properties
    if stored.tags:
        system.tag = stored.tags
    system.keys.extend(stored.keys)
    system.message_id = stored.message_id
    system.body_digest.type = DigestType.SHA1
    system.body_digest.checksum = hashlib.sha1(stored.body, usedforsecurity=False).hexdigest().upper()
    system.body_encoding = Encoding.IDENTITY
    system.message_type = _type_of(properties)
    _set_times(system, stored)
    system.born_host = properties.get(names.BORN_HOST) or stored.born_host.host
    system.store_host = stored.store_host.host
    system.queue_id = stored.queue_id
    system.queue_offset = stored.queue_offset
    if (group := properties.get(names.SHARDING_KEY)) is not None:
        system.message_group = group
    if (trace := properties.get(names.TRACE_CONTEXT)) is not None:
        system.trace_context = trace
    if (origin := properties.get(names.DLQ_ORIGIN_TOPIC)) is not None:
        system.dead_letter_queue.topic = origin
        system.dead_letter_queue.message_id = properties.get(names.DLQ_ORIGIN_MESSAGE_ID, "")


def _set_times(system: Any, stored: StoredMessage) -> None:
    born = stored.properties.get(names.BORN_TIMESTAMP, "")
    born_ms = int(born) if born.isdecimal() and len(born) < 16 else stored.born_timestamp_ms
    set_milliseconds(system.born_timestamp, born_ms)
    set_milliseconds(system.store_timestamp, stored.store_timestamp_ms)
    due = stored.properties.get(names.TIMER_DELIVER_MS, "") or stored.properties.get(names.TIMER_OUT_MS, "")
    if due.isdecimal() and len(due) < 16:
        set_milliseconds(system.delivery_timestamp, int(due))


def _type_of(properties: dict[str, str]) -> MessageType:
    if properties.get(names.TRANSACTION_PREPARED) == "true":
        return MessageType.TRANSACTION
    if any(name in properties for name in (names.TIMER_DELIVER_MS, names.TIMER_DELAY_MS, names.TIMER_DELAY_SEC)):
        return MessageType.DELAY
    if names.DELAY_LEVEL in properties:
        return MessageType.DELAY
    return MessageType.FIFO if names.SHARDING_KEY in properties else MessageType.NORMAL


def delivered(delivery: Delivery, topic: Any, invisible_ms: int) -> Proto:
    """Return the part of a reply to ReceiveMessage that has this message."""
    part = message_class("ReceiveMessageResponse")()
    fill_message(part.message, delivery.stored, topic)
    system = part.message.system_properties
    system.receipt_handle = delivery.handle.encode()
    system.delivery_attempt = delivery.attempt
    set_milliseconds(system.invisible_duration, invisible_ms)
    return part


def checked_message(body: bytes, topic: str) -> Proto:
    """Return the half message of a check, which a broker sends as a record."""
    stored, error = to_messages(body)
    if error is not None or not stored:
        raise error or MQError("a check without a message")
    message = message_class("Message")()
    final = stored[0].properties.get(names.REAL_TOPIC) or topic or stored[0].topic  # Apache names its own half topic
    fill_message(message, stored[0], message_class("Resource")(name=final))
    return message
