"""Results and enumerations print as words."""

from hanabi import MessageQueue, PullStatus, SendResult, SendStatus, TransactionResult, TransactionState
from hanabi.client.hooks import ConsumeOutcome, MessageKind

QUEUE = MessageQueue("Orders", "broker-a", 3)
SENT = SendResult(status=SendStatus.SEND_OK, message_id="7F01", queue=QUEUE, queue_offset=17, offset_message_id="7F02")


def test_enumerations_print_their_names() -> None:
    assert f"{SendStatus.FLUSH_DISK_TIMEOUT} {PullStatus.NO_NEW_MESSAGE}" == "FLUSH_DISK_TIMEOUT NO_NEW_MESSAGE"
    assert f"{TransactionState.COMMIT} {MessageKind.DELAY} {ConsumeOutcome.FAILED}" == "COMMIT DELAY FAILED"


def test_results_print_as_sentences() -> None:
    assert str(QUEUE) == "Orders queue 3 of broker-a"
    assert str(SENT) == "SEND_OK: Orders queue 3 of broker-a, offset 17, message id 7F01"
    failed = TransactionResult(send=SENT, state=TransactionState.UNKNOWN, error=ValueError("no"))
    assert str(failed) == "UNKNOWN: Orders queue 3 of broker-a, message id 7F01, local part failed: ValueError('no')"
    assert "SendResult(" in repr(SENT)
