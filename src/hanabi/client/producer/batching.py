"""Batches of messages of one topic: checks, encoding, and splitting by size. Pure.

Agrees with Java's MessageBatch.generateFromList. The splitter is that of Apache's examples (SplitBatchMessage), but
counts the size of a record in the log, because brokers compare that with their limit.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from hanabi.client.producer.outgoing import SEND_BATCH, Outgoing, Packing
from hanabi.client.producer.routing.selectors import chooser
from hanabi.client.send_result import SendResult
from hanabi.client.validation import check_kind, check_message
from hanabi.errors import InvalidMessage, MQError, SendFailed
from hanabi.message import Message, MessageQueue
from hanabi.wire.message import property_names as names
from hanabi.wire.message.batch import BatchMessage, encode_batch
from hanabi.wire.message.properties import format_properties
from hanabi.wire.system_names import RETRY_PREFIX

# size of a record without topic, body and properties; 64 for properties that the broker adds
_RECORD_BYTES: Final = 91 + 64


class Part(NamedTuple):
    """One encoded message of a batch."""

    message_id: str
    wire: BatchMessage
    record_bytes: int  # approximate size in the broker's log
    position: int = 0  # in the batch of the program


def check_batch(messages: Sequence[Message]) -> None:
    """Raise unless *messages* can be sent as one batch."""
    if not messages:
        raise InvalidMessage("a batch must have at least one message")
    for message in messages:
        check_kind(message)
    first = messages[0]
    if first.topic.startswith(RETRY_PREFIX):
        raise InvalidMessage(f"topic {first.topic}: messages of a retry topic cannot be sent as a batch")
    for message in messages:
        if message.topic != first.topic:
            raise InvalidMessage(f"a batch has one topic, this one has {first.topic} and {message.topic}")
        if message.wait_stored != first.wait_stored:
            raise InvalidMessage(f"topic {first.topic}: all messages of a batch wait to be stored, or none does")
        if message.is_delayed:
            raise InvalidMessage(f"topic {first.topic}: a message with a delay cannot be part of a batch")


def pack_parts(
    messages: Sequence[Message], packing: Packing, body_bytes_max: int, extra: Mapping[str, str] | None = None
) -> list[Part]:
    """Check and encode each of *messages*, with the properties in *extra*."""
    parts: list[Part] = []
    for position, message in enumerate(messages):
        check_message(message, body_bytes_max)
        message_id, text = packing.properties_of(message, extra)
        properties = text.encode("utf-8", "replace")
        size = _RECORD_BYTES + len(message.topic) + len(message.body) + len(properties)
        parts.append(Part(message_id, BatchMessage(message.flag, message.body, properties), size, position))
    return parts


def parts_by_queue(
    messages: Sequence[Message], parts: Sequence[Part], queues: Sequence[MessageQueue]
) -> dict[MessageQueue | None, list[Part]]:
    """Return the *parts* by the queue of their ordering key, in order; None has those without a key."""
    by_queue: dict[MessageQueue | None, list[Part]] = {}
    for message, part in zip(messages, parts, strict=True):
        choose = chooser(message, None, None, None)
        by_queue.setdefault(None if choose is None else choose(queues), []).append(part)
    return by_queue


def note_stored(error: MQError, results: Collection[int], count: int) -> None:
    """Add to *error* which messages of a batch of *count* are stored, by their positions in *results*."""
    stored = tuple(sorted(results))
    if isinstance(error, SendFailed):
        error.sent, error.stored = len(stored), stored
    if stored:
        which = f"the first {len(stored)}" if stored[-1] == len(stored) - 1 else str(len(stored))
        error.add_note(f"{which} of {count} messages of this batch are stored")


def split(parts: Sequence[Part], bytes_max: int) -> Iterator[Sequence[Part]]:
    """Split *parts* into as few batches as the limit allows, in order. A part over the limit goes alone."""
    start, size = 0, 0
    for index, part in enumerate(parts):
        if index > start and size + part.record_bytes > bytes_max:
            yield parts[start:index]
            start, size = index, 0
        size += part.record_bytes
    if start < len(parts):
        yield parts[start:]


def batch_of(topic: str, parts: Sequence[Part], *, wait_stored: bool) -> Outgoing:
    """Encode *parts* as one request to *topic*. Batches are not compressed: no broker would split them."""
    return Outgoing(
        topic=topic,
        body=encode_batch(part.wire for part in parts),
        properties=format_properties({names.WAIT_STORED: "true" if wait_stored else "false"}),
        message_id="",
        code=SEND_BATCH,
    )


def results_of(parts: Sequence[Part], result: SendResult) -> list[SendResult]:
    """Return the result of each message of a batch: they have consecutive offsets in one queue."""
    offset_ids = result.offset_message_id.split(",")
    return [
        msgspec.structs.replace(
            result,
            message_id=part.message_id,
            queue_offset=result.queue_offset + index,
            offset_message_id=offset_ids[index] if index < len(offset_ids) else "",
        )
        for index, part in enumerate(parts)
    ]
