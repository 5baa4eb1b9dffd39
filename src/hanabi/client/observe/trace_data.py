"""Trace line format of Apache's clients and tools. Pure.

    Pub             type 1 time 1 region 1 group 1 topic 1 id 1 tags 1 keys 1 store host 1 body bytes 1 cost ms 1 kind
                    1 offset id 1 success 2
    SubBefore       type 1 time 1 region 1 group 1 request id 1 id 1 retries 1 keys 2
    SubAfter        type 1 request id 1 id 1 cost ms 1 success 1 keys 1 outcome 1 time 1 group 2
    EndTransaction  type 1 time 1 region 1 group 1 topic 1 id 1 tags 1 keys 1 store host 1 kind 1 transaction id
                    1 state 1 asked 2

with the characters 0x01 and 0x02 for 1 and 2. A missing value is the word "null"; true and false are Java's. Agrees
with TraceDataEncoder of 4.9 and 5.x, byte for byte.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from hanabi.client.hooks import ConsumeOutcome, MessageKind
from hanabi.client.send_result import TransactionState

BETWEEN_FIELDS: Final = "\x01"
AFTER_LINE: Final = "\x02"
DEFAULT_REGION: Final = "DefaultRegion"

_STATES: Final = {
    TransactionState.COMMIT: "COMMIT_MESSAGE",
    TransactionState.ROLLBACK: "ROLLBACK_MESSAGE",
    TransactionState.UNKNOWN: "UNKNOW",  # Java's spelling
}


class TraceLine(NamedTuple):
    """A line, and its index keys: the id of the message, and the message's own keys."""

    text: str
    keys: tuple[str, ...]


class Traced(NamedTuple):
    """Traced facts of a message. `keys` are one text separated by spaces, as in messages."""

    topic: str
    message_id: str
    tags: str | None = None
    keys: Sequence[str] = ()


def sent_line(
    message: Traced,
    *,
    time_ms: int,
    region: str,
    group: str,
    store_host: str,
    body_bytes: int,
    cost_ms: int,
    kind: MessageKind,
    offset_message_id: str,
    success: bool,
) -> TraceLine:
    """Encode that a message was sent."""
    return _line(
        message,
        "Pub",
        str(time_ms),
        region,
        group,
        message.topic,
        message.message_id,
        _text(message.tags),
        _keys(message),
        store_host,
        str(body_bytes),
        str(cost_ms),
        str(kind.value),
        offset_message_id,
        _java(success),
    )


def consuming_line(
    message: Traced, *, time_ms: int, region: str | None, group: str, request_id: str, retries: int
) -> TraceLine:
    """Encode that a message is about to be consumed. *request_id* is the same in `consumed_line`."""
    return _line(
        message,
        "SubBefore",
        str(time_ms),
        _text(region),
        group,
        request_id,
        message.message_id,
        str(retries),
        _keys(message),
    )


def consumed_line(
    message: Traced, *, time_ms: int, group: str, request_id: str, cost_ms: int, outcome: ConsumeOutcome
) -> TraceLine:
    """Encode that a message was consumed, or failed."""
    return _line(
        message,
        "SubAfter",
        request_id,
        message.message_id,
        str(cost_ms),
        _java(outcome is ConsumeOutcome.SUCCESS),
        _keys(message),
        str(outcome.value),
        str(time_ms),
        group,
    )


def ended_line(
    message: Traced,
    *,
    time_ms: int,
    region: str,
    group: str,
    store_host: str,
    transaction_id: str | None,
    state: TransactionState,
    from_check: bool,
) -> TraceLine:
    """Encode that a transaction has ended."""
    return _line(
        message,
        "EndTransaction",
        str(time_ms),
        region,
        group,
        message.topic,
        message.message_id,
        _text(message.tags),
        _keys(message),
        store_host,
        str(MessageKind.TRANSACTION_COMMIT.value),
        _text(transaction_id),
        _STATES[state],
        _java(from_check),
    )


def _line(message: Traced, *fields: str) -> TraceLine:
    return TraceLine(BETWEEN_FIELDS.join(fields) + AFTER_LINE, (message.message_id, *message.keys))


def _keys(message: Traced) -> str:
    return _text(" ".join(message.keys) or None)


def _text(text: str | None) -> str:
    """Format a value as Java does. A separator in it would corrupt all other lines, so it becomes a space."""
    return "null" if text is None else text.replace(BETWEEN_FIELDS, " ").replace(AFTER_LINE, " ")


def _java(value: bool) -> str:
    return "true" if value else "false"
