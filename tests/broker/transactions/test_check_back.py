"""Asking producers about what has not ended. The clock stands still unless a test moves it."""

import logging

import msgspec
import pytest

from hanabi.broker.transactions.half_message import to_half
from hanabi.errors import BrokerError, QueryNotFound
from hanabi.store.message_store import PutStatus
from hanabi.wire.codes import ResponseCode
from hanabi.wire.message.message_id import encode_offset_id
from hanabi.wire.message.properties import PROPERTIES_BYTES_MAX, decode_properties, encode_properties
from hanabi.wire.system_names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from tests.broker.transactions.world import COMMIT, GROUP, QUEUE_ID, ROLLBACK, STORE_HOST, TOPIC, UNKNOWN, World
from tests.store.stores import read_queue

MINUTE_MS = 60_000


def test_a_producer_is_asked_about_what_has_not_ended_for_six_seconds(world: World) -> None:
    world.send()
    assert world.check(after_ms=5_999) == []
    (question,) = world.check(after_ms=1)
    assert question.record.body == b"hello"
    assert (question.record.topic, question.record.queue_id) == (TOPIC, QUEUE_ID)


@pytest.mark.parametrize(("how", "delivered"), [(COMMIT, [b"hello"]), (ROLLBACK, [])])
def test_its_answer_ends_the_transaction(world: World, how: int, delivered: list[bytes]) -> None:
    world.send()
    (question,) = world.check(after_ms=6_000)
    assert world.answer(question, how).code == ResponseCode.SUCCESS
    assert world.bodies() == delivered
    assert world.check(after_ms=MINUTE_MS) == []
    assert world.offset(HALF_TOPIC) == len(world.halves()) == 2
    assert world.offset(OP_HALF_TOPIC) == len(world.ops()) == 1


def test_what_has_ended_is_not_asked_about(world: World) -> None:
    for number in range(5):
        half = world.send(b"%d" % number, key=f"K{number}")
        world.end(half, COMMIT if number % 2 else ROLLBACK, key=f"K{number}")
    assert world.check(after_ms=MINUTE_MS) == []
    assert world.offset(HALF_TOPIC) == world.offset(OP_HALF_TOPIC) == 5


def test_the_question_names_the_copy_that_was_stored_for_it(world: World) -> None:
    world.send(b"one")
    (question,) = world.check(after_ms=6_000)
    copy = world.halves()[1]
    asked = question.header
    assert (asked.tran_state_table_offset, asked.commit_log_offset) == (copy.queue_offset, copy.log_offset)
    assert (asked.msg_id, asked.transaction_id) == ("K1", "K1")
    assert asked.offset_msg_id == encode_offset_id(STORE_HOST, copy.log_offset)
    assert decode_properties(question.record.properties)["TRANSACTION_CHECK_TIMES"] == "1"
    assert decode_properties(copy.properties)["TRANSACTION_CHECK_TIMES"] == "1"


def test_an_unknown_answer_is_asked_about_again(world: World) -> None:
    world.send()
    for times in (1, 2, 3):
        (question,) = world.check(after_ms=MINUTE_MS)
        assert decode_properties(question.record.properties)["TRANSACTION_CHECK_TIMES"] == str(times)
        world.answer(question, UNKNOWN)
    world.answer(question, COMMIT)
    assert world.bodies() == [b"hello"]


def test_after_fifteen_questions_it_is_given_up(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.send(b"stubborn")
    for _ in range(15):
        assert len(world.check(after_ms=MINUTE_MS)) == 1
    with caplog.at_level(logging.ERROR):
        assert world.check(after_ms=MINUTE_MS) == []
    assert "K1" in caplog.text
    assert "15 checks" in caplog.text
    (kept,) = read_queue(world.store, CHECK_MAX_TIME_TOPIC)
    assert kept.body == b"stubborn"
    assert decode_properties(kept.properties).items() >= {"REAL_TOPIC": TOPIC, "REAL_QID": str(QUEUE_ID)}.items()
    assert world.topics.find(CHECK_MAX_TIME_TOPIC) is not None
    assert world.check(after_ms=MINUTE_MS) == []
    assert world.offset(HALF_TOPIC) == 16
    assert world.bodies() == []


def test_an_administrator_can_have_it_asked_about_again(world: World) -> None:
    world.send(b"stubborn")
    for _ in range(16):
        world.check(after_ms=MINUTE_MS)
    (kept,) = read_queue(world.store, CHECK_MAX_TIME_TOPIC)
    result = world.transactions.resume_check(encode_offset_id(STORE_HOST, kept.log_offset))
    assert result.status is PutStatus.PUT_OK
    (question,) = world.check(after_ms=MINUTE_MS)
    assert decode_properties(question.record.properties)["TRANSACTION_CHECK_TIMES"] == "1"
    world.answer(question, COMMIT)
    assert world.bodies() == [b"stubborn"]


def test_only_a_half_message_can_be_resumed(world: World) -> None:
    half = world.send()
    world.end(half, COMMIT)
    (message,) = world.delivered()
    with pytest.raises(QueryNotFound, match="not a half message"):
        world.transactions.resume_check(encode_offset_id(STORE_HOST, message.log_offset))
    with pytest.raises(QueryNotFound, match="no message"):
        world.transactions.resume_check(encode_offset_id(STORE_HOST, 1))
    with pytest.raises(BrokerError, match="message id"):
        world.transactions.resume_check("K1")


def test_what_is_older_than_messages_are_kept_is_given_up_unasked(world: World) -> None:
    world.send(b"old")
    assert world.check(after_ms=72 * 60 * MINUTE_MS + 1) == []
    assert [record.body for record in read_queue(world.store, CHECK_MAX_TIME_TOPIC)] == [b"old"]


def test_a_producer_may_ask_to_be_asked_sooner(world: World) -> None:
    world.send(CHECK_IMMUNITY_TIME_IN_SECONDS="1")
    assert len(world.check(after_ms=1_000)) == 1


def test_who_asked_for_more_time_gets_it_and_holds_up_nobody(world: World) -> None:
    patient = world.send(b"patient", key="K0", CHECK_IMMUNITY_TIME_IN_SECONDS="3600")
    world.send(b"other", key="K1")
    for minute in range(59):
        questions = world.check(after_ms=MINUTE_MS)
        assert [question.record.body for question in questions] == ([b"other"] if minute < 15 else [])
    assert world.offset(HALF_TOPIC) > 59
    world.end(patient, COMMIT, key="K0")  # by the place of its first copy: the producer knows no other
    assert world.bodies() == [b"patient"]
    assert world.check(after_ms=10 * MINUTE_MS) == []
    assert world.bodies() == [b"patient"]


def test_who_asked_for_more_time_is_asked_when_it_is_over(world: World) -> None:
    world.send(CHECK_IMMUNITY_TIME_IN_SECONDS="3600")
    for _ in range(59):
        assert world.check(after_ms=MINUTE_MS) == []
    (question,) = world.check(after_ms=MINUTE_MS)
    assert decode_properties(question.record.properties)["TRANSACTION_CHECK_TIMES"] == "1"
    world.answer(question, COMMIT)
    assert world.bodies() == [b"hello"]


def test_a_rollback_ends_the_copies_of_a_patient_message_as_well(world: World) -> None:
    half = world.send(CHECK_IMMUNITY_TIME_IN_SECONDS="3600")
    world.check(after_ms=MINUTE_MS)
    world.end(half, ROLLBACK)
    assert world.check(after_ms=60 * MINUTE_MS) == []
    assert world.bodies() == []


def test_the_late_end_of_a_message_that_was_asked_about_counts_once(world: World) -> None:
    # The producer was slow; the question crossed its own end.
    half = world.send()
    (question,) = world.check(after_ms=6_000)
    assert world.end(half, COMMIT).code == ResponseCode.SUCCESS
    assert world.answer(question, COMMIT).code == ResponseCode.SUCCESS
    assert world.bodies() == [b"hello"]
    assert world.check(after_ms=MINUTE_MS) == []
    assert world.offset(OP_HALF_TOPIC) == 2


def test_the_late_end_of_a_message_whose_question_was_answered_counts_once(world: World) -> None:
    half = world.send()
    (question,) = world.check(after_ms=6_000)
    world.answer(question, COMMIT)
    assert world.end(half, COMMIT).code == ResponseCode.SUCCESS
    assert world.bodies() == [b"hello"]


def test_a_message_that_ended_after_the_question_was_lost_is_not_asked_about_again(world: World) -> None:
    half = world.send()
    world.check(after_ms=6_000)
    world.end(half, COMMIT)
    assert world.check(after_ms=MINUTE_MS) == []
    assert world.bodies() == [b"hello"]
    assert world.ops() == [b"0", b"1"]


def test_a_message_that_was_sent_twice_is_delivered_once(world: World) -> None:
    # The first answer did not arrive, so the producer sent it again, under the same id.
    world.send()
    second = world.send()
    world.end(second, COMMIT)
    assert world.check(after_ms=MINUTE_MS) == []
    assert world.bodies() == [b"hello"]


def test_two_messages_with_one_id_and_different_bodies_are_two_messages(world: World) -> None:
    first, second = world.send(b"one"), world.send(b"two")
    world.end(first, COMMIT)
    (question,) = world.check(after_ms=MINUTE_MS)
    assert question.record.body == b"two"
    world.answer(question, COMMIT)
    assert world.bodies() == [b"one", b"two"]
    assert second.queue_offset == 1


def test_without_a_producer_it_is_a_check_all_the_same(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.producers.group = "others"
    world.send(key="K1")
    world.send(key="K2")
    with caplog.at_level(logging.WARNING):
        assert world.check(after_ms=MINUTE_MS) == []
    assert caplog.text.count(f"2 half messages of group {GROUP}: no producer could be asked") == 1
    world.producers.group = GROUP
    first, second = world.check(after_ms=MINUTE_MS)
    assert decode_properties(first.record.properties)["TRANSACTION_CHECK_TIMES"] == "2"
    assert (first.header.msg_id, second.header.msg_id) == ("K1", "K2")


def test_a_producer_that_is_gone_does_not_stop_the_round(world: World) -> None:
    world.producers.producer.is_gone = True
    world.send()
    assert world.check(after_ms=MINUTE_MS) == []
    world.producers.producer.is_gone = False
    assert len(world.check(after_ms=MINUTE_MS)) == 1


def test_young_messages_wait_behind_old_ones(world: World) -> None:
    world.send(b"old", key="K0")
    world.clock.ms += 5_000
    world.send(b"young", key="K1")
    assert [question.record.body for question in world.check(after_ms=1_000)] == [b"old"]
    assert world.offset(HALF_TOPIC) == 1
    assert [question.record.body for question in world.check(after_ms=MINUTE_MS)] == [b"young", b"old"]


def test_op_messages_that_list_several_are_understood(world: World) -> None:
    """5.x collects them: a store may come from there."""
    for number in range(6):
        world.send(key=f"K{number}")
    half = world.halves()[0]
    op = msgspec.structs.replace(
        world.message(b"", {}), topic=OP_HALF_TOPIC, queue_id=0, sys_flag=0, properties=b"WAIT\x01true\x02TAGS\x01d\x02"
    )
    world.intake.put(msgspec.structs.replace(op, body=b"0,1,3,"))
    world.intake.put(msgspec.structs.replace(op, body=b"5,"))
    assert half.queue_offset == 0
    questions = world.check(after_ms=MINUTE_MS)
    assert [question.header.msg_id for question in questions] == ["K2", "K4"]
    assert (world.offset(HALF_TOPIC), world.offset(OP_HALF_TOPIC)) == (6, 2)


def test_op_messages_that_mean_nothing_do_no_harm(world: World, caplog: pytest.LogCaptureFixture) -> None:
    op = msgspec.structs.replace(
        world.message(b"", {}), topic=OP_HALF_TOPIC, queue_id=0, sys_flag=0, properties=b"TAGS\x01d"
    )
    for body in (b"", b"nonsense", b"99999999999999", b"-3", b"1"):  # 1 is not there yet either
        world.intake.put(msgspec.structs.replace(op, body=body))
    world.send(key="K0")
    world.send(key="K1")
    with caplog.at_level(logging.WARNING):
        questions = world.check(after_ms=MINUTE_MS)
    assert "names no half message" in caplog.text
    assert [question.header.msg_id for question in questions] == ["K0"]
    assert world.offset(OP_HALF_TOPIC) == 5


def test_a_full_disk_stops_the_round_and_loses_nothing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.send(key="K0")
    world.send(key="K1", CHECK_IMMUNITY_TIME_IN_SECONDS="3600")
    with world.intake.closed():
        assert world.check(after_ms=MINUTE_MS) == []
        assert "no room" in caplog.text
        assert world.offset(HALF_TOPIC) == 0
    assert len(world.check(after_ms=MINUTE_MS)) == 1
    assert world.offset(HALF_TOPIC) == 2


def test_what_cannot_be_moved_away_is_not_given_up(world: World) -> None:
    world.send()
    with world.intake.closed():
        world.check(after_ms=100 * 60 * MINUTE_MS)
    assert world.offset(HALF_TOPIC) == 0
    world.check()
    assert world.offset(HALF_TOPIC) == 1
    assert len(read_queue(world.store, CHECK_MAX_TIME_TOPIC)) == 1


def test_a_round_gives_way_after_a_few_messages(world: World) -> None:
    for number in range(200):
        world.send(key=f"K{number}")
    world.clock.ms += MINUTE_MS
    steps = 0
    seen = 0
    for _ in world.transactions.check():
        steps += 1
        asked = len(world.producers.producer.questions)
        assert asked - seen <= 16
        seen = asked
    assert steps >= 12
    assert len(world.producers.producer.questions) == 200


def test_an_end_between_two_steps_of_a_round_is_seen(world: World) -> None:
    halves = [world.send(key=f"K{number}") for number in range(40)]
    world.clock.ms += MINUTE_MS
    steps = world.transactions.check()
    next(steps)
    for number in range(20, 40):
        world.end(halves[number], COMMIT, key=f"K{number}")
    for _ in steps:
        pass
    assert len(world.producers.producer.questions) <= 20


def test_op_messages_that_we_wrote_ourselves_are_not_read_again(world: World) -> None:
    world.check()
    for number in range(100):
        world.end(world.send(key=f"K{number}"), ROLLBACK, key=f"K{number}")
    world.clock.ms += MINUTE_MS
    assert sum(1 for _ in world.transactions.check()) == 0
    assert world.offset(OP_HALF_TOPIC) == 100


def test_reading_many_op_messages_gives_way_too(world: World) -> None:
    for number in range(100):
        world.end(world.send(key=f"K{number}"), ROLLBACK, key=f"K{number}")
    world.restart()
    assert sum(1 for _ in world.transactions.check()) >= 3
    assert world.offset(OP_HALF_TOPIC) == 100


def test_the_half_topic_is_made_by_the_first_round(world: World) -> None:
    assert world.topics.find(HALF_TOPIC) is None
    world.check()
    topic = world.topics.find(HALF_TOPIC)
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)


def test_a_message_without_a_place_is_given_up_in_the_end(world: World) -> None:
    """Made by no client that we know; it must not stay for ever."""
    half = world.message(b"lost", {"PGROUP": GROUP})
    world.intake.put(msgspec.structs.replace(half, topic=HALF_TOPIC, queue_id=0, sys_flag=0))
    for _ in range(16):
        assert world.check(after_ms=MINUTE_MS) == []
    assert [record.body for record in read_queue(world.store, CHECK_MAX_TIME_TOPIC)] == [b"lost"]


@pytest.mark.parametrize("more", [{}, {"CHECK_IMMUNITY_TIME_IN_SECONDS": "600"}])
def test_a_message_that_leaves_no_room_for_notes_is_refused_or_else_checked(world: World, more: dict[str, str]) -> None:
    taken = 0
    for size in range(PROPERTIES_BYTES_MAX - 400, PROPERTIES_BYTES_MAX):
        fill = "x" * (size - len(encode_properties({"PGROUP": GROUP, **more, "fill": ""})))
        half = world.message(b"%d" % size, {"PGROUP": GROUP, **more, "fill": fill})
        taken += world.transactions.put_half(half).status is PutStatus.PUT_OK
    assert 200 < taken < 400
    world.send(b"last")
    assert len(world.check(after_ms=6_000)) == (1 if more else taken + 1)


def test_a_message_of_an_older_version_without_room_for_notes_does_not_stop_the_round(world: World) -> None:
    half = to_half(world.message(b"full", {"PGROUP": GROUP, "fill": "x" * (PROPERTIES_BYTES_MAX - 60)}))
    assert world.intake.put(half).status is PutStatus.PUT_OK
    world.send(b"last")
    assert [question.record.body for question in world.check(after_ms=6_000)] == [b"last"]
    assert [record.body for record in read_queue(world.store, CHECK_MAX_TIME_TOPIC)] == [b"full"]
