"""Checkpoints and acknowledgements of Apache's POP, as its broker leaves them in a store. Pure.

Apache's broker writes a checkpoint for each batch that it hands out, and a message for each acknowledgement, through
the timer into `rmq_sys_REVIVE_LOG_<cluster>`. A batch is over when its time has come and its acknowledgements are
there: what is not acknowledged is delivered again. Agrees with PopCheckPoint, AckMsg, BatchAckMsg and
PopReviveService.consumeReviveMessage (5.3.3); older brokers wrote the long names.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from hanabi.errors import RemoteProtocolError
from hanabi.wire.fastjson import decode_body

TOPIC_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
CHECKPOINT_TAG: Final = "ck"
ACK_TAGS: Final = ("ack", "bAck")
_BATCH_MAX: Final = 1_024

BatchKey = tuple[str, str, int, int, int]  # topic, group, queue id, start offset, pop time


class Batch:
    """Messages that one pop of Apache's broker handed out. *revive_offset* is the place of the checkpoint."""

    __slots__ = ("key", "open", "revive_ms", "revive_offset")

    def __init__(self, key: BatchKey, offsets: Iterable[int], revive_ms: int, revive_offset: int) -> None:
        self.key, self.revive_ms, self.revive_offset = key, revive_ms, revive_offset
        self.open = dict.fromkeys(offsets)  # not acknowledged


class Ack(NamedTuple):
    """Acknowledged offsets of one batch."""

    key: BatchKey
    offsets: tuple[int, ...]


def read_checkpoint(body: bytes, revive_offset: int) -> Batch:
    """Return the batch of a checkpoint; raise RemoteProtocolError if it is none."""
    fields = _fields(body)
    start, pop_ms = _number(fields, "so", "startOffset"), _number(fields, "pt", "popTime")
    acked = _number(fields, "bm", "bitMap")
    differences = fields.get("d") or fields.get("queueOffsetDiff")
    if not isinstance(differences, list) or not differences:
        differences = list(range(min(_number(fields, "n", "num"), _BATCH_MAX)))
    if len(differences) > _BATCH_MAX or not all(isinstance(each, int) and each >= 0 for each in differences):
        raise RemoteProtocolError(f"a checkpoint with {len(differences)} messages, or with a broken one")
    offsets = [start + each for index, each in enumerate(differences) if not acked >> index & 1]
    revive_ms = pop_ms + _number(fields, "it", "invisibleTime")
    return Batch(_key(fields, "cid", start, pop_ms), offsets, revive_ms, revive_offset)


def read_ack(body: bytes) -> Ack:
    """Return what an acknowledgement, of one message or of several, names; raise RemoteProtocolError if it is none."""
    fields = _fields(body)
    key = _key(fields, "consumerGroup", _number(fields, "so", "startOffset"), _number(fields, "pt", "popTime"))
    several = fields.get("aol") or fields.get("ackOffsetList")
    if isinstance(several, list) and several:
        return Ack(key, tuple(each for each in several[:_BATCH_MAX] if isinstance(each, int)))
    return Ack(key, (_number(fields, "ao", "ackOffset"),))


def _fields(body: bytes) -> Mapping[str, Any]:
    return decode_body(body, dict[str, Any])


def _key(fields: Mapping[str, Any], long_group: str, start: int, pop_ms: int) -> BatchKey:
    topic, group = fields.get("t", fields.get("topic")), fields.get("c", fields.get(long_group))
    if not isinstance(topic, str) or not isinstance(group, str) or not topic or not group:
        raise RemoteProtocolError("a record of POP without a topic or a group")
    return topic, group, _number(fields, "q", "queueId"), start, pop_ms


def _number(fields: Mapping[str, Any], short: str, long: str) -> int:
    value = fields.get(short, fields.get(long, 0))
    if not isinstance(value, int) or not 0 <= value < 2**63:
        raise RemoteProtocolError(f"{short} of a record of POP is no number: {str(value)[:40]!r}")
    return value
