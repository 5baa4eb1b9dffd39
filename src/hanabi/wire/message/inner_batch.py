"""Inner batches: messages that a 5.x broker stores as one record, in topics with the queue type BatchCQ.

Their body is that of a batch request (`wire.message.batch`); the queue counts every message in it. Consumers take them
apart. Agrees with Java's MessageDecoder.decodeMessage(MessageExt, List) and PullAPIWrapper.processPullResult.
"""

from typing import Final

import msgspec

from hanabi.errors import MQError
from hanabi.message import StoredMessage
from hanabi.wire.message import property_names as names
from hanabi.wire.message import sysflag
from hanabi.wire.message.batch import decode_batch
from hanabi.wire.message.properties import decode_properties

_BOTH: Final = sysflag.INNER_BATCH | sysflag.NEED_UNWRAP


def is_inner_batch(message: StoredMessage) -> bool:
    """Return whether *message* stands for several."""
    return message.sys_flag & _BOTH == _BOTH


def unwrap(message: StoredMessage) -> list[StoredMessage]:
    """Return the messages that *message* stands for, in order. Each still says that it was part of a batch, as in
    Java; the place in the log is that of the batch. RemoteProtocolError if it is none."""
    parts: list[StoredMessage] = []
    for index, part in enumerate(decode_batch(message.body)):
        properties = decode_properties(part.properties)
        parts.append(
            msgspec.structs.replace(
                message,
                body=part.body,
                flag=part.flag,
                properties=properties,
                tags=properties.get(names.TAGS),
                keys=tuple(properties.get(names.KEYS, "").split()),
                message_id=properties.get(names.UNIQUE_KEY, message.offset_message_id),
                queue_offset=message.queue_offset + index,
                sys_flag=message.sys_flag & ~sysflag.NEED_UNWRAP,
            )
        )
    return parts


def unwrapped(messages: list[StoredMessage], offset: int) -> tuple[list[StoredMessage], MQError | None]:
    """Unpack the inner batches in *messages*; if one is damaged, return the messages before it and the error.

    A pull from the middle of a batch gets all of it: messages before *offset* are left out.
    """
    if not any(message.sys_flag & _BOTH == _BOTH for message in messages):
        return messages, None
    parts: list[StoredMessage] = []
    for message in messages:
        try:
            parts += unwrap(message) if is_inner_batch(message) else [message]
        except MQError as error:
            return _from(parts, offset), error
    return _from(parts, offset), None


def _from(messages: list[StoredMessage], offset: int) -> list[StoredMessage]:
    return [message for message in messages if message.queue_offset >= offset]
