"""Rules for messages that a consumer failed to process: retry with a delay, or dead letter.

Facts in, decision out. Agrees with Java's SendMessageProcessor.asyncConsumerSendMsgBack and handleRetryAndDLQ (4.9.8).
Dead letters can be read (perm 6), as 4.9.8 makes them; older brokers made them write-only.
"""

from typing import Final

from hanabi.broker.tables.topics import PERM_READ, PERM_WRITE
from hanabi.wire.bodies.groups import SubscriptionGroupConfig
from hanabi.wire.message import property_names as names
from hanabi.wire.message.java_hash_map import encode_again
from hanabi.wire.message.properties import decode_properties
from hanabi.wire.system_names import DEAD_LETTER_PREFIX, RETRY_PREFIX

READ_AND_WRITE: Final = PERM_READ | PERM_WRITE
DEAD_LETTER_QUEUES: Final = 1  # of each group
UNIT: Final = 1  # bits of a topic's system flag: the topic belongs to a unit of a larger installation,
UNIT_SUBSCRIBED: Final = 2  # or is read by one

FIRST_RETRY_LEVEL: Final = 3  # 10 s with the levels by default
_V3_4_9: Final = 121  # from this version on clients send the maximum of retries themselves


def retry_topic(group: str) -> str:
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    return DEAD_LETTER_PREFIX + group


def topic_sys_flag(topic: str, unit_mode: bool) -> int:
    """Return the system flag for a topic that a client in *unit_mode* creates by sending to it."""
    if not unit_mode:
        return 0
    return UNIT_SUBSCRIBED if topic.startswith(RETRY_PREFIX) else UNIT


def tries_max(group: SubscriptionGroupConfig, client_version: int, asked: int | None) -> int:
    """Return the maximum of tries for a message of this group: the client's own if its version sends one."""
    return asked if asked is not None and client_version >= _V3_4_9 else group.retry_max_times


def is_dead(reconsume_times: int, tries_max: int) -> bool:
    """Return whether the tries are exhausted."""
    return reconsume_times >= tries_max


def retry_level(reconsume_times: int, asked: int, tries_max: int) -> int | None:
    """Return the delay level for the next try; None if the message becomes a dead letter.

    *asked* is the client's wish: 0 leaves it to the broker, a negative value means no more tries.
    """
    if asked < 0 or is_dead(reconsume_times, tries_max):
        return None
    return asked or FIRST_RETRY_LEVEL + reconsume_times


def sent_back_properties(raw: bytes, *, topic: str, message_id: str, level: int | None) -> bytes:
    """Return the properties of a message sent back: its origin, and when it is due.

    *topic* and *message_id* are those of the record that failed now, which may itself be a retry.
    """
    properties = decode_properties(raw)
    properties.setdefault(names.RETRY_TOPIC, topic)
    properties[names.WAIT_STORED] = "false"
    properties[names.DELAY_LEVEL] = str(level or 0)
    if not properties.get(names.ORIGIN_MESSAGE_ID, "").strip():
        properties[names.ORIGIN_MESSAGE_ID] = message_id
    return encode_again(properties, raw)
