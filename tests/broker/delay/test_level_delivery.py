"""Messages with a delay level are delivered: all of them, in order, and not before their time."""

import asyncio
import logging
import shutil
from pathlib import Path

import msgspec
import pytest

from hanabi.broker.config import BrokerConfig
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import PutStatus
from hanabi.testing.waiting import eventually
from hanabi.wire.message.hosts import encode_host
from hanabi.wire.message.properties import encode_properties
from hanabi.wire.message.tags import java_hash
from hanabi.wire.system_names import HALF_TOPIC, SCHEDULE_TOPIC
from tests.broker.delay.world import HOUR, SECOND, World, message
from tests.golden_records import golden_store


def with_levels(text: str) -> BrokerConfig:
    return BrokerConfig(broker_name="broker-a", message_delay_levels=text)


# Time


def test_two_hours_pass_in_no_time(world: World) -> None:
    world.put(message(b"late", DELAY=18))
    world.pass_time(2 * HOUR - 1)
    assert world.bodies() == []
    world.pass_time(1)
    assert world.bodies() == [b"late"]


def test_while_nothing_is_due_there_is_nothing_to_do_until_it_is(world: World) -> None:
    assert world.levels.step() > world.clock.ms + 1_000 * HOUR
    world.put(message(DELAY=18))
    world.put(message(DELAY=3))
    assert world.levels.step() == world.clock.ms + 10 * SECOND
    world.pass_time(10 * SECOND)
    assert world.levels.step() == world.clock.ms - 10 * SECOND + 2 * HOUR


def test_each_level_has_its_own_time_and_order(world: World) -> None:
    for number in range(40):
        world.put(message(b"%d" % number, DELAY=1 + number % 2))
        world.clock.ms += 10
    world.pass_time(SECOND)
    assert world.bodies() == [b"%d" % number for number in range(0, 40, 2)]
    world.pass_time(5 * SECOND)
    assert world.bodies()[20:] == [b"%d" % number for number in range(1, 40, 2)]


def test_the_queue_keeps_the_time_of_delivery_in_place_of_the_tag(world: World) -> None:
    world.put(message(DELAY=2, TAGS="red"))
    assert world.tags_codes(SCHEDULE_TOPIC, 1, 0, 9) == [world.clock.ms + 5 * SECOND]
    world.pass_time(5 * SECOND)
    assert world.tags_codes("T", 0, 0, 9) == [java_hash("red")]


def test_with_an_extended_queue_the_times_are_found_too(directory: Path) -> None:
    world = World(directory / "home", consume_queue_ext_enabled=True)
    world.put(message(b"x", DELAY=2))
    world.pass_time(5 * SECOND - 1)
    assert world.bodies() == []
    world.pass_time(1)
    assert world.bodies() == [b"x"]


def test_a_message_is_delivered_as_it_was_sent(world: World) -> None:
    sent = PendingMessage(
        "Orders",
        7,
        b"body",
        encode_properties({"KEYS": "k1 k2", "TAGS": "red", "DELAY": "1", "UNIQ_KEY": "U", "ümlaut": "日本"}),
        born_timestamp_ms=1_234,
        born_host=encode_host("::1", 5),
        store_host=encode_host("10.0.0.1", 10911),
        flag=99,
        sys_flag=0b10 | 8,
        reconsume_times=3,
        prepared_offset=17,
    )
    waiting = world.diverter.divert(sent)
    world.put(sent)
    world.pass_time(SECOND)
    [delivered] = world.read("Orders", 7)
    assert delivered.properties == waiting.properties
    for name in ("body", "flag", "born_timestamp_ms", "born_host", "store_host", "reconsume_times"):
        assert getattr(delivered, name) == getattr(sent, name)
    assert delivered.sys_flag == sent.sys_flag | 16  # the born host is IPv6
    assert delivered.prepared_offset == 0  # as Apache
    assert delivered.store_timestamp_ms == world.clock.ms


def test_when_a_level_was_made_shorter_what_waits_too_long_is_due_at_once(directory: Path) -> None:
    world = World(directory / "home", broker=with_levels("1s 2h"))
    world.put(message(b"x", DELAY=2))
    world = world.next_life(broker=with_levels("1s 1m"))
    world.deliver()
    assert world.bodies() == [b"x"]


def test_when_the_clock_is_set_back_nothing_waits_longer_than_its_level(world: World) -> None:
    world.put(message(b"x", DELAY=1))
    world.pass_time(-24 * HOUR)
    assert world.bodies() == [b"x"]


def test_what_waits_under_a_level_that_is_gone_is_delivered_at_its_time(directory: Path) -> None:
    world = World(directory / "home", broker=with_levels("1s 1m 2h"))
    world.put(message(b"x", DELAY=3))
    world = world.next_life(broker=with_levels("1s"))
    world.pass_time(2 * HOUR - 1)
    assert world.bodies() == []
    world.pass_time(1)
    assert world.bodies() == [b"x"]


# What goes wrong


def test_a_failure_is_tried_again_with_pauses_and_nothing_overtakes(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(5):
        world.put(message(b"%d" % number, DELAY=1))
    failures = 0

    def refuse(pending: PendingMessage) -> PutStatus | None:
        nonlocal failures
        if pending.body == b"2" and failures < 4:
            failures += 1
            return PutStatus.SERVICE_NOT_AVAILABLE
        return None

    world.refuse = refuse
    world.pass_time(SECOND)
    pauses: list[int] = []
    while (next_ms := world.levels.step()) < world.clock.ms + HOUR:
        assert world.bodies() == [b"0", b"1"]
        assert failures == len(pauses) + 1
        pauses.append(next_ms - world.clock.ms)
        world.pass_time(next_ms - world.clock.ms)
    assert pauses == [100, 200, 400, 800]
    assert world.bodies() == [b"0", b"1", b"2", b"3", b"4"]
    assert caplog.text.count("cannot be delivered now") == 1


def test_a_failing_level_does_not_hold_up_the_others(world: World) -> None:
    world.refuse = lambda pending: PutStatus.CREATE_MAPPED_FILE_FAILED if pending.body == b"bad" else None
    world.put(message(b"bad", DELAY=1))
    world.put(message(b"good", DELAY=2))
    world.pass_time(5 * SECOND)
    assert world.bodies() == [b"good"]


def test_a_message_that_can_never_be_stored_does_not_hold_up_its_level(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.refuse = lambda pending: PutStatus.MESSAGE_ILLEGAL if pending.body == b"bad" else None
    for body in (b"a", b"bad", b"b"):
        world.put(message(body, DELAY=1))
    world.pass_time(SECOND)
    assert world.bodies() == [b"a", b"b"]
    assert "message 1 of SCHEDULE_TOPIC_XXXX/0 for T cannot be delivered and is dropped" in caplog.text


def test_a_half_message_is_discarded_as_apache_does(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.put(message(topic=HALF_TOPIC, DELAY=1))
    world.put(message(b"next", DELAY=1))
    world.pass_time(SECOND)
    assert world.bodies() == [b"next"]
    assert world.bodies(HALF_TOPIC) == []
    assert "discarded" in caplog.text


def test_a_message_without_a_destination_is_discarded(world: World, caplog: pytest.LogCaptureFixture) -> None:
    lost = world.diverter.divert(message(DELAY=1))
    for properties in (
        b"",
        b"REAL_TOPIC\x01T",
        b"REAL_TOPIC\x01T\x02REAL_QID\x01x",
        b"REAL_TOPIC\x01T\x02REAL_QID\x01-1",
    ):
        world.put(msgspec.structs.replace(lost, properties=properties))
    world.put(message(b"next", DELAY=1))
    world.pass_time(SECOND)
    assert world.bodies() == [b"next"]
    assert caplog.text.count("does not say to which topic") == 4


def test_messages_deleted_before_they_were_due_are_passed_over(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(directory / "home", segment_bytes=4_096)
    for number in range(40):
        world.put(message(b"%d" % number * 100, DELAY=18))
    assert world.store._log.delete_oldest()
    world.store._queues.delete_expired(world.store.min_log_offset)
    gone = world.store.reader.min_offset(SCHEDULE_TOPIC, 17)
    assert gone > 0
    world.pass_time(2 * HOUR)
    assert world.bodies() == [b"%d" % number * 100 for number in range(gone, 40)]


def test_thousands_due_at_once_are_delivered_in_slices(world: World) -> None:
    for number in range(2_000):
        world.put(message(b"%d" % number, DELAY=1 + number % 3))
    world.clock.ms += 10 * SECOND
    slices = 0
    while world.levels.step() <= world.clock.ms:
        slices += 1
        assert len(world.deliveries) <= 32 * slices
    assert sorted(map(int, world.bodies())) == list(range(2_000))


# Its files


def test_delay_offset_json_is_read_and_written_as_apache_does(directory: Path) -> None:
    golden = golden_store("store-clean.tar.gz")
    for path, content in golden.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(content)
    world = World(directory)
    world.deliver()
    assert world.deliveries == []  # Apache has delivered them
    assert world.levels.table().offset_table == {1: 4}
    world.save()
    assert (directory / "config/delayOffset.json").read_bytes() == golden["config/delayOffset.json"]
    assert world.levels.running_stats() == {"scheduleMessageOffset_1": "4,4"}
    world.put(message(DELAY=1))
    world.pass_time(SECOND)
    world.save()
    assert (directory / "config/delayOffset.json").read_bytes() == b'{\n\t"offsetTable":{1:5\n\t}\n}'


def test_offsets_out_of_range_are_corrected(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    (directory / "home/config").mkdir(parents=True)
    (directory / "home/config/delayOffset.json").write_text('{"offsetTable":{1:7,"2":3}}')
    world = World(directory / "home")
    assert world.levels.table().offset_table == {1: 0, 2: 0}
    assert "delay level 1 is delivered up to 7" in caplog.text
    world.put(message(b"x", DELAY=1))
    world.pass_time(SECOND)
    assert world.bodies() == [b"x"]


# Starting again


def test_a_restart_goes_on_where_the_last_life_ended(world: World) -> None:
    for number in range(6):
        world.put(message(b"%d" % number, DELAY=1))
        world.pass_time(300)
    delivered = len(world.deliveries)
    assert 0 < delivered < 6
    world = world.next_life()
    world.pass_time(SECOND)
    assert world.bodies() == [b"%d" % number for number in range(6)]
    assert len(world.deliveries) == 6 - delivered


def test_what_was_delivered_after_the_last_save_is_not_delivered_again_after_a_kill(
    world: World, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for number in range(10):
        world.put(message(b"%d" % (number // 2), DELAY=1 + number % 2))  # some cannot be told apart
    world.levels.save()
    world.pass_time(SECOND)
    world.put(message(b"new", DELAY=1))
    world = world.killed(directory / "second")
    world.deliver()
    assert world.deliveries == []
    assert "SCHEDULE_TOPIC_XXXX: 5 messages were delivered after the last save" in caplog.text
    world.pass_time(5 * SECOND)
    assert sorted(world.bodies()) == sorted([*(b"%d" % (number // 2) for number in range(10)), b"new"])


def test_a_kill_before_the_clock_is_set_back_repeats_nothing(world: World, directory: Path) -> None:
    world.put(message(b"once", DELAY=1))
    world.levels.save()
    world.pass_time(SECOND)
    world = world.killed(directory / "second")
    world.pass_time(-SECOND // 2)
    world.pass_time(SECOND)
    assert world.bodies() == [b"once"]
    assert world.levels.step() > world.clock.ms + HOUR  # nothing is left to compare


def test_a_second_kill_before_all_was_compared_repeats_nothing(world: World, directory: Path) -> None:
    for number in range(100):
        world.put(message(b"%d" % number, DELAY=1))
    world.levels.save()
    world.pass_time(SECOND)
    world = world.killed(directory / "second")
    world.levels.save()
    world.levels.step()
    world.levels.save()
    world = world.killed(directory / "third")
    world.deliver()
    assert world.bodies() == [b"%d" % number for number in range(100)]


def test_when_a_broker_of_apaches_has_delivered_in_between_its_table_counts(world: World) -> None:
    for number in range(3):
        world.put(message(b"%d" % number, DELAY=1))
    world.pass_time(SECOND)
    world.save()
    (world.home / "config/delayOffset.json").write_text('{"offsetTable":{1:1}}')
    world.store.close()
    world = World(world.home, world.clock)
    world.deliver()
    assert [pending.body for pending in world.deliveries] == [b"1", b"2"]


def test_saving_over_and_over_writes_only_what_is_new(world: World) -> None:
    world.put(message(DELAY=1))
    world.pass_time(SECOND)
    world.levels.save()
    path = world.home / "config/delayOffset.json"
    written = path.stat().st_mtime_ns
    world.levels.save()
    assert path.stat().st_mtime_ns == written


# As a task


async def test_the_task_sleeps_until_a_message_arrives_that_is_due_and_saves_at_its_interval(directory: Path) -> None:
    broker = BrokerConfig(broker_name="a", message_delay_levels="0s 2h", flush_delay_offset_interval_ms=1)
    world = World(directory / "home", broker=broker)
    steps = 0
    step = world.levels.step

    def counted() -> int:
        nonlocal steps
        steps += 1
        return step()

    world.levels.step = counted  # type: ignore[method-assign]
    task = asyncio.create_task(world.levels.run())
    world.put(message(b"late", DELAY=2))
    await eventually((directory / "home/config/delayOffset.json").exists)
    slept = steps
    assert slept <= 3  # while many intervals passed
    world.put(message(b"now", DELAY=1))
    await eventually(world.bodies)
    assert world.bodies() == [b"now"]
    assert steps <= slept + 3
    await eventually(lambda: b"1:1" in (directory / "home/config/delayOffset.json").read_bytes())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_task_outlives_what_nobody_thought_of(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = World(directory / "home", broker=with_levels("0s"))

    def refuse(_: PendingMessage) -> PutStatus | None:
        world.refuse = lambda _: None
        raise RuntimeError("unheard of")

    world.refuse = refuse
    task = asyncio.create_task(world.levels.run())
    world.put(message(b"x", DELAY=1))
    await eventually(lambda: "unheard of" in caplog.text)
    world.put(message(b"y", DELAY=1))
    await eventually(lambda: len(world.bodies()) == 2)
    task.cancel()
    await asyncio.wait((task,))
    assert world.bodies() == [b"x", b"y"]


def test_a_delayed_message_whose_time_was_lost_with_the_extension_is_not_early(directory: Path) -> None:
    world = World(directory / "home", consume_queue_ext_enabled=True)
    world.put(message(b"x", DELAY=2))
    world.save()
    world.store.close()
    shutil.rmtree(directory / "home" / "consumequeue_ext")
    world = World(directory / "home", world.clock, consume_queue_ext_enabled=True)
    world.pass_time(5 * SECOND - 1)
    assert world.bodies() == []
    world.pass_time(1)
    assert world.bodies() == [b"x"]
