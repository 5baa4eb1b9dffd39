"""The checkers of chaos find what they are there to find, and nothing in a history that is as it should be."""

import pytest

from chaos.checks import delays, delivery, offsets, order
from chaos.checks.recovery import Pulse
from chaos.history import Damaged, Returned
from chaos.traffic import Kind
from chaos.verdict import MUST_HOLD, judge
from tests.chaos.histories import Story

COMMITTED, ROLLED_BACK, ASKED_ABOUT = 5, 6, 8  # by `traffic.outcome_of`
FAILS_ONCE = 1


def verdict_of(story: Story) -> dict[str, int]:
    judged = judge(story.ledger, kinds=tuple(Kind), kills={}, clock_wrong={})
    return {name: len(found) for name, found in judged.violations.items() if found}


def good_story() -> Story:
    story = Story()
    for number in range(3):
        story.sent(number, Kind.ORDERLY, offset=number)
    for number in range(3):
        story.delivered(number, Kind.ORDERLY, offset=number)
    story.sent(COMMITTED, Kind.TRANSACTION)
    story.delivered(COMMITTED, Kind.TRANSACTION)
    story.sent(ROLLED_BACK, Kind.TRANSACTION)
    story.sent(FAILS_ONCE, Kind.RETRY)
    story.delivered(FAILS_ONCE, Kind.RETRY, accepted=False)
    story.delivered(FAILS_ONCE, Kind.RETRY, topic="%RETRY%Chaos_retry")
    story.sent(2, Kind.DELAYED, at=100.0)
    story.delivered(2, Kind.DELAYED, at=102.0)
    story.position(4)
    story.position(4)
    story.position(9)
    return story


def test_in_a_good_history_nothing_is_found() -> None:
    assert verdict_of(good_story()) == {}


def test_an_acknowledged_message_that_never_came_is_missing() -> None:
    story = good_story()
    story.sent(7)
    assert verdict_of(story) == {"missing": 1}
    assert "plain/p/7 was acknowledged" in delivery.missing(story.ledger)[0]


def test_a_message_that_its_listener_never_took_is_missing() -> None:
    story = good_story()
    story.sent(5, Kind.RETRY)
    story.delivered(5, Kind.RETRY, accepted=False)
    assert verdict_of(story) == {"missing": 1}


@pytest.mark.parametrize("number", [COMMITTED, ASKED_ABOUT])
def test_a_committed_transaction_that_never_came_is_missing(number: int) -> None:
    story = Story()
    story.sent(number, Kind.TRANSACTION)
    assert verdict_of(story) == {"missing": 1}


def test_a_transaction_that_was_rolled_back_must_not_come() -> None:
    story = good_story()
    story.delivered(ROLLED_BACK, Kind.TRANSACTION)
    assert verdict_of(story) == {"rolled back": 1}


def test_what_nobody_sent_must_not_come() -> None:
    story = good_story()
    story.delivered(99)
    assert verdict_of(story) == {"unsent": 1}


def test_what_was_refused_for_certain_must_not_come_and_what_got_no_answer_may() -> None:
    story = good_story()
    story.failed(1, maybe_stored=True)
    story.delivered(1, offset=1)
    assert verdict_of(story) == {}
    story.failed(2, maybe_stored=False)
    story.delivered(2, offset=2)
    assert verdict_of(story) == {"unsent": 1}


def test_a_try_without_an_end_may_have_stored_what_was_refused_before() -> None:
    story = good_story()
    story.failed(1, maybe_stored=False)
    story.attempted(1)  # and its producer was killed
    story.delivered(1, offset=1)
    assert verdict_of(story) == {}


def test_a_body_that_nobody_sent_is_damage() -> None:
    story = good_story()
    story.event(Damaged(at=1.0, consumer="c", topic="T", broker="broker-a", queue_id=0, offset=3))
    assert verdict_of(story) == {"damaged": 1}


def test_second_deliveries_and_second_copies_are_counted_apart() -> None:
    story = good_story()
    story.sent(1)
    story.delivered(1, offset=5)
    story.delivered(1, offset=5)
    story.delivered(1, offset=6)
    assert (delivery.delivered_again(story.ledger), delivery.stored_again(story.ledger)) == (1, 1)
    assert verdict_of(story) == {}


def ordered(*offsets: int) -> Story:
    """Return a queue that is delivered in this order; messages are stored in the order of their numbers."""
    story = Story()
    for number in sorted(set(offsets)):
        story.sent(number, Kind.ORDERLY, offset=number)
    for offset in offsets:
        story.delivered(offset, Kind.ORDERLY, offset=offset)
    return story


def test_an_ordered_queue_may_go_back_and_on_again() -> None:
    assert order.reordered(ordered(0, 1, 2, 1, 2, 3).ledger) == []


@pytest.mark.parametrize("offsets", [(0, 2, 1), (1, 0), (0, 1, 3, 2)])
def test_a_message_that_overtakes_another_is_found(offsets: tuple[int, ...]) -> None:
    assert len(order.reordered(ordered(*offsets).ledger)) >= 1


def test_a_gap_in_an_ordered_queue_is_found() -> None:
    (found,) = order.reordered(ordered(0, 1, 3).ledger)
    assert "where 2 was next" in found


def test_queues_and_brokers_have_an_order_each() -> None:
    story = ordered(0, 1)
    story.sent(7, Kind.ORDERLY, broker="broker-b")
    story.delivered(7, Kind.ORDERLY, broker="broker-b", offset=0)
    story.sent(8, Kind.ORDERLY)
    story.delivered(8, Kind.ORDERLY, queue_id=1, offset=0)
    assert order.reordered(story.ledger) == []


def test_messages_of_one_sender_that_are_stored_in_another_order_are_found() -> None:
    story = Story()
    for number, offset in ((1, 0), (3, 1), (2, 2)):
        story.sent(number, Kind.ORDERLY, offset=offset)
        story.delivered(number, Kind.ORDERLY, offset=offset)
    assert verdict_of(story) == {"stored out of order": 1}


def test_a_second_copy_behind_later_messages_is_no_disorder() -> None:
    story = Story()
    for number, offset in ((1, 0), (2, 1), (1, 2), (3, 3)):
        story.sent(number, Kind.ORDERLY, offset=offset)
        story.delivered(number, Kind.ORDERLY, offset=offset)
    assert verdict_of(story) == {}


def test_two_members_at_one_queue_at_once_are_counted() -> None:
    story = Story()
    story.delivered(0, Kind.ORDERLY, consumer="one", offset=0, at=1.0)
    story.event(Returned(at=3.0, consumer="one", broker="broker-a", queue_id=0, offset=0))
    story.delivered(1, Kind.ORDERLY, consumer="two", offset=1, at=2.0)
    assert order.overlaps(story.ledger) == 1
    story.delivered(2, Kind.ORDERLY, consumer="two", offset=2, at=4.0)
    assert order.overlaps(story.ledger) == 1


def positions(*committed: tuple[float, int]) -> Story:
    story = Story()
    for at, offset in committed:
        story.position(offset, at=at)
    return story


def test_an_offset_that_goes_back_is_found_whether_somebody_was_killed_or_not() -> None:
    story = positions((1.0, 5), (2.0, 4), (3.0, 4), (4.0, 9))
    (found,) = offsets.backwards(story.ledger, {})
    assert "went from 5 to 4 at 2.000, and nobody was killed" in found
    (found,) = offsets.backwards(story.ledger, {"broker-a": [1.5], "broker-b": [3.5]})
    assert "after a kill" in found


def test_an_offset_that_is_forgotten_has_gone_back() -> None:
    story = Story()
    story.position(5)
    story.position(None)
    assert verdict_of(story) == {"backwards": 1}


def test_the_ends_of_a_queue_never_go_back_not_even_at_a_kill() -> None:
    story = Story()
    story.position(5, first=3, last=10, at=1.0)
    story.position(5, first=2, last=9, at=2.0)
    assert len(offsets.backwards(story.ledger, {"broker-a": [1.5]})) == 2


def test_answers_that_crossed_say_nothing() -> None:
    story = Story()
    story.position(5, at=2.0)
    story.position(4, at=2.5, took=1.0)
    assert offsets.backwards(story.ledger, {}) == []


def test_a_delayed_message_that_comes_early_is_found_unless_the_clock_was_wrong() -> None:
    story = Story()
    story.sent(4, Kind.DELAYED, at=10.0)
    story.delivered(4, Kind.DELAYED, at=13.0)
    assert len(delays.early(story.ledger, {})) == 1
    assert len(delays.early(story.ledger, {"broker-b": [(11.0, 12.0)], "broker-a": [(8.0, 9.0), (14.0, 15.0)]})) == 1
    assert delays.early(story.ledger, {"broker-a": [(9.0, 11.0)]}) == []
    assert delays.lateness(story.ledger) == [-1.0]


def test_recovery_is_the_time_until_the_slowest_broker_goes_on() -> None:
    story = Story()
    story.sent(1, at=10.0)
    story.sent(2, broker="broker-b", at=14.0)
    story.delivered(1, at=16.0)
    pulse = Pulse(story.ledger)
    assert pulse.after(9.0, ["broker-a"]) == (1.0, 7.0)
    assert pulse.after(9.0, ["broker-a", "broker-b"]) == (5.0, None)
    assert pulse.longest_silence_s(8.0, 15.0) == 4.0


def test_what_servers_complained_of_and_what_died_fails_a_run() -> None:
    judged = judge(
        good_story().ledger,
        kinds=(Kind.PLAIN,),
        kills={},
        clock_wrong={},
        complaints=["Traceback"],
        troubles=["died"],
    )
    assert not judged.holds
    assert set(judged.violations) == set(MUST_HOLD)
