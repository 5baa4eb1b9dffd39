"""Tests of what is tried again, when, and what the error says."""

import pytest

from hanabi.client.producer.retry_policy import (
    NoTimeLeftError,
    doubts_route,
    failure,
    is_busy,
    is_worth_a_try,
    pause_before,
)
from hanabi.client.send_result import SendResult, SendStatus
from hanabi.errors import (
    BrokerError,
    ConnectError,
    ConnectionLostError,
    MQError,
    RemoteProtocolError,
    RequestTimeoutError,
    SendAttempt,
    TooManyRequestsError,
)
from hanabi.message import MessageQueue

ELSEWHERE, SAME_BROKER, SAME_QUEUE = (False, False), (False, True), (True, True)
UNSAFE = SendResult(
    status=SendStatus.FLUSH_DISK_TIMEOUT,
    message_id="",
    queue=MessageQueue("T", "a", 0),
    queue_offset=0,
    offset_message_id="",
)


def said(code: int, remark: str = "no") -> BrokerError:
    return BrokerError.from_reply(code, remark, asked="SEND_MESSAGE_V2 to a (1.2.3.4:1)")


@pytest.mark.parametrize(
    ("outcome", "elsewhere", "same_broker", "same_queue"),
    [
        (ConnectError("x"), True, True, True),
        (TooManyRequestsError("x"), True, True, True),
        (ConnectionLostError("x"), True, True, False),
        (RequestTimeoutError("x"), True, True, False),
        (said(1), True, True, True),
        (said(2), True, True, True),
        (said(14), True, True, True),
        (said(17), True, True, True),
        (said(204), True, True, True),
        (said(205), True, True, True),
        (said(215), True, True, True),
        (said(1500), True, True, True),
        (said(16), True, False, False),
        (said(13), False, False, False),
        (said(3), False, False, False),
        (said(26), False, False, False),
        (RemoteProtocolError("x"), False, False, False),
        (UNSAFE, True, False, False),
    ],
)
def test_what_is_worth_another_try(
    outcome: SendResult | MQError, elsewhere: bool, same_broker: bool, same_queue: bool
) -> None:
    for (is_fixed, tried), expected in (
        (ELSEWHERE, elsewhere),
        (SAME_BROKER, same_broker),
        (SAME_QUEUE, same_queue),
    ):
        assert is_worth_a_try(outcome, is_fixed=is_fixed, tried_already=tried) is expected


def test_another_broker_is_asked_at_once_and_the_same_one_after_a_pause_that_grows() -> None:
    assert [pause_before(times) for times in range(4)] == pytest.approx([0.0, 0.1, 0.4, 1.6])


def test_a_busy_broker_is_asked_again_sooner_and_not_by_all_at_the_same_time() -> None:
    pauses = [pause_before(times, busy=True) for times in range(6)]
    assert pauses == pytest.approx([0.0, 0.1, 0.2, 0.4, 0.8, 0.8])
    assert pause_before(1, busy=True, chance=0.0) == pytest.approx(0.05)
    assert pause_before(1, busy=True, chance=1.0) == pytest.approx(0.15)


def test_only_a_broker_that_did_not_look_at_the_message_is_busy() -> None:
    assert is_busy(said(2))
    assert is_busy(said(215))
    assert not is_busy(said(1))
    assert not is_busy(RequestTimeoutError("x"))


def test_an_error_after_many_tries_is_short() -> None:
    attempts = [SendAttempt("a", "1.2.3.4:1", said(2)) for _ in range(9)]
    text = str(failure("T", attempts, 2.9, 3.0))
    assert "tried 9 times" in text
    assert "; ...; 9. SEND_MESSAGE_V2 to a (1.2.3.4:1)" in text
    assert text.count("1.2.3.4:1") == 4


@pytest.mark.parametrize(
    ("error", "doubted"),
    [(ConnectError("x"), True), (RequestTimeoutError("x"), True), (said(17), True), (said(16), True), (said(2), False)],
)
def test_what_may_be_the_fault_of_the_route(error: Exception, doubted: bool) -> None:
    assert doubts_route(error) is doubted


def test_the_error_names_each_broker_once_and_its_answer() -> None:
    attempts = [
        SendAttempt("a", "1.2.3.4:1", said(2)),
        SendAttempt("b", "1.2.3.5:1", ConnectError("1.2.3.5:1: Connection refused")),
        SendAttempt("c", None, ConnectError("no master")),
    ]
    error = failure("Orders", attempts, 0.12, 3.0)
    assert str(error) == (
        "a message of topic Orders could not be sent: tried 3 times in 0.120 s (timeout 3 s): "
        "1. SEND_MESSAGE_V2 to a (1.2.3.4:1): no (code 2); 2. b (1.2.3.5:1): 1.2.3.5:1: Connection refused; "
        "3. c: no master. Is the broker up, and can its address be reached from here? Brokers register the address in "
        "brokerIP1; `address_map` says where one really is"
    )
    assert error.topic == "Orders"
    assert error.attempts == tuple(attempts)
    assert not error.maybe_stored


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (RequestTimeoutError("x"), "may store it twice"),
        (NoTimeLeftError("x"), "Give it more time"),
        (ConnectionLostError("x"), "may store it twice"),
        (TooManyRequestsError("x"), "send slower"),
        (said(2), "too much to do"),
        (said(215), "too much to do"),
        (said(16), "right to be written"),
        (said(17), "autoCreateTopicEnable"),
        (said(13, "maybe msg body or properties length not matched. msg body length limit 128k"), "message_bytes_max"),
        (said(13, "a batch of 9 bytes, limit 8"), "message_bytes_max"),
        (said(13, "the delay time should not be bigger than the max delay"), "for the reason that it gives"),
        (said(14), "disk full"),
        (said(1), "log says more"),
    ],
)
def test_the_error_says_what_to_do(error: Exception, advice: str) -> None:
    failed = failure("T", [SendAttempt("a", "1.2.3.4:1", error)], 1.0, 3.0)
    assert advice in str(failed)
    assert failed.maybe_stored is isinstance(error, RequestTimeoutError | ConnectionLostError)
    assert ("may store it twice" in str(failed)) is failed.maybe_stored


def test_a_broker_that_died_may_have_had_the_message_before() -> None:
    attempts = [SendAttempt("a", "1.2.3.4:1", error) for error in (ConnectionLostError("x"), ConnectError("y"))]
    failed = failure("T", attempts, 1.0, 3.0)
    assert failed.maybe_stored
    assert "may store it twice" in str(failed)
    assert "Is the broker up" in str(failed)


@pytest.mark.parametrize(
    ("error", "retriable"),
    [
        (ConnectError("x"), True),
        (RequestTimeoutError("x"), True),
        (NoTimeLeftError("x"), True),
        (said(2), True),  # SYSTEM_BUSY
        (said(14), True),  # SERVICE_NOT_AVAILABLE: its disk is full, say
        (said(215), True),  # FLOW_CONTROL
        (said(17), True),  # TOPIC_NOT_EXIST: it can be made
        (said(13), False),  # MESSAGE_ILLEGAL
        (said(16), False),  # NO_PERMISSION
    ],
)
def test_a_failed_send_says_whether_sending_again_can_help(error: MQError, retriable: bool) -> None:
    never = SendAttempt("a", "1.2.3.4:1", said(13))
    assert failure("T", [never, SendAttempt("b", "1.2.3.5:1", error)], 1.0, 3.0).retriable is retriable
