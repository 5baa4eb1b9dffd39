import msgspec
import pytest

from hanabi.broker.transactions.half_message import HalfMessage
from hanabi.broker.transactions.verdict import Verdict, judge
from tests.broker.transactions.test_half_message import record_of

NOW_MS = 1_000_000_000
HOUR_MS = 3_600_000


def verdict(
    age_ms: int,
    properties: dict[str, str] | None = None,
    *,
    stored_ms: int = NOW_MS - 1,
    offset: int = 0,
    check_max: int = 15,
) -> Verdict:
    record = msgspec.structs.replace(
        record_of(properties or {}),
        born_timestamp_ms=NOW_MS - age_ms,
        store_timestamp_ms=stored_ms,
        queue_offset=offset,
    )
    return judge(
        HalfMessage.of(record),
        now_ms=NOW_MS,
        round_end=10,
        timeout_ms=6_000,
        check_max=check_max,
        kept_ms=72 * HOUR_MS,
    )


@pytest.mark.parametrize(
    ("age_ms", "expected"),
    [
        (0, Verdict.LATER),
        (5_999, Verdict.LATER),
        (6_000, Verdict.ASK),
        (-1, Verdict.ASK),  # born in the future: no telling how old it is
        (72 * HOUR_MS, Verdict.ASK),
        (72 * HOUR_MS + 1, Verdict.GIVE_UP),
    ],
)
def test_a_message_is_asked_about_when_it_is_old_enough_and_not_too_old(age_ms: int, expected: Verdict) -> None:
    assert verdict(age_ms) is expected


@pytest.mark.parametrize(
    ("seconds", "age_ms", "expected"),
    [
        ("1", 999, Verdict.IMMUNE),
        ("1", 1_000, Verdict.ASK),
        ("3600", 6_000, Verdict.IMMUNE),
        ("3600", HOUR_MS, Verdict.ASK),
        ("-1", 5_999, Verdict.LATER),
        ("-1", 6_000, Verdict.ASK),
        ("soon", 5_999, Verdict.LATER),
    ],
)
def test_a_producer_may_ask_for_another_time(seconds: str, age_ms: int, expected: Verdict) -> None:
    assert verdict(age_ms, {"CHECK_IMMUNITY_TIME_IN_SECONDS": seconds}) is expected


@pytest.mark.parametrize(("times", "expected"), [("14", Verdict.ASK), ("15", Verdict.GIVE_UP), ("99", Verdict.GIVE_UP)])
def test_after_fifteen_checks_a_message_is_given_up(times: str, expected: Verdict) -> None:
    assert verdict(60_000, {"TRANSACTION_CHECK_TIMES": times}) is expected


def test_at_least_one_question_is_asked() -> None:
    assert verdict(60_000, check_max=0) is Verdict.ASK
    assert verdict(60_000, {"TRANSACTION_CHECK_TIMES": "1"}, check_max=0) is Verdict.GIVE_UP


def test_what_this_round_stored_is_for_the_next_one() -> None:
    assert verdict(60_000, offset=9) is Verdict.ASK
    assert verdict(60_000, offset=10) is Verdict.LATER


def test_what_was_stored_before_the_clock_was_set_back_is_asked_about_all_the_same() -> None:
    assert verdict(60_000, stored_ms=NOW_MS + HOUR_MS) is Verdict.ASK
