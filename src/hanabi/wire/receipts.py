"""Receipts of POP: the text that acknowledges one message, and the texts of a reply from which clients build it.

    receipt             startOffset popTime invisibleTime reviveQueue mark brokerName queueId offset
    startOffsetInfo     mark queueId startOffset;...
    msgOffsetInfo       mark queueId offset,offset,...;...
    orderCountInfo      mark qo<queueId>%<offset> count;...   and   mark queueId count;...

The mark says which topic the message lies in: the one that was asked for, or the group's retry topic of it, which has
two forms of name. Agrees with Java's ExtraInfoUtil and KeyBuilder (5.3.3).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from hanabi.errors import RemoteProtocolError
from hanabi.wire.system_names import RETRY_PREFIX

ORDERED_QUEUE: Final = 999  # the revive queue in receipts of ordered consumption
NORMAL: Final = "0"
RETRY_V1: Final = "1"
RETRY_V2: Final = "2"

_WORDS_MIN: Final = 6  # Apache reads the first six of each receipt; the queue and the offset are in the header, too
_NUMBER_CHARACTERS_MAX: Final = 20
_RECEIPT_CHARACTERS_MAX: Final = 1024


def retry_topic_v1(topic: str, group: str) -> str:
    """Return the topic in which messages of *topic* wait that *group* did not acknowledge in time."""
    return f"{RETRY_PREFIX}{group}_{topic}"


def retry_topic_v2(topic: str, group: str) -> str:
    """Return the second form of that name (`enableRetryTopicV2`): it can be taken apart again."""
    return f"{RETRY_PREFIX}{group}+{topic}"


def mark_of(topic: str) -> str:
    """Return the mark of messages that lie in *topic*."""
    if not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if "+" in topic else RETRY_V1


def real_topic(topic: str, group: str, mark: str) -> str:
    """Return the topic in which a message with *mark* lies, for a consumer of *topic*."""
    if mark == NORMAL:
        return topic
    if mark == RETRY_V1:
        return retry_topic_v1(topic, group)
    if mark == RETRY_V2:
        return retry_topic_v2(topic, group)
    raise RemoteProtocolError(f"receipt with mark {mark[:8]!r}, known are 0, 1 and 2")


def original_topic(topic: str, group: str) -> str:
    """Return the topic that a retry topic of *group* belongs to; *topic* itself if it is none."""
    for separator in ("+", "_"):
        prefix = f"{RETRY_PREFIX}{group}{separator}"
        if topic.startswith(prefix):
            return topic[len(prefix) :]
    return topic


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """One receipt, decoded. `queue_id` and `offset` are -1 in the short form that only names a batch."""

    start_offset: int
    pop_ms: int
    invisible_ms: int
    revive_queue_id: int
    mark: str
    broker_name: str
    queue_id: int = -1
    offset: int = -1

    @property
    def is_ordered(self) -> bool:
        return self.revive_queue_id == ORDERED_QUEUE

    def encode(self) -> str:
        """Return the text of the receipt."""
        return (
            f"{self.start_offset} {self.pop_ms} {self.invisible_ms} {self.revive_queue_id} {self.mark}"
            f" {self.broker_name} {self.queue_id} {self.offset}"
        )


def decode_receipt(text: str) -> Receipt:
    """Return the receipt in *text*. Words behind the eighth are a proxy's own and ignored."""
    words = text.split(" ") if len(text) <= _RECEIPT_CHARACTERS_MAX else []
    if len(words) < _WORDS_MIN:
        raise RemoteProtocolError(f"receipt {text[:80]!r} has {len(words)} words, expected 8")
    try:
        return Receipt(
            *(_number(words[0]), _number(words[1]), _number(words[2]), _number(words[3]), words[4], words[5]),
            queue_id=_number(words[6]) if len(words) > 6 else -1,
            offset=_number(words[7]) if len(words) > 7 else -1,
        )
    except ValueError as error:
        raise RemoteProtocolError(f"receipt {text[:80]!r} is damaged: {error}") from error


def issued_receipt(text: str | None, pop_ms: int, queue_id: int, offset: int) -> Receipt | None:
    """Return the receipt that a broker wrote into a message's property POP_CK; None if it did not.

    Apache's brokers do it where they rename a retry topic. A producer can write the property, too: its receipt would
    acknowledge another message. It does not know the time of the pop.
    """
    try:
        receipt = decode_receipt(text) if text is not None else None
    except RemoteProtocolError:
        return None
    if receipt is None or (receipt.pop_ms, receipt.queue_id, receipt.offset) != (pop_ms, queue_id, offset):
        return None
    return receipt


def _number(word: str) -> int:
    if len(word) > _NUMBER_CHARACTERS_MAX:
        raise ValueError("a number is too long")
    return int(word)


# Texts of a reply

QueueKey = tuple[str, int]  # mark and queue id


def start_offsets_text(starts: Iterable[tuple[str, int, int]]) -> str:
    """Format `startOffsetInfo` of (mark, queue id, start offset)."""
    return ";".join(f"{mark} {queue_id} {start}" for mark, queue_id, start in starts)


def message_offsets_text(batches: Iterable[tuple[str, int, Iterable[int]]]) -> str:
    """Format `msgOffsetInfo` of (mark, queue id, offsets)."""
    return ";".join(f"{mark} {queue_id} {','.join(map(str, offsets))}" for mark, queue_id, offsets in batches)


def order_counts_text(mark: str, queue_id: int, counts: Mapping[int, int], batch_count: int) -> str:
    """Format the part of `orderCountInfo` for one queue: *counts* by offset, and *batch_count* for old clients."""
    each = [f"{mark} qo{queue_id}%{offset} {count}" for offset, count in counts.items()]
    return ";".join((*each, f"{mark} {queue_id} {batch_count}"))


def parse_start_offsets(text: str | None) -> dict[QueueKey, int]:
    """Parse `startOffsetInfo`."""
    return {(mark, queue_id): _as_number(value) for mark, queue_id, value in _entries(text)}


def parse_message_offsets(text: str | None) -> dict[QueueKey, Sequence[int]]:
    """Parse `msgOffsetInfo`."""
    return {(mark, queue_id): [_as_number(one) for one in value.split(",")] for mark, queue_id, value in _entries(text)}


def parse_order_counts(text: str | None) -> dict[tuple[str, int, int], int]:
    """Parse the counts by offset of `orderCountInfo`, by mark, queue id and offset."""
    counts: dict[tuple[str, int, int], int] = {}
    for part in text.split(";") if text else ():
        mark, _, rest = part.partition(" ")
        place, _, count = rest.partition(" ")
        if place.startswith("qo"):
            queue_id, _, offset = place[2:].partition("%")
            counts[mark, _as_number(queue_id), _as_number(offset)] = _as_number(count)
    return counts


def _entries(text: str | None) -> Iterable[tuple[str, int, str]]:
    for part in text.split(";") if text else ():
        words = part.split(" ")
        if len(words) != 3:
            raise RemoteProtocolError(f"{part[:80]!r} is no part of a pop's reply: it has {len(words)} words, not 3")
        yield words[0], _as_number(words[1]), words[2]


def _as_number(word: str) -> int:
    try:
        return _number(word)
    except ValueError as error:
        raise RemoteProtocolError(f"{word[:40]!r} in a pop's reply is no number") from error
