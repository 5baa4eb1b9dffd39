"""Tests of retention: the decision first, then the deletion."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from hanabi.store.config import StoreConfig
from hanabi.store.message_store import MessageStore, PutStatus
from hanabi.store.upkeep.retention import Decision, Facts, decide
from hanabi.testing.clock import START_MS, ManualClock
from tests.store.stores import SEGMENT_BYTES, bodies, message, open_store, records_of

HOUR_MS = 3_600_000
OLD, YOUNG = 100 * HOUR_MS, HOUR_MS
CONFIG = StoreConfig(root="store")  # 72 hours, at 04, over 75 %


def decided(
    *,
    hour: int = 12,
    ratios: Sequence[float] = (0.5, 0.5),
    ages: Sequence[int] = (),
    asked: bool = False,
    config: StoreConfig = CONFIG,
) -> tuple[int, bool]:
    decision = decide(Facts(hour, ratios, ages, asked), config)
    return decision.files, decision.refuses


def test_nothing_is_deleted_without_a_reason() -> None:
    assert decide(Facts(12, (0.5, 0.5), [OLD] * 3, is_asked_for=False), CONFIG) == Decision(0, False, "")


def test_old_files_go_at_their_hour_and_young_ones_stay() -> None:
    assert decided(hour=4, ages=[OLD, OLD, YOUNG]) == (2, False)
    assert decided(hour=5, ages=[OLD, OLD, YOUNG]) == (0, False)
    twice = StoreConfig(root="store", delete_when="04;16")
    assert decided(hour=16, ages=[OLD], config=twice) == (1, False)


def test_a_file_exactly_as_old_as_the_limit_goes() -> None:
    assert decided(hour=4, ages=[72 * HOUR_MS]) == (1, False)
    assert decided(hour=4, ages=[72 * HOUR_MS - 1]) == (0, False)


def test_files_behind_a_young_one_stay_whatever_their_age() -> None:
    assert decided(hour=4, ages=[OLD, YOUNG, OLD]) == (1, False)


def test_old_files_go_at_any_hour_when_asked_for_or_when_the_disk_is_rather_full() -> None:
    assert decided(asked=True, ages=[OLD, YOUNG]) == (1, False)
    assert decided(ratios=(0.76, 0.1), ages=[OLD, YOUNG]) == (1, False)
    assert decided(ratios=(0.1, 0.76), ages=[OLD, YOUNG]) == (1, False)
    assert decided(ratios=(0.75, 0.75), ages=[OLD, YOUNG]) == (0, False)


def test_a_disk_that_cannot_be_asked_counts_as_rather_full() -> None:
    assert decided(ratios=(-1.0, 0.1), ages=[OLD, YOUNG]) == (1, False)


def test_young_files_go_as_well_when_the_disk_is_very_full_unless_that_is_switched_off() -> None:
    assert decided(ratios=(0.86, 0.1), ages=[YOUNG, YOUNG]) == (2, False)
    assert decided(ratios=(0.85, 0.1), ages=[YOUNG, YOUNG]) == (0, False)
    careful = StoreConfig(root="store", clean_forcibly_enabled=False)
    assert decided(ratios=(0.86, 0.1), ages=[OLD, YOUNG], config=careful) == (1, False)


def test_nothing_goes_for_its_age_while_the_clock_is_in_doubt() -> None:
    unsettled = Facts(4, (0.5, 0.5), [OLD], is_asked_for=True, is_clock_settled=False)
    assert decide(unsettled, CONFIG).files == 0
    assert decide(unsettled._replace(disk_ratios=(0.95, 0.5)), CONFIG).files == 1


def test_messages_are_refused_above_90_percent() -> None:
    assert decided(ratios=(0.90, 0.1)) == (0, False)
    assert decided(ratios=(0.91, 0.1)) == (0, True)
    assert decided(ratios=(0.1, 0.91)) == (0, True)


def test_at_most_ten_files_go_in_one_round() -> None:
    assert decided(hour=4, ages=[OLD] * 25) == (10, False)
    assert decided(ratios=(0.95, 0.95), ages=[YOUNG] * 25) == (10, True)


# Doing it


class World:
    def __init__(self, root: Path) -> None:
        self.clock, self.ratio = ManualClock(), 0.1
        self.store = open_store(root, clock=self.clock)
        self.store.retention._disk_ratio = lambda _: self.ratio

    def fill(self, files: int, *, topic: str = "T") -> None:
        """Write so many files, an hour each."""
        until = self.store.max_log_offset + files * SEGMENT_BYTES
        while self.store.max_log_offset < until:
            assert self.store.put(message(b"x" * 900, topic=topic, properties={"KEYS": "k"})).appended
            self.clock.ms += HOUR_MS // 4

    def set_hour(self, hour: int) -> None:
        """Go on to the next time that it is *hour* o'clock here."""
        while time.localtime(self.clock.ms // 1000).tm_hour != hour:
            self.clock.ms += HOUR_MS


@pytest.fixture
def world(memory_directory: Path) -> World:
    return World(memory_directory)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_old_files_are_deleted_at_the_hour_and_readers_go_on_behind_them(world: World) -> None:
    world.fill(8)
    everything = len(bodies(world.store))
    world.clock.ms += 70 * HOUR_MS
    world.set_hour(5)
    world.store.retention.run_round()
    assert world.store.min_log_offset == 0
    world.set_hour(4)
    world.store.retention.run_round()
    begins_at = world.store.min_log_offset
    assert begins_at > 0
    assert names(world.store.config.commit_log_path)[0] == f"{begins_at:020d}"
    left = bodies(world.store)
    first = world.store.reader.min_offset("T", 0)
    assert len(left) == everything - first
    assert records_of(world.store.get("T", 0, first, 1))[0].log_offset == begins_at
    world.store.close()


def test_files_with_times_of_a_clock_that_was_ahead_go_when_those_of_others_would(world: World) -> None:
    """New messages have such times for as long as the clock was ahead: they would fill the disk."""
    world.clock.ms += 2400 * HOUR_MS
    world.fill(4)
    ahead = world.store.max_log_offset
    world.clock.ms -= 2400 * HOUR_MS
    world.fill(4)
    for path in world.store.config.commit_log_path.iterdir():
        os.utime(path, (START_MS / 1000, START_MS / 1000))
    oldest = min(world.store.config.commit_log_path.iterdir())
    os.utime(oldest, (world.clock.ms / 1000 + 86_400, world.clock.ms / 1000 + 86_400))
    world.clock.ms += 100 * HOUR_MS
    world.set_hour(4)
    world.store.retention.run_round()
    assert world.store.min_log_offset >= ahead
    world.store.close()


def test_queues_and_index_follow_the_log(world: World) -> None:
    world.fill(40)
    queue_dir = world.store.config.consume_queue_path / "T" / "0"
    world.store.flush()
    queue_files, index_files = len(names(queue_dir)), len(names(world.store.config.index_path))
    assert index_files > 1
    world.ratio = 0.88
    while world.store.min_log_offset < 35 * SEGMENT_BYTES:
        world.store.retention.run_round()
    assert len(names(queue_dir)) < queue_files
    assert len(names(world.store.config.index_path)) < index_files
    found = world.store.queries.by_key("T", "k", 1000, 0, 2**62).records
    assert len(found) == len(bodies(world.store)) > 0
    world.store.close()


def test_the_file_that_is_written_to_is_never_deleted(world: World) -> None:
    world.fill(3)
    world.ratio = 0.99
    for _ in range(5):
        world.store.retention.run_round()
    assert len(world.store._log.segments) == 1
    world.store.close()


def test_messages_are_refused_while_the_disk_is_too_full_and_taken_again_after(world: World) -> None:
    world.ratio = 0.95
    world.store.retention.run_round()
    refused = world.store.put(message())
    assert (refused.status, refused.appended) == (PutStatus.SERVICE_NOT_AVAILABLE, ())
    assert "too full" in refused.reason
    assert world.store.put_batch([message()]).status is PutStatus.SERVICE_NOT_AVAILABLE
    world.ratio = 0.5
    world.store.retention.run_round()
    assert world.store.put(message()).status is PutStatus.PUT_OK
    world.store.close()


def test_a_store_on_a_full_disk_opens_and_can_be_read_but_takes_nothing(memory_directory: Path) -> None:
    store = open_store(memory_directory)
    store.put(message(b"kept"))
    store.close()
    store = open_store(memory_directory, disk_ratio=0.95)
    assert store.put(message()).status is PutStatus.SERVICE_NOT_AVAILABLE
    assert bodies(store) == [b"kept"]
    store.close()


def test_who_asks_gets_twenty_rounds(world: World) -> None:
    world.fill(30)
    world.clock.ms += 100 * HOUR_MS
    world.set_hour(12)
    world.store.retention.run_round()
    assert world.store.min_log_offset == 0
    world.store.retention.ask()
    for _ in range(20):
        world.store.retention.run_round()
    assert len(world.store._log.segments) == 1
    world.fill(2)
    world.clock.ms += 100 * HOUR_MS
    world.set_hour(12)
    world.store.retention.run_round()
    assert len(world.store._log.segments) == 3
    world.store.close()


def test_between_two_files_there_is_a_pause_and_between_two_rounds_a_long_one(world: World) -> None:
    world.fill(4)
    world.ratio = 0.88
    steps = [world.store.retention.step() for _ in range(5)]
    assert steps == [0.1, 0.1, 0.1, 10.0, 10.0]
    world.store.close()


def test_a_deleted_file_stays_for_the_one_who_reads_it(world: World) -> None:
    world.fill(3)
    held = world.store.get("T", 0, 0, 2)
    world.ratio = 0.99
    world.store.retention.run_round()
    assert world.store.min_log_offset > 0
    assert [record.queue_offset for record in records_of(held)] == [0, 1]
    world.store.close()


def test_after_a_restart_a_shortened_store_is_the_same(world: World, memory_directory: Path) -> None:
    world.fill(12)
    world.ratio = 0.88
    world.store.retention.run_round()
    before = world.store.reader.min_offset("T", 0), world.store.min_log_offset, bodies(world.store)
    world.store.close()
    store = open_store(memory_directory)
    assert (store.reader.min_offset("T", 0), store.min_log_offset, bodies(store)) == before
    store.close()


# Deleting topics


def put_to(store: MessageStore, *topics: str) -> None:
    for topic in topics:
        assert store.put(message(topic=topic)).appended


def test_queues_of_topics_that_nobody_knows_are_deleted_on_request(world: World) -> None:
    put_to(world.store, "Kept", "Gone", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_OP_HALF_TOPIC")
    world.store.flush()
    assert world.store.delete_unused_topics({"Kept"}) == ["Gone"]
    assert names(world.store.config.consume_queue_path) == [
        "Kept",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "SCHEDULE_TOPIC_XXXX",
    ]
    put_to(world.store, "Gone")
    assert world.store.reader.max_offset("Gone", 0) == 1  # it begins anew
    world.store.close()


def test_a_topic_deleted_and_made_again_begins_at_0_also_after_a_crash(world: World, memory_directory: Path) -> None:
    put_to(world.store, "Again", "Again", "Again")
    world.store.flush()
    assert world.store.delete_topic("Again") == 1
    world.store.put(message(b"new", topic="Again"))
    assert bodies(world.store, "Again") == [b"new"]
    world.store.close()
    (memory_directory / "abort").touch()
    store = open_store(memory_directory)
    assert (bodies(store, "Again"), store.reader.max_offset("Again", 0)) == ([b"new"], 1)
    store.close()


def test_queues_whose_messages_are_all_gone_are_deleted_on_request(world: World) -> None:
    put_to(world.store, "Old", "SCHEDULE_TOPIC_XXXX")
    world.fill(3, topic="New")
    world.ratio = 0.99
    world.store.retention.run_round()
    assert world.store.delete_expired_queues() == 1
    assert {topic for topic, _ in world.store.queues()} == {"SCHEDULE_TOPIC_XXXX", "New"}
    world.store.close()


def test_the_age_of_a_file_is_that_of_its_newest_message(world: World) -> None:
    world.fill(3)
    ages = world.store.retention._ages_ms(START_MS + 100 * HOUR_MS)
    assert len(ages) == 3
    assert all(95 * HOUR_MS < age <= 99 * HOUR_MS for age in ages)
    assert ages == sorted(ages, reverse=True)
    world.store.close()
