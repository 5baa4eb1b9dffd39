"""Client-side checks of names and messages that no broker would accept. Every error names the limit.

Pure. Agrees with Java's Validators and TopicValidator.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from hanabi.errors import ConfigError, InvalidMessage
from hanabi.message import Message
from hanabi.wire.message.properties import PROPERTIES_BYTES_MAX
from hanabi.wire.system_names import CLOSED_TOPICS, GROUP_CHARACTERS_MAX, TOPIC_CHARACTERS_MAX

BODY_BYTES_MAX: Final = 4 * 1024 * 1024

_LEGAL_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
_LEGAL_CHARACTERS: Final = "letters, digits and % | _ -"
_MILLISECONDS_MIN: Final = 10**12
_DELAYS: Final = ("delay_level", "deliver_time_ms", "delay", "deliver_at")


def check_topic(topic: str) -> None:
    """Raise unless messages can be sent to a topic of this name."""
    if not isinstance(topic, str) or not topic.strip():
        raise InvalidMessage(f"topic {topic!r}: a topic must have a name")
    if len(topic) > TOPIC_CHARACTERS_MAX:
        raise InvalidMessage(f"topic {topic!r} has {len(topic)} characters, limit {TOPIC_CHARACTERS_MAX}")
    if not _LEGAL_NAME.fullmatch(topic):
        raise InvalidMessage(f"topic {topic!r}: only {_LEGAL_CHARACTERS} are allowed in a topic's name")
    if topic in CLOSED_TOPICS:
        raise InvalidMessage(f"topic {topic}: brokers keep their own state in it, clients cannot send to it")


def check_group(group: str) -> None:
    """Raise unless a group of producers or consumers can have this name."""
    if not isinstance(group, str) or not group.strip():
        raise ConfigError(f"group {group!r}: a group must have a name")
    if len(group) > GROUP_CHARACTERS_MAX:
        raise ConfigError(f"group {group!r} has {len(group)} characters, limit {GROUP_CHARACTERS_MAX}")
    if not _LEGAL_NAME.fullmatch(group):
        raise ConfigError(f"group {group!r}: only {_LEGAL_CHARACTERS} are allowed in a group's name")


def check_kind(message: object) -> None:
    """Raise unless *message* is a `Message`."""
    if not isinstance(message, Message):
        raise InvalidMessage(f"a message must be a hanabi.Message(topic, body), not {type(message).__name__}")


def check_message(message: Message, body_bytes_max: int = BODY_BYTES_MAX) -> None:
    """Raise unless the rest of *message*, apart from its topic and properties, can be sent."""
    check_kind(message)
    body = message.body
    if type(body) is not bytes:
        raise InvalidMessage(
            f"topic {message.topic}: the body is {type(body).__name__}, must be bytes: encode text, as in text.encode()"
        )
    if not body:
        raise InvalidMessage(f"topic {message.topic}: the body is empty, must have at least 1 byte")
    if len(body) > body_bytes_max:
        raise InvalidMessage(f"topic {message.topic}: the body has {len(body)} bytes, limit {body_bytes_max}")
    if message.delay_level or message.deliver_time_ms or message.delay or message.deliver_at:
        _check_delay(message)


def _check_delay(message: Message) -> None:
    if not isinstance(message.delay_level, int) or not isinstance(message.deliver_time_ms, int):
        raise InvalidMessage(
            f"topic {message.topic}: delay_level and deliver_time_ms must be int,"
            f" not {message.delay_level!r} and {message.deliver_time_ms!r}"
        )
    if message.delay_level < 0 or message.deliver_time_ms < 0:
        raise InvalidMessage(f"topic {message.topic}: neither a delay level nor a deliver time can be negative")
    _check_delay_and_moment(message)
    given = [name for name in _DELAYS if getattr(message, name)]
    if len(given) > 1:
        raise InvalidMessage(f"topic {message.topic}: {' and '.join(given)} exclude each other: give one of them")
    if 0 < message.deliver_time_ms < _MILLISECONDS_MIN:
        raise InvalidMessage(
            f"topic {message.topic}: deliver_time_ms={message.deliver_time_ms} is before 2001 in milliseconds since"
            " 1970: are these seconds, or a delay? The moment of delivery is int(time.time() * 1000) and the delay"
        )


def _check_delay_and_moment(message: Message) -> None:
    if not isinstance(message.delay, timedelta | None) or not isinstance(message.deliver_at, datetime | None):
        raise InvalidMessage(
            f"topic {message.topic}: delay must be a timedelta and deliver_at a datetime,"
            f" not {message.delay!r} and {message.deliver_at!r}"
        )
    if message.delay is not None and message.delay < timedelta(0):
        raise InvalidMessage(f"topic {message.topic}: delay={message.delay!r} is negative")
    if message.deliver_at is not None and message.deliver_at.timestamp() * 1000 < _MILLISECONDS_MIN:
        raise InvalidMessage(f"topic {message.topic}: deliver_at={message.deliver_at!r} is before 2001")


def check_texts(message: Message) -> None:
    """Raise if a property of *message* is no text. Called only after encoding failed, as it is slow."""
    if not isinstance(message.tags, str | None):
        raise InvalidMessage(f'topic {message.topic}: tags must be one text, such as "created", not {message.tags!r}')
    if not isinstance(message.ordering_key, str | None):
        raise InvalidMessage(f"topic {message.topic}: ordering_key must be a text, not {message.ordering_key!r}")
    for key in message.keys:
        if not isinstance(key, str):
            raise InvalidMessage(f"topic {message.topic}: keys must be texts, and {key!r} is none")
    if not isinstance(message.properties, Mapping):
        raise InvalidMessage(f"topic {message.topic}: properties must be a dict, not {message.properties!r}")
    for name, value in message.properties.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidMessage(
                f"topic {message.topic}: properties must have texts as names and values, not {name!r}: {value!r}"
            )


def check_properties(topic: str, properties: str) -> None:
    """Raise if the encoded *properties* are too long for a record, or are not valid UTF-8."""
    if properties.isascii() and len(properties) <= PROPERTIES_BYTES_MAX:
        return  # without encoding them
    try:
        size = len(properties.encode())
    except UnicodeEncodeError as error:
        bad = properties[error.start : error.end]
        raise InvalidMessage(
            f"topic {topic}: {bad!r} in the properties, tags and keys among them, is an unpaired surrogate"
        ) from error
    if size > PROPERTIES_BYTES_MAX:
        raise InvalidMessage(
            f"topic {topic}: the properties, tags and keys among them, have {size} bytes, limit {PROPERTIES_BYTES_MAX}"
        )
