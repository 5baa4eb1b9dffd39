"""Checks of messages that are sent, and their properties as brokers keep them."""

import re
import zlib
from typing import Any, Final

from hanabi.grpc.proto.numbers import Code, Encoding, MessageType
from hanabi.grpc.rules.durations import milliseconds
from hanabi.grpc.rules.faults import CallRefused
from hanabi.wire.message import property_names as names
from hanabi.wire.message.properties import format_properties

BODY_BYTES_MAX: Final = 4 * 1024 * 1024
USER_PROPERTIES_MAX: Final = 128
PROPERTY_BYTES_MAX: Final = 16 * 1024
GROUP_BYTES_MAX: Final = 64
ORPHAN_SECONDS_MAX: Final = 3_600
MESSAGES_MAX: Final = 1_024  # of one call
CALL_BYTES_MAX: Final = 2 * BODY_BYTES_MAX  # of their bodies, unpacked: as many as fit into a call without compression
_MEMBERS_MAX: Final = 16  # parts of one gzip, each of which costs time; clients write one
_GZIP: Final = 31  # zlib's number for that form
_BORN_SECONDS: Final = range(-62_135_596_800, 253_402_300_800)  # the years 1 to 9999, as protobuf has it

ANY_TYPE: Final = "MIXED"
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]").search
_ACCEPTED: Final[dict[str, tuple[MessageType, ...]]] = {kind.name: (kind,) for kind in MessageType}


def accepted_types(message_type: str | None) -> tuple[MessageType, ...]:
    """Return the types of messages that a topic takes. A topic without a type takes all, as a MIXED one."""
    return _ACCEPTED.get(message_type or ANY_TYPE, tuple(MessageType))


def type_of(message: Any) -> MessageType:
    """Return the type of a message, by its properties, as brokers see it."""
    system = message.system_properties
    if system.message_type == MessageType.TRANSACTION:
        return MessageType.TRANSACTION
    if system.HasField("delivery_timestamp"):
        return MessageType.DELAY
    return MessageType.FIFO if system.HasField("message_group") else MessageType.NORMAL


def body_of(message: Any) -> bytes:
    """Return the body, not compressed, if its size is allowed."""
    body: bytes = message.body
    if not body:
        raise CallRefused(Code.MESSAGE_BODY_EMPTY, "message body cannot be empty")
    if message.system_properties.body_encoding == Encoding.GZIP:
        body = _unpacked(body)
    if len(body) > BODY_BYTES_MAX:
        raise CallRefused(Code.MESSAGE_BODY_TOO_LARGE, f"message body of more than {BODY_BYTES_MAX} bytes")
    if not body:
        raise CallRefused(Code.MESSAGE_BODY_EMPTY, "message body is empty when it is unpacked")
    return body


def _unpacked(body: bytes) -> bytes:
    """Return the content of a gzip, of which at most one byte too much is unpacked."""
    parts: list[bytes] = []
    room, rest = BODY_BYTES_MAX + 1, body
    for _ in range(_MEMBERS_MAX):
        reader = zlib.decompressobj(_GZIP)
        try:
            parts.append(reader.decompress(rest, room))
        except zlib.error as error:
            raise CallRefused(Code.BAD_REQUEST, f"the message body is no gzip: {error}") from error
        room -= len(parts[-1])
        rest = reader.unused_data.lstrip(b"\0")  # tar and others pad with zeros
        if room <= 0 or (reader.eof and not rest):
            return b"".join(parts)
        if not reader.eof:
            raise CallRefused(Code.BAD_REQUEST, "the message body is no gzip: its end is missing")
    raise CallRefused(Code.BAD_REQUEST, f"the message body is a gzip of more than {_MEMBERS_MAX} members")


def properties_of(message: Any, topic: str, client_host: str) -> dict[str, str]:
    """Return the properties of a message that is to be stored, if all of it is allowed."""
    system = message.system_properties
    properties = _user_properties(message.user_properties)
    if not system.message_id.strip():
        raise CallRefused(Code.ILLEGAL_MESSAGE_ID, "message id cannot be empty")
    properties[names.UNIQUE_KEY] = system.message_id
    if system.HasField("tag"):
        properties[names.TAGS] = _tag(system.tag)
    if system.keys:
        properties[names.KEYS] = _keys(system.keys)
    if system.HasField("message_group"):
        properties[names.SHARDING_KEY] = _message_group(system.message_group)
    if system.HasField("trace_context"):
        properties[names.TRACE_CONTEXT] = system.trace_context
    _add_type(properties, message, topic)
    if system.born_timestamp.seconds not in _BORN_SECONDS:
        raise CallRefused(Code.BAD_REQUEST, f"born {system.born_timestamp.seconds} s after 1970: no such time")
    born_ms = milliseconds(system.born_timestamp)
    properties[names.BORN_HOST] = system.born_host or client_host
    if born_ms > 0:
        properties[names.BORN_TIMESTAMP] = str(born_ms)
    properties[names.PRODUCER_GROUP] = topic
    _check_size(properties)
    return {name: value for name, value in properties.items() if value}


def _user_properties(given: Any) -> dict[str, str]:
    if len(given) > USER_PROPERTIES_MAX:
        raise CallRefused(
            Code.MESSAGE_PROPERTIES_TOO_LARGE, f"{len(given)} user properties, limit {USER_PROPERTIES_MAX}"
        )
    properties = dict(given)
    for name, value in properties.items():
        if name in names.RESERVED:
            raise CallRefused(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property is used by system: {name[:128]}")
        if not name or _has_control(name) or _has_control(value):
            raise CallRefused(
                Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property {name[:128]!r} is empty or has control characters"
            )
    return properties


def _tag(tag: str) -> str:
    if not tag.strip() or "|" in tag or _has_control(tag):
        raise CallRefused(Code.ILLEGAL_MESSAGE_TAG, f"tag {tag[:128]!r} is blank, or has | or control characters in it")
    return tag


def _keys(keys: Any) -> str:
    for key in keys:
        if not key.strip() or _has_control(key):
            raise CallRefused(Code.ILLEGAL_MESSAGE_KEY, f"key {key[:128]!r} is blank or has control characters")
    return names.KEY_SEPARATOR.join(keys)


def _message_group(group: str) -> str:
    if not group.strip() or _has_control(group) or len(group.encode()) >= GROUP_BYTES_MAX:
        raise CallRefused(
            Code.ILLEGAL_MESSAGE_GROUP,
            f"message group {group[:80]!r} is blank, has control characters or {GROUP_BYTES_MAX} bytes and more",
        )
    return group


def _add_type(properties: dict[str, str], message: Any, topic: str) -> None:
    """Add the properties of delayed and transactional messages."""
    system = message.system_properties
    kind = type_of(message)
    if kind is MessageType.TRANSACTION:
        properties[names.TRANSACTION_PREPARED] = "true"
        if system.HasField("orphaned_transaction_recovery_duration"):
            seconds = milliseconds(system.orphaned_transaction_recovery_duration) // 1000
            if not 0 <= seconds <= ORPHAN_SECONDS_MAX:
                raise CallRefused(
                    Code.BAD_REQUEST,
                    f"{topic}: transactions are checked after at most {ORPHAN_SECONDS_MAX} s, not {seconds} s",
                )
            if seconds:
                properties[names.CHECK_IMMUNITY_TIME_IN_SECONDS] = str(seconds)
    elif system.HasField("delivery_timestamp"):
        properties[names.TIMER_DELIVER_MS] = str(milliseconds(system.delivery_timestamp))


def check_delivery(deliver_ms: int, now_ms: int, delay_ms_max: int) -> None:
    """Refuse a delivery time that is too far away."""
    if deliver_ms - now_ms > delay_ms_max:
        raise CallRefused(
            Code.ILLEGAL_DELIVERY_TIME, f"the delay of the message is longer than {delay_ms_max // 1000} s"
        )


def _check_size(properties: dict[str, str]) -> None:
    own = (names.BORN_HOST, names.BORN_TIMESTAMP, names.PRODUCER_GROUP, names.UNIQUE_KEY)
    size = sum(len(name.encode()) + len(value.encode()) for name, value in properties.items() if name not in own)
    if size > PROPERTY_BYTES_MAX:
        raise CallRefused(Code.MESSAGE_PROPERTIES_TOO_LARGE, f"properties of {size} bytes, limit {PROPERTY_BYTES_MAX}")
    if any(_has_control(properties.get(name, "")) for name in (*own, names.TRACE_CONTEXT)):
        raise CallRefused(Code.BAD_REQUEST, "control characters in a property of the message")


def _has_control(text: str) -> bool:
    return _CONTROL(text) is not None


def text_of(properties: dict[str, str]) -> str:
    """Return properties as one text."""
    return format_properties(properties)
