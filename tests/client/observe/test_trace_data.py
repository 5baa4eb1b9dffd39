"""Lines of traces, against those that Apache's encoder wrote (the same in 4.9.8 and 5.3.3)."""

from pathlib import Path

from hanabi.client.hooks import ConsumeOutcome, MessageKind
from hanabi.client.observe.trace_data import Traced, TraceLine, consumed_line, consuming_line, ended_line, sent_line
from hanabi.client.send_result import TransactionState

APACHES = (Path(__file__).parent / "apache_traces.txt").read_text().splitlines()

ID = "AC1100017A2B18B4AAC20000000000AB"
REQUEST = "AC1100017A2B18B4AAC20000000000CD"
TIME = 1_700_000_000_123


def our_lines() -> list[TraceLine]:
    """Return what tests/interop/java/judges/TraceJudge.java has Apache encode."""
    lines = []
    for bare in (False, True):
        message = Traced("Orders", ID, None if bare else "paid", () if bare else ("order-42", "customer-7"))
        lines += [
            sent_line(
                message,
                time_ms=TIME,
                region="DefaultRegion",
                group="billing",
                store_host="10.0.0.1:10911",
                body_bytes=1234,
                cost_ms=17,
                kind=MessageKind.NORMAL if bare else MessageKind.DELAY,
                offset_message_id="0A00000100002A9F0000000000000457",
                success=bare,
            ),
            consuming_line(
                message,
                time_ms=TIME,
                region=None if bare else "DefaultRegion",
                group="billing",
                request_id=REQUEST,
                retries=0 if bare else 3,
            ),
            consumed_line(
                message,
                time_ms=TIME,
                group="billing",
                request_id=REQUEST,
                cost_ms=17,
                outcome=ConsumeOutcome.SUCCESS if bare else ConsumeOutcome.EXCEPTION,
            ),
            ended_line(
                message,
                time_ms=TIME,
                region="DefaultRegion",
                group="billing",
                store_host="10.0.0.1:10911",
                transaction_id=None if bare else "TX-1",
                state=TransactionState.UNKNOWN if bare else TransactionState.ROLLBACK,
                from_check=not bare,
            ),
        ]
    return lines


def test_every_line_is_apaches_byte_for_byte() -> None:
    assert [line.text.replace("\x01", "|").replace("\x02", "~") for line in our_lines()] == APACHES


def test_a_line_is_found_by_the_id_and_the_keys_of_its_message() -> None:
    assert our_lines()[0].keys == (ID, "order-42", "customer-7")
    assert our_lines()[-1].keys == (ID,)


def test_a_separator_in_a_name_does_not_hide_the_other_lines() -> None:
    line = consuming_line(
        Traced("Orders", ID, keys=("a\x01b\x02c",)), time_ms=1, region="r", group="g", request_id="q", retries=0
    )
    assert line.text.count("\x01") == 7
    assert line.text.count("\x02") == 1
