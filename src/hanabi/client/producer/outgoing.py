"""Encoding of messages for sending: checked, with id and properties, compressed. Pure, except for the ids and the
thread that compresses large bodies.

The result does not depend on the target, which is chosen later and may change. Agrees with Java's
DefaultMQProducerImpl.sendKernelImpl.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec

from hanabi.client.in_thread import in_thread
from hanabi.client.namespace import wrap
from hanabi.client.producer.config import ProducerConfig
from hanabi.client.validation import check_message, check_properties, check_texts, check_topic
from hanabi.errors import InvalidMessage, MQError
from hanabi.message import Message
from hanabi.wire.codes import RequestCode
from hanabi.wire.message import property_names as names
from hanabi.wire.message import sysflag
from hanabi.wire.message.compression import compress
from hanabi.wire.message.properties import format_properties, sending_properties

SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
SEND_BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)
SEND_REPLY: Final = int(RequestCode.SEND_REPLY_MESSAGE_V2)
_TOPICS_MAX: Final = 10_000
_TAGS_MAX: Final = 1_000
THREAD_BYTES: Final = 64 * 1024  # zlib needs a millisecond for this much: larger bodies are compressed outside the loop


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """Encoded message or batch, for any broker. `topic` is the name on the wire: with the namespace, if there is
    one.
    """

    topic: str
    body: bytes
    properties: str
    message_id: str  # empty for a batch: each of its messages has its own
    flag: int = 0
    sys_flag: int = 0
    code: int = SEND
    reconsume_times: int = 0
    max_reconsume_times: int | None = None
    to_compress: bool = False  # the body is large and uncompressed: see `Packing.compressed`

    @property
    def is_batch(self) -> bool:
        return self.code == SEND_BATCH


class Packing:
    """Encoder for one producer. *make_id* returns unique ids."""

    def __init__(self, settings: ProducerConfig, namespace: str, make_id: Callable[[], str]) -> None:
        self._make_id, self._namespace = make_id, namespace
        self._before_id: dict[tuple[str | None, bool], str] = {}  # (tags, wait_stored) -> properties without the id
        self._topics: dict[str, str] = {}  # checked topics, and their names on the wire
        self._bytes_max = settings.message_bytes_max
        self._compress_from = settings.compress_over_bytes
        self._compression, self._level = settings.compression_type, settings.compression_level
        self._always: dict[str, str] = {names.INSTANCE_ID: namespace} if namespace else {}

    def pack(self, message: Message, extra: Mapping[str, str] | None = None, sys_flag: int = 0) -> Outgoing:
        """Encode *message*. *extra* are reserved properties, which programs cannot set.

        If the result has `to_compress` set, pass it through `compressed` before sending.
        """
        check_message(message, self._bytes_max)
        message_id, properties = self.properties_of(message, extra)
        body, to_compress = message.body, False
        if len(body) >= self._compress_from:
            if len(body) >= THREAD_BYTES:
                to_compress = True
            else:
                body, sys_flag = self._compress(body, sys_flag)
        return Outgoing(
            topic=self._topics.get(message.topic) or self.topic_on_wire(message.topic),
            body=body,
            properties=properties,
            message_id=message_id,
            flag=message.flag,
            sys_flag=sys_flag,
            to_compress=to_compress,
        )

    async def compressed(self, outgoing: Outgoing) -> Outgoing:
        """Compress the body of *outgoing*, if that makes it smaller; in a thread."""
        body, sys_flag = await in_thread(partial(self._compress, outgoing.body, outgoing.sys_flag))
        return msgspec.structs.replace(outgoing, body=body, sys_flag=sys_flag, to_compress=False)

    def topic_on_wire(self, topic: str) -> str:
        """Check *topic*, and return its name with the namespace."""
        check_topic(topic)
        if len(self._topics) >= _TOPICS_MAX:  # bound for programs that keep sending to new topics
            self._topics.clear()
        name = self._topics[topic] = wrap(self._namespace, topic)
        return name

    def _plain_properties(self, message: Message) -> tuple[str, str]:
        """Return the properties of an ordinary message: cached, except for the id."""
        kind = (message.tags, message.wait_stored)
        try:
            before_id = self._before_id.get(kind)
        except TypeError:  # for example tags given as a list
            check_texts(message)
            raise
        if before_id is None:
            message_id, text = self._all_properties(message)
            if len(self._before_id) >= _TAGS_MAX:
                self._before_id.clear()
            self._before_id[kind] = text.removesuffix(message_id)
            return message_id, text
        message_id = self._make_id()
        return message_id, before_id + message_id

    def properties_of(self, message: Message, extra: Mapping[str, str] | None = None) -> tuple[str, str]:
        """Return a new id, and all properties of *message*, including the id, as one text."""
        if extra or message.properties or message.keys or message.ordering_key is not None or message.is_delayed:
            return self._all_properties(message, extra)
        return self._plain_properties(message)

    def _all_properties(self, message: Message, extra: Mapping[str, str] | None = None) -> tuple[str, str]:
        message_id = self._make_id()
        try:
            properties = sending_properties(message)
            if self._always:
                properties |= self._always
            if extra:
                properties |= extra
            properties[names.UNIQUE_KEY] = message_id  # last: `_plain_properties` replaces it
            text = format_properties(properties)
        except (MQError, TypeError, ValueError) as error:  # a reserved name, a value that is no text
            check_texts(message)
            raise InvalidMessage(f"topic {message.topic}: {error}") from error
        check_properties(message.topic, text)
        return message_id, text

    def _compress(self, body: bytes, sys_flag: int) -> tuple[bytes, int]:
        packed = compress(body, self._compression, self._level)
        if len(packed) >= len(body):  # for example an image: compression would only cost the consumer time
            return body, sys_flag
        return packed, sysflag.with_compression(sys_flag, self._compression)
