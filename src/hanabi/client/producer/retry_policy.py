"""Retry policy of sends: whether to retry after a failed attempt, the pause before it, and the final error. Pure.

Agrees with the response codes that Java's DefaultMQProducer retries (4.9 and 5.x).
"""

from collections.abc import Sequence
from typing import Final

from hanabi.client.send_result import SendResult
from hanabi.errors import (
    BrokerError,
    ConnectError,
    ConnectionLostError,
    MQError,
    NoPermission,
    RequestTimeoutError,
    SendAttempt,
    SendFailed,
    SystemBusy,
    TooManyRequestsError,
    TopicNotExist,
    TransportError,
    UnknownReplyError,
)
from hanabi.wire.codes import ResponseCode

# Codes of a broker in trouble; another broker may work.
_TROUBLE: Final = frozenset(
    {
        int(ResponseCode.SYSTEM_ERROR),
        int(ResponseCode.SYSTEM_BUSY),
        int(ResponseCode.SERVICE_NOT_AVAILABLE),
        int(ResponseCode.TOPIC_NOT_EXIST),
        int(ResponseCode.NO_BUYER_ID),
        int(ResponseCode.NOT_IN_CURRENT_UNIT),
        int(ResponseCode.FLOW_CONTROL),
        int(ResponseCode.GO_AWAY),
    }
)
# This broker may be set to read-only. Retrying there is useless; another broker may work.
_ONLY_THIS_BROKER: Final = frozenset({int(ResponseCode.NO_PERMISSION)})

# TIMEOUT_CLEAN_QUEUE and similar: the broker dropped the request unread after it waited too long.
_BUSY: Final = frozenset({int(ResponseCode.SYSTEM_BUSY), int(ResponseCode.FLOW_CONTROL)})
_BUSY_PAUSE_SECONDS_MAX: Final = 0.8

_DOUBT: Final = "It is unknown whether it is stored: sending it again may store it twice"
_LISTED_MAX: Final = 4  # attempts listed in an error

_PAUSE_SECONDS: Final = 0.1  # before a failed broker is retried; four times as long each time


class NoTimeLeftError(TransportError):
    """The deadline passed before this attempt, so it sent nothing."""


_SLOWER: Final = "The broker has too much to do: send slower, or give the topic more brokers"
_ADVICE: Final[tuple[tuple[type[Exception], str], ...]] = (
    (
        ConnectError,
        "Is the broker up, and can its address be reached from here? Brokers register the address in brokerIP1; "
        "`address_map` says where one really is",
    ),
    (NoTimeLeftError, "Give it more time: `timeout` of the call, or `send_timeout_s`"),
    (RequestTimeoutError, "Is the broker overloaded?"),
    (ConnectionLostError, "Is the broker overloaded?"),
    (TooManyRequestsError, "This client sends faster than the broker answers: send slower, or in batches"),
    (SystemBusy, _SLOWER),
    (
        NoPermission,
        "Give the topic and the broker the right to be written, and this client's access key too if there is one",
    ),
    (TopicNotExist, "Create the topic on this broker, or let brokers create topics (autoCreateTopicEnable)"),
)


def code_of(error: Exception) -> int | None:
    """Return the response code behind *error*; None if no response came."""
    if isinstance(error, UnknownReplyError):
        return error.reply_code
    return error.code if isinstance(error, BrokerError) else None


def is_worth_a_try(outcome: SendResult | MQError, *, is_fixed: bool, tried_already: bool) -> bool:
    """Return True if a retry after *outcome* makes sense: at the same queue if it *is_fixed*, else at a broker that was
    or was not tried already.
    """
    if isinstance(outcome, SendResult):
        return not is_fixed and not tried_already  # it is stored: only another broker may store it more safely
    if isinstance(outcome, TransportError):
        # A fixed queue implies order: no second copy behind the next message.
        return not is_fixed or isinstance(outcome, ConnectError | TooManyRequestsError)
    code = code_of(outcome)
    return code in _TROUBLE or (code in _ONLY_THIS_BROKER and not is_fixed and not tried_already)


def doubts_route(error: Exception) -> bool:
    """Return True if the route may be stale: the broker moved, died, or lost the topic or the write permission."""
    return isinstance(error, ConnectError | ConnectionLostError | RequestTimeoutError | TopicNotExist | NoPermission)


def is_busy(outcome: SendResult | MQError) -> bool:
    """Return True if the broker was overloaded and dropped the message unread: it is not stored."""
    return not isinstance(outcome, SendResult) and code_of(outcome) in _BUSY


def pause_before(tries_at_this_broker: int, *, busy: bool = False, chance: float = 0.5) -> float:
    """Return the pause before a broker is retried after this many failures. Retries at a *busy* one come sooner, but
    spread out: *chance* is between 0 and 1.
    """
    if not tries_at_this_broker:
        return 0.0
    if busy:
        return min(_PAUSE_SECONDS * 2.0 ** (tries_at_this_broker - 1), _BUSY_PAUSE_SECONDS_MAX) * (0.5 + chance)
    return _PAUSE_SECONDS * 4.0 ** (tries_at_this_broker - 1)


def failure(topic: str, attempts: Sequence[SendAttempt], seconds: float, timeout: float) -> SendFailed:
    """Build the one error of a failed send."""
    numbered = [f"{number}. {_tried(attempt)}" for number, attempt in enumerate(attempts, 1)]
    if len(numbered) > _LISTED_MAX:  # from a broker that stayed busy
        numbered[_LISTED_MAX - 1 : -1] = ["..."]
    tried = "; ".join(numbered)
    times = "once" if len(attempts) == 1 else f"{len(attempts)} times"
    # Also when the last attempt failed otherwise: the broker may have stored it before it died.
    unknown = any(isinstance(attempt.error, RequestTimeoutError | ConnectionLostError) for attempt in attempts)
    doubt = f"{_DOUBT}. " if unknown else ""
    return SendFailed(
        f"a message of topic {topic} could not be sent: tried {times} in {seconds:.3f} s (timeout {timeout:.3g} s): "
        f"{tried}. {doubt}{_advice(attempts[-1].error)}",
        topic=topic,
        attempts=tuple(attempts),
        retriable=_may_succeed_later(attempts[-1].error),
    )


def _may_succeed_later(error: Exception) -> bool:
    return isinstance(error, MQError) and is_worth_a_try(error, is_fixed=False, tried_already=True)


def _tried(attempt: SendAttempt) -> str:
    """Describe the error, with the broker's name and address unless it contains them."""
    text = str(attempt.error)
    where = f"{attempt.broker_name} ({attempt.address})" if attempt.address else attempt.broker_name
    return text if where in text else f"{where}: {text}"


def _advice(error: Exception) -> str:
    code = code_of(error)
    for kind, advice in _ADVICE:
        if isinstance(error, kind):
            return advice
    if code == ResponseCode.FLOW_CONTROL:
        return _SLOWER
    if code == ResponseCode.MESSAGE_ILLEGAL:
        if "length limit" not in str(error) and "bytes, limit" not in str(error):  # Apache's words, and ours
            return "The broker will never take this message, for the reason that it gives"
        return "The broker will never take this message: its limits are lower than this producer's `message_bytes_max`"
    if code == ResponseCode.SERVICE_NOT_AVAILABLE:
        return "The broker cannot write: is its disk full, is it a slave, is it shutting down?"
    return "The broker's log says more"
