"""Messages with a time of their own are delivered at that time, whatever happens to the broker meanwhile."""

import asyncio
import itertools
import logging
import threading
from pathlib import Path

import msgspec
import pytest

from hanabi.broker.config import BrokerConfig
from hanabi.broker.delay import timer_delivery as timer_module
from hanabi.broker.delay.delivered_since import Delivered, timers_delivered_since
from hanabi.broker.delay.timer_rules import examine_ms
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import MessageStore, PutStatus
from hanabi.testing.waiting import eventually
from hanabi.wire.message.properties import PROPERTIES_BYTES_MAX, decode_properties, encode_properties
from hanabi.wire.message.tags import java_hash
from hanabi.wire.system_names import TIMER_TOPIC
from tests.broker.delay.world import DAY, HOUR, SECOND, World, message, message_with

TENTH = 100


def bucket_files(world: World) -> list[Path]:
    return sorted((world.home / "timer").glob("0*"))


# Time


def test_three_days_pass_in_no_time(world: World) -> None:
    world.put(message(b"late", TIMER_DELAY_SEC=3 * 86_400))
    for _ in range(3 * 24 - 1):
        world.pass_time(HOUR)
    world.pass_time(HOUR - 1)
    assert world.bodies() == []
    world.pass_time(SECOND)
    assert world.bodies() == [b"late"]


@pytest.mark.parametrize("after", [1, 99, 100, 101, 999, 1_000, 1_001, 59_999, 600_000, HOUR + 7])
def test_a_message_is_delivered_within_a_tenth_of_a_second_and_never_before(world: World, after: int) -> None:
    world.clock.ms += 37
    world.put(message(b"x", TIMER_DELIVER_MS=world.clock.ms + after))
    world.pass_time(after - 1)
    assert world.bodies() == []
    world.pass_time(TENTH)
    assert world.bodies() == [b"x"]


@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS"])
def test_a_delay_counts_from_when_the_message_was_sent(world: World, name: str) -> None:
    world.clock.ms += 37
    delay = 90 if name == "TIMER_DELAY_SEC" else 90_000
    world.put(message_with({name: delay}, b"x"))
    world.pass_time(90 * SECOND - 1)
    assert world.bodies() == []
    world.pass_time(TENTH)
    assert world.bodies() == [b"x"]


def test_while_nothing_is_due_there_is_nothing_to_do_until_it_is(world: World) -> None:
    assert world.timer.step() > world.clock.ms + 1_000 * HOUR
    world.put(message(b"x", TIMER_DELAY_SEC=5))
    world.put(message(b"y", TIMER_DELAY_SEC=86_400))
    world.deliver()
    assert world.timer.step() == world.clock.ms + 5 * SECOND
    world.pass_time(5 * SECOND)
    until_loaded = world.timer.step() - world.clock.ms
    assert DAY - 11 * 60 * SECOND < until_loaded < DAY


def test_messages_are_delivered_in_the_order_of_their_times_to_a_tenth_of_a_second(world: World) -> None:
    delays = [7_000, 300, 3 * HOUR, 1_200, 90_000, 700_000, 150, 1_300]
    for delay in delays:
        world.put(message(b"%d" % delay, TIMER_DELAY_MS=delay))
    for _ in range(20):
        world.pass_time(HOUR)
    assert [int(body) for body in world.bodies()] == sorted(delays)


def test_a_message_is_delivered_with_what_5_x_tells_about_its_wait(world: World) -> None:
    world.put(message(b"x", topic="Orders", queue_id=5, KEYS="k", TAGS="red", TIMER_DELAY_SEC=2))
    sent_ms = world.clock.ms
    [waiting] = world.read(TIMER_TOPIC)
    world.pass_time(2 * SECOND)
    [delivered] = world.read("Orders", 5)
    assert decode_properties(delivered.properties) == {
        **decode_properties(waiting.properties),
        "TIMER_ENQUEUE_MS": str(sent_ms),
        "TIMER_DEQUEUE_MS": str(world.clock.ms),
    }
    for name in ("body", "flag", "sys_flag", "born_timestamp_ms", "born_host", "store_host", "reconsume_times"):
        assert getattr(delivered, name) == getattr(waiting, name)
    assert world.tags_codes("Orders", 5, 0, 1) == [java_hash("red")]


def test_when_the_clock_is_set_back_new_messages_are_not_late(world: World) -> None:
    world.put(message(b"old", TIMER_DELAY_SEC=5))
    world.pass_time(10 * SECOND)
    world.pass_time(-2 * HOUR)
    world.put(message(b"new", TIMER_DELAY_SEC=5))
    world.pass_time(5 * SECOND)
    assert world.bodies() == [b"old", b"new"]


def test_nothing_sent_after_the_clock_was_set_back_is_lost_in_a_restart(world: World) -> None:
    world.put(message(b"old", TIMER_DELAY_SEC=5))
    world.pass_time(10 * SECOND)
    world.pass_time(-2 * HOUR)
    world.put(message(b"new", TIMER_DELAY_SEC=5))
    world = world.next_life()
    world.pass_time(2 * HOUR + SECOND)  # when the clock is where it was
    assert world.bodies() == [b"old", b"new"]


# Rolling


def test_a_message_is_looked_at_before_its_part_of_the_log_gets_old() -> None:
    assert examine_ms(100, 0, 200) == 100
    assert examine_ms(1_000, 0, 200) == 200
    assert examine_ms(250, 0, 200) == 100  # not at 200, with 50 left
    assert examine_ms(300, 0, 200) == 200


def test_what_waits_longer_than_the_log_is_kept_is_stored_again_in_time(directory: Path) -> None:
    broker = BrokerConfig(broker_name="a", timer_max_delay_sec=30 * 86_400)
    world = World(directory / "home", broker=broker, segment_bytes=4_096)
    world.put(message(b"late", TIMER_DELAY_SEC=10 * 86_400))
    for hour in range(10 * 24 - 1):
        world.put(message(b"%1000d" % hour, topic="Noise"))
        world.pass_time(HOUR)
        world.store.retention.ask()
        world.store.retention.run_round()
        if hour == 100:
            world = world.next_life()
    assert world.store.min_log_offset > 100_000
    assert world.bodies() == []
    world.pass_time(HOUR)
    [delivered] = world.read()
    assert delivered.body == b"late"
    rolled = int(decode_properties(delivered.properties)["TIMER_ROLL_TIMES"])
    assert rolled == 5  # every two days, the last two evenly
    world.pass_time(30 * DAY)
    assert world.bodies() == [b"late"]


def test_where_the_log_is_kept_for_less_than_a_day_messages_are_stored_again_more_often(directory: Path) -> None:
    world = World(directory / "home", file_reserved_hours=6)
    world.put(message(b"late", TIMER_DELAY_SEC=86_400))
    for _ in range(24):
        world.pass_time(HOUR)
    assert decode_properties(world.read()[0].properties)["TIMER_ROLL_TIMES"] == "6"
    stored_ms = [record.store_timestamp_ms for record in world.read(TIMER_TOPIC)]
    assert all(later - earlier <= 4 * HOUR for earlier, later in itertools.pairwise(stored_ms))


def test_a_message_that_was_deleted_all_the_same_is_reported_and_holds_up_nothing(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(directory / "home", segment_bytes=4_096)
    world.put(message(b"gone", TIMER_DELAY_SEC=60))
    for number in range(5):
        world.put(message(b"%1000d" % number, topic="Noise"))
    assert world.store._log.delete_oldest()
    world.put(message(b"there", TIMER_DELAY_SEC=60))
    world.pass_time(60 * SECOND)
    assert world.bodies() == [b"there"]
    assert f"message 0 of {TIMER_TOPIC} is lost: it was deleted" in caplog.text


# What goes wrong


def test_a_failure_is_tried_again_with_pauses_until_it_succeeds(world: World) -> None:
    for number in range(3):
        world.put(message(b"%d" % number, TIMER_DELAY_SEC=5))
    failures = 0

    def refuse(pending: PendingMessage) -> PutStatus | None:
        nonlocal failures
        if pending.body == b"1" and failures < 6:
            failures += 1
            return PutStatus.SERVICE_NOT_AVAILABLE
        return None

    world.refuse = refuse
    world.pass_time(5 * SECOND)
    for pause in (100, 200, 400, 800, 1_600, 3_200):
        assert world.bodies() == [b"0"]
        assert world.timer.step() == world.clock.ms + pause
        world.pass_time(pause)
    assert world.bodies() == [b"0", b"1", b"2"]


def test_a_message_that_can_never_be_stored_does_not_hold_up_others(world: World) -> None:
    world.refuse = lambda pending: PutStatus.PROPERTIES_SIZE_EXCEEDED if pending.body == b"bad" else None
    for body in (b"a", b"bad", b"b"):
        world.put(message(body, TIMER_DELAY_SEC=5))
    world.pass_time(5 * SECOND)
    assert world.bodies() == [b"a", b"b"]


@pytest.mark.parametrize("hours", [0, 60])  # after 48 it is stored again
def test_every_message_that_was_accepted_is_delivered_however_long_its_properties(world: World, hours: int) -> None:
    """Their limit is that of the log, and delivery notes times beside them."""
    accepted = []
    for size in range(PROPERTIES_BYTES_MAX - 200, PROPERTIES_BYTES_MAX + 1, 5):
        wanted = {"TIMER_DELAY_SEC": 5 + hours * 3_600, "fill": ""}
        fill = "x" * (size - len(encode_properties({name: str(value) for name, value in wanted.items()})))
        waiting = world.diverter.divert(message_with({**wanted, "fill": fill}, b"%d" % size))
        if world.store.put(waiting).status is PutStatus.PUT_OK:
            accepted.append(waiting.body)
    assert accepted
    for _ in range(hours):
        world.pass_time(HOUR)
    world.pass_time(6 * SECOND)
    assert world.bodies() == accepted


def test_what_is_no_waiting_message_in_the_timer_topic_is_ignored(world: World) -> None:
    world.put(message(b"junk", topic=TIMER_TOPIC))
    world.put(message(b"junk", topic=TIMER_TOPIC, TIMER_OUT_MS="soon"))
    world.put(message(b"junk", topic=TIMER_TOPIC, TIMER_OUT_MS=world.clock.ms, REAL_TOPIC="T"))
    world.put(message(b"x", TIMER_DELAY_SEC=5))
    world.pass_time(5 * SECOND)
    assert world.bodies() == [b"x"]


def test_thousands_due_at_once_are_delivered_in_slices(world: World) -> None:
    for number in range(2_000):
        world.put(message(b"%d" % number, TIMER_DELIVER_MS=world.clock.ms + 5 * SECOND))
    world.clock.ms += 5 * SECOND
    slices = 0
    while world.timer.step() <= world.clock.ms:
        slices += 1
        assert len(world.deliveries) <= 32 * slices
    assert [int(body) for body in world.bodies()] == list(range(2_000))


# Memory


def test_only_what_is_due_soon_is_in_memory(world: World) -> None:
    for number in range(500):
        world.put(message(b"%d" % number, TIMER_DELAY_SEC=10 + number * 300))
    world.timer.save()
    assert len(bucket_files(world)) > 240
    for _ in range(43):
        world.pass_time(HOUR)
        held = len(world.timer._slots) + sum(map(len, world.timer._unsaved.values())) // 32
        assert held <= 4
    world.timer.save()
    assert bucket_files(world) == []
    assert [int(body) for body in world.bodies()] == list(range(500))


def test_files_are_brought_into_memory_in_slices(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer_module, "_SPLIT_BYTES", 64)
    for number in range(50):
        world.put(message(b"%d" % number, TIMER_DELAY_SEC=HOUR // 1_000 + number % 3))
    world.timer.save()
    for number in range(50, 60):
        world.put(message(b"%d" % number, TIMER_DELAY_SEC=HOUR // 1_000 + number % 3))
    world.pass_time(HOUR + 5 * SECOND)
    assert sorted(int(body) for body in world.bodies()) == list(range(60))


def test_after_a_long_absence_the_files_come_into_memory_one_after_the_other(world: World) -> None:
    for number in range(60):
        world.put(message(b"%d" % number, TIMER_DELAY_SEC=600 * number + 1))
    world = world.next_life()
    world.clock.ms += DAY
    most = 0
    while world.timer.step() <= world.clock.ms:
        most = max(most, len(world.timer._slots))
    assert most <= 3
    assert len(world.bodies()) == 60


def test_what_is_just_being_written_comes_into_memory_too(world: World) -> None:
    for number in range(3):
        world.put(message(b"%d" % number, TIMER_DELAY_SEC=HOUR // 1_000))
        if number == 0:
            world.timer.save()
        elif number == 1:
            snapshot = world.timer._snapshot()  # as a save in a thread that takes its time
    world.pass_time(HOUR)
    assert world.bodies() == [b"0", b"1", b"2"]
    world.timer._write(snapshot)
    world = world.next_life()
    world.deliver()
    assert world.bodies() == [b"0", b"1", b"2"]


# Starting again


def test_a_restart_goes_on_where_the_last_life_ended(world: World) -> None:
    for number in range(10):
        world.put(message(b"%d" % number, TIMER_DELAY_SEC=1 + number))
    world.pass_time(5 * SECOND)
    world = world.next_life()
    world.deliver()
    assert world.deliveries == []
    world.pass_time(5 * SECOND)
    assert world.bodies() == [b"%d" % number for number in range(10)]


def test_a_stop_in_the_middle_of_a_second_repeats_nothing(world: World) -> None:
    for number in range(200):
        world.put(message(b"%d" % number, TIMER_DELIVER_MS=world.clock.ms + 5 * SECOND))
    world.clock.ms += 5 * SECOND
    while len(world.deliveries) < 70:
        world.timer.step()
    world = world.next_life()
    world.deliver()
    assert [int(body) for body in world.bodies()] == list(range(200))


@pytest.mark.parametrize("saved", ["never", "before", "between"])
def test_a_kill_loses_nothing_and_repeats_nothing(
    world: World, directory: Path, saved: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for number in range(20):
        world.put(message(b"%d" % (number // 2), TIMER_DELAY_SEC=1 + number // 2))  # pairs that cannot be told apart
    if saved == "before":
        world.timer.save()
    world.pass_time(3 * SECOND)
    if saved == "between":
        world.timer.save()
    world.put(message(b"10", TIMER_DELAY_SEC=8))
    world.pass_time(2 * SECOND)
    world = world.killed(directory / "second")
    world.deliver()
    assert world.deliveries == []
    world.pass_time(10 * SECOND)
    assert [int(body) for body in world.bodies()] == sorted([*range(10), *range(10), 10])


def test_a_second_kill_before_all_was_compared_repeats_nothing(world: World, directory: Path) -> None:
    for number in range(20):
        world.put(message(b"%d" % number, TIMER_DELAY_SEC=1 + number * 600))  # each in a file of its own
    world.timer.save()
    world.pass_time(4 * HOUR)
    world = world.killed(directory / "second")
    for _ in range(9):
        world.timer.step()
        world.timer.save()
    world = world.killed(directory / "third")
    world.deliver()
    assert [int(body) for body in world.bodies()] == list(range(20))


def test_what_became_due_while_nobody_was_there_is_delivered_at_once(world: World) -> None:
    for number in range(100):
        world.put(message(b"%d" % number, TIMER_DELAY_SEC=600 * number + 1))
    world = world.next_life()
    world.clock.ms += DAY
    world.deliver()
    assert [int(body) for body in world.bodies()] == list(range(100))


def lose_timer_files(world: World) -> None:
    """Stop the broker and delete the files of its timer."""
    world.save()
    world.store.close()
    for path in (world.home / "timer").glob("*"):
        path.unlink()


def test_a_message_sent_right_after_a_restart_waits_at_its_place_in_the_log(world: World) -> None:
    world.deliver()
    world = world.next_life()
    world.put(message(b"soon", TIMER_DELAY_MS=1))  # due within the tenth of a second that counts as done
    world.deliver()
    assert [record.body for record in world.read(TIMER_TOPIC)] == [b"soon"]  # not rolled
    lose_timer_files(world)
    world = World(world.home, world.clock)
    world.deliver()
    world.pass_time(TENTH)
    assert world.bodies() == [b"soon"]


def test_after_the_clock_was_set_back_and_a_restart_a_message_waits_at_its_place_in_the_log(world: World) -> None:
    world.put(message(b"old", TIMER_DELAY_SEC=5))
    world.pass_time(10 * SECOND)
    world = world.next_life()
    world.clock.ms -= 2 * HOUR
    world.put(message(b"new", TIMER_DELAY_SEC=5))
    world.deliver()
    assert [record.body for record in world.read(TIMER_TOPIC)] == [b"old", b"new"]  # not rolled
    world.pass_time(5 * SECOND)
    assert world.bodies() == [b"old", b"new"]


def test_a_kill_before_the_clock_is_set_back_repeats_nothing(world: World, directory: Path) -> None:
    world.put(message(b"once", TIMER_DELAY_SEC=5))
    world.timer.save()
    world.pass_time(5 * SECOND)
    world = world.killed(directory / "second")
    world.pass_time(-2 * HOUR)
    for _ in range(3):
        world.pass_time(HOUR)
    assert world.bodies() == [b"once"]


def test_a_rolled_message_survives_the_loss_of_the_files_and_of_its_first_place_in_the_log(directory: Path) -> None:
    world = World(directory / "home", file_reserved_hours=6, segment_bytes=4_096)
    world.put(message(b"late", TIMER_DELAY_SEC=7 * 3_600))
    for number in range(5):
        world.put(message(b"%1000d" % number, topic="Noise"))
    world.pass_time(4 * HOUR)  # now it was rolled
    assert world.store._log.delete_oldest()
    lose_timer_files(world)
    world.clock.ms += 4 * HOUR  # it became due in between
    world = World(world.home, world.clock, file_reserved_hours=6, segment_bytes=4_096)
    world.deliver()
    assert world.bodies() == [b"late"]


@pytest.mark.parametrize("harm", ["directory", "checkpoint", "file", "bit"])
def test_lost_or_damaged_files_are_made_anew_and_nothing_is_lost_or_repeated(
    world: World, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(50):
        world.put(message(b"%d" % number, TIMER_DELAY_SEC=1 + number * 60))
    world.put(message(b"50", TIMER_DELAY_SEC=86_400 * 3))
    world.pass_time(20 * 60 * SECOND)
    world.pass_time(DAY * 2 + HOUR)  # now the last one was rolled
    world.put(message(b"51", TIMER_DELAY_SEC=86_400))
    world.save()
    world.store.close()
    files = bucket_files(world)
    if harm == "directory":
        for path in (world.home / "timer").iterdir():
            path.unlink()
        (world.home / "timer").rmdir()
    elif harm == "checkpoint":
        for path in (world.home / "timer").glob("checkpoint*"):
            path.write_bytes(b"?")
    elif harm == "file":
        files[0].unlink()
    else:
        content = bytearray(files[0].read_bytes())
        content[9] ^= 1
        files[0].write_bytes(content)
    world = World(world.home, world.clock)
    world.pass_time(DAY)
    assert sorted(int(body) for body in world.bodies()) == list(range(52))
    if harm != "directory":
        assert "rebuilding the timer's files" in caplog.text


async def test_files_found_damaged_while_the_loop_runs_are_made_anew_beside_it(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put(message(b"x", TIMER_DELAY_SEC=3_600))
    world.save()
    (damaged,) = bucket_files(world)
    damaged.write_bytes(bytes(damaged.stat().st_size))
    readers: list[threading.Thread] = []

    def reading(store: MessageStore, log_offset: int) -> Delivered:
        readers.append(threading.current_thread())
        return timers_delivered_since(store, log_offset)

    monkeypatch.setattr(timer_module, "timers_delivered_since", reading)
    world = world.next_life()
    task = asyncio.create_task(world.timer.run())
    await asyncio.sleep(0)
    world.clock.ms += HOUR
    world.timer._alarm.wake()
    await eventually(world.bodies)
    task.cancel()
    await asyncio.wait((task,))
    assert world.bodies() == [b"x"]
    assert "rebuilding the timer's files: the entry at byte 0 is damaged" in caplog.text
    assert len(readers) == 2  # at the start, and of all of the log
    assert threading.main_thread() not in readers


def test_files_found_damaged_while_others_are_written_are_made_anew_after_that(world: World) -> None:
    world.put(message(b"x", TIMER_DELAY_SEC=3_600))
    world.save()
    (damaged,) = bucket_files(world)
    damaged.write_bytes(bytes(damaged.stat().st_size))
    world = world.next_life()
    world.clock.ms += HOUR
    with world.timer._writing:  # by a thread that waits for the disk
        for _ in range(10):
            next_ms = world.timer.step()
        assert world.clock.ms < next_ms < world.clock.ms + SECOND
    world.deliver()
    assert world.bodies() == [b"x"]


def test_a_timer_topic_that_begins_anew_is_followed(world: World) -> None:
    for number in range(3):
        world.put(message(b"%d" % number, TIMER_DELAY_SEC=60 if number else 5))
    world.pass_time(5 * SECOND)
    world.store.delete_topic(TIMER_TOPIC)
    world.put(message(b"new", TIMER_DELAY_SEC=5))
    world.pass_time(5 * SECOND)
    assert world.bodies() == [b"0", b"new"]
    world.save()
    world = world.next_life()
    world.put(message(b"newer", TIMER_DELAY_SEC=5))
    world.pass_time(60 * SECOND)
    assert world.bodies()[-1] == b"2"  # the records of the old ones are still in the log
    assert b"newer" in world.bodies()


def test_a_timer_topic_that_began_anew_before_a_crash_is_followed(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        world.put(message(b"old", TIMER_DELAY_SEC=5))
    world.pass_time(5 * SECOND)
    world.save()
    world.store.delete_topic(TIMER_TOPIC)
    world.put(message(b"new", TIMER_DELAY_SEC=5))
    world.store.close()
    world = World(world.home, world.clock)
    world.pass_time(5 * SECOND)
    assert world.bodies() == [b"old", b"old", b"old", b"new"]
    assert "ends at 1, before the timer's checkpoint" in caplog.text


# Cancelling


@pytest.mark.parametrize("prefix", ["", "T+"])
def test_a_cancelled_message_is_not_delivered_and_neither_is_the_cancellation(world: World, prefix: str) -> None:
    deliver_ms = world.clock.ms + 5_000
    for name in "abc":
        world.put(message(name.encode(), UNIQ_KEY=name, TIMER_DELIVER_MS=deliver_ms))
    [timer_out_ms] = {int(decode_properties(record.properties)["TIMER_OUT_MS"]) for record in world.read(TIMER_TOPIC)}
    world.put(message(b"0", UNIQ_KEY="b", TIMER_DEL_UNIQKEY=f"{prefix}b", TIMER_DELIVER_MS=timer_out_ms + 1))
    world.pass_time(10 * SECOND)
    assert world.bodies() == [b"a", b"c"]


@pytest.mark.parametrize("key", ["b", "T+b", "Other+b"])
def test_a_message_to_one_topic_cancels_none_of_another(world: World, key: str) -> None:
    deliver_ms = world.clock.ms + 5_000
    world.put(message(b"b", UNIQ_KEY="b", TIMER_DELIVER_MS=deliver_ms))
    [record] = world.read(TIMER_TOPIC)
    timer_out_ms = int(decode_properties(record.properties)["TIMER_OUT_MS"])
    hostile = message(b"0", UNIQ_KEY="b", TIMER_DEL_UNIQKEY=key, TIMER_DELIVER_MS=timer_out_ms + 1)
    world.put(msgspec.structs.replace(hostile, topic="Other"))
    world.pass_time(10 * SECOND)
    assert world.bodies() == [b"b"]


def test_a_cancellation_outlives_a_kill(world: World, directory: Path) -> None:
    start_ms = world.clock.ms
    world.put(message(b"x", UNIQ_KEY="x", TIMER_DELIVER_MS=start_ms + 4_900))
    world.put(message(b"0", UNIQ_KEY="x", TIMER_DEL_UNIQKEY="T+x", TIMER_DELIVER_MS=start_ms + 4_001))
    world.pass_time(4_500)
    world.timer.save()
    world = world.killed(directory / "second")
    world.pass_time(5 * SECOND)
    assert world.bodies() == []


# As a task


async def test_the_task_delivers_and_saves(world: World) -> None:
    task = asyncio.create_task(world.timer.run())
    await asyncio.sleep(0)
    world.put(message(b"x", TIMER_DELAY_MS=5))
    world.clock.ms += SECOND
    await eventually(world.bodies)
    world.timer._save_now.set()
    await eventually(lambda: world.timer._kept[0].queue_offset == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert world.bodies() == [b"x"]


async def test_a_save_that_fails_is_tried_again_and_forgets_nothing(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timer_module, "SAVE_SECONDS", 0.001)
    (world.home / "timer").write_bytes(b"a file where the directory should be")
    world.put(message(b"x", TIMER_DELAY_SEC=HOUR // 1_000))
    task = asyncio.create_task(world.timer.run())
    await eventually(lambda: "the files of the timer" in caplog.text)
    world.put(message(b"y", TIMER_DELAY_SEC=HOUR // 1_000))
    (world.home / "timer").unlink()
    await eventually(lambda: world.timer._kept[0].queue_offset == 2)
    task.cancel()
    await asyncio.wait((task,))
    world = world.next_life()
    world.pass_time(HOUR)
    assert world.bodies() == [b"x", b"y"]
