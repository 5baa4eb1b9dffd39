"""A transaction goes on where it was, whatever it was doing when the broker stopped or was killed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hanabi.testing.clock import ManualClock
from hanabi.wire.codes import ResponseCode
from hanabi.wire.system_names import HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_GROUP
from tests.broker.transactions.world import COMMIT, ROLLBACK, World
from tests.store.sample_stores import unpack_golden

MINUTE_MS = 60_000

Stop = Callable[[World], None]
WAYS_TO_STOP = pytest.mark.parametrize("stop", [World.restart, World.crash], ids=["restart", "crash"])


@WAYS_TO_STOP
def test_a_half_message_can_be_ended_after_it(world: World, stop: Stop) -> None:
    half, other = world.send(), world.send(b"other", key="K2")
    stop(world)
    assert world.end(half, COMMIT).code == ResponseCode.SUCCESS
    assert world.end(other, ROLLBACK, key="K2").code == ResponseCode.SUCCESS
    assert world.bodies() == [b"hello"]
    assert world.check(after_ms=MINUTE_MS) == []


@WAYS_TO_STOP
def test_a_half_message_is_asked_about_after_it(world: World, stop: Stop) -> None:
    world.send()
    stop(world)
    (question,) = world.check(after_ms=MINUTE_MS)
    world.answer(question, COMMIT)
    assert world.bodies() == [b"hello"]


@WAYS_TO_STOP
@pytest.mark.parametrize(("how", "delivered"), [(COMMIT, [b"hello"]), (ROLLBACK, [])])
def test_what_has_ended_stays_so(world: World, stop: Stop, how: int, delivered: list[bytes]) -> None:
    world.end(world.send(), how)
    stop(world)
    assert world.check(after_ms=MINUTE_MS) == []
    assert world.bodies() == delivered
    assert world.offset(HALF_TOPIC) == world.offset(OP_HALF_TOPIC) == 1


@WAYS_TO_STOP
def test_an_end_that_is_told_again_after_it_counts_once(world: World, stop: Stop) -> None:
    half, other = world.send(), world.send(b"other", key="K2")
    world.end(half, COMMIT)
    world.end(other, ROLLBACK, key="K2")
    world.check(after_ms=MINUTE_MS)
    stop(world)
    world.check()
    assert world.end(half, COMMIT).code == ResponseCode.SUCCESS
    world.end(other, COMMIT, key="K2")
    assert world.bodies() == [b"hello"]


@WAYS_TO_STOP
def test_a_question_can_be_answered_after_it(world: World, stop: Stop) -> None:
    world.send()
    (question,) = world.check(after_ms=MINUTE_MS)
    stop(world)
    assert world.answer(question, COMMIT).code == ResponseCode.SUCCESS
    assert world.bodies() == [b"hello"]
    assert world.check(after_ms=MINUTE_MS) == []


@WAYS_TO_STOP
def test_questions_go_on_where_they_were(world: World, stop: Stop) -> None:
    world.send()
    for _ in range(15):
        assert len(world.check(after_ms=MINUTE_MS)) == 1
        stop(world)
    assert world.check(after_ms=MINUTE_MS) == []
    assert world.offset(HALF_TOPIC) == 16


@WAYS_TO_STOP
def test_the_late_end_of_the_first_copy_counts_once(world: World, stop: Stop) -> None:
    half = world.send()
    (question,) = world.check(after_ms=MINUTE_MS)
    stop(world)
    world.end(half, COMMIT)
    stop(world)
    world.answer(question, COMMIT)
    assert world.check(after_ms=MINUTE_MS) == []
    assert world.bodies() == [b"hello"]


@WAYS_TO_STOP
def test_a_patient_message_is_asked_about_after_its_time(world: World, stop: Stop) -> None:
    half = world.send(CHECK_IMMUNITY_TIME_IN_SECONDS="3600")
    assert world.check(after_ms=MINUTE_MS) == []
    stop(world)
    assert world.check(after_ms=MINUTE_MS) == []
    stop(world)
    world.end(half, ROLLBACK)
    stop(world)
    assert world.check(after_ms=60 * MINUTE_MS) == []


def test_a_kill_between_the_message_and_its_op_message_makes_no_second_message(world: World) -> None:
    half = world.send()
    with world.intake.closed(topic=OP_HALF_TOPIC):
        world.end(half, COMMIT)
    world.crash()
    assert world.ops() == []
    assert world.check(after_ms=MINUTE_MS) == []
    assert world.bodies() == [b"hello"]
    assert world.ops() == [b"0"]
    assert world.offset(HALF_TOPIC) == 1


def test_a_power_cut_that_loses_the_offsets_makes_no_second_question(world: World) -> None:
    # The copy is stored, but that the first one is dealt with was only in memory.
    world.send()
    world.offsets.save()
    assert len(world.check(after_ms=MINUTE_MS)) == 1
    world.crash()
    assert world.offset(HALF_TOPIC) == -1
    (question,) = world.check(after_ms=MINUTE_MS)
    assert question.header.tran_state_table_offset == 2
    assert world.offset(HALF_TOPIC) == 2
    assert len(world.halves()) == 3


def test_offsets_behind_the_end_of_the_queues_are_brought_back(world: World) -> None:
    # The offsets were saved, and then a crash lost the end of the log.
    for number in range(3):
        world.end(world.send(key=f"K{number}"), COMMIT, key=f"K{number}")
    world.check(after_ms=MINUTE_MS)
    assert world.offset(HALF_TOPIC) == 3
    world.offsets.save()
    world.store.close()
    config = (world.root / "config" / "consumerOffset.json").read_bytes()
    world.root = world.root.with_name("lost")
    (world.root / "config").mkdir(parents=True)
    (world.root / "config" / "consumerOffset.json").write_bytes(config)
    world.open()
    world.check()
    assert world.offset(HALF_TOPIC) == world.offset(OP_HALF_TOPIC) == 0
    world.send(b"new", key="K9")
    (question,) = world.check(after_ms=MINUTE_MS)
    assert question.record.body == b"new"


def test_a_store_of_apache_s_goes_on(tmp_path: Path) -> None:
    """Apache's offsets say that four half messages are dealt with. Those are forgotten, so that all are looked at."""
    root = unpack_golden("store-clean.tar.gz", tmp_path)
    files = {"commit_log_segment_bytes": 65_536, "consume_queue_segment_bytes": 2_000}
    world = World(root, ManualClock(1_794_725_200_000), store=files)
    assert (world.offset(HALF_TOPIC), world.offset(OP_HALF_TOPIC)) == (4, 3)
    world.offsets.remove_group(TRANSACTION_GROUP)
    world.restart()
    assert world.check(after_ms=MINUTE_MS) == []
    assert (world.offset(HALF_TOPIC), world.offset(OP_HALF_TOPIC)) == (4, 3)
    world.send()
    assert len(world.check(after_ms=MINUTE_MS)) == 1
    world.close()
