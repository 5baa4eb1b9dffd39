"""Tests of what is counted under which name, over which window, and what is forgotten."""

from collections.abc import Callable

import pytest

from hanabi.broker.stats.broker_stats import BrokerStats
from hanabi.testing.clock import START_MS, ManualClock

CLUSTER = "C"


def pass_time(stats: BrokerStats, clock: ManualClock, seconds: int) -> None:
    for _ in range(seconds):
        clock.ms += 1_000
        stats.tick()


def make() -> tuple[BrokerStats, ManualClock]:
    clock = ManualClock()
    return BrokerStats(CLUSTER, clock), clock


@pytest.mark.parametrize(
    ("name", "key", "total"),
    [
        ("TOPIC_PUT_NUMS", "T", 30),
        ("TOPIC_PUT_SIZE", "T", 3000),
        ("QUEUE_PUT_NUMS", "T@3", 30),
        ("QUEUE_PUT_SIZE", "T@3", 3000),
        ("GROUP_GET_NUMS", "T@g", 20),
        ("GROUP_GET_SIZE", "T@g", 2000),
        ("QUEUE_GET_NUMS", "T@3@g", 20),
        ("QUEUE_GET_SIZE", "T@3@g", 2000),
        ("GROUP_GET_LATENCY", "3@T@g", 7),
        ("SNDBCK_PUT_NUMS", "T@g", 2),
        ("BROKER_PUT_NUMS", CLUSTER, 30),
        ("BROKER_GET_NUMS", CLUSTER, 20),
    ],
)
def test_every_counter_is_found_under_its_java_name_and_key(name: str, key: str, total: int) -> None:
    stats, clock = make()
    stats.put("T", 30, 3000, 3)
    stats.get("g", "T", 20, 2000, 3)
    stats.get_latency("g", "T", 3, 7)
    stats.send_back("g", "T", 2)
    pass_time(stats, clock, 10)
    view = stats.view(name, key)
    assert view is not None
    assert view.minute.sum == total
    assert view.minute.tps == total / 10


def test_a_run_counts_as_its_messages_one_queue_after_the_other() -> None:
    (together, clock), (apart, other_clock) = make(), make()
    stored = [("T", 3, 300, 0, 1), ("U", 1, 50, 0, 1), ("T", 2, 200, 1, 1)]
    together.put_run(stored, 0.25)
    for topic, count, size, queue_id, _ in stored:
        apart.put(topic, count, size, queue_id)
    pass_time(together, clock, 10)
    pass_time(apart, other_clock, 10)
    for name, key in (
        ("TOPIC_PUT_SIZE", "T"),
        ("TOPIC_PUT_NUMS", "U"),
        ("QUEUE_PUT_NUMS", "T@1"),
        ("BROKER_PUT_NUMS", CLUSTER),
    ):
        assert together.view(name, key) == apart.view(name, key)
    assert (together.store.puts, together.store.put_bytes) == (apart.store.puts, apart.store.put_bytes) == (6, 550)
    assert together.store.put_seconds == 0.25


@pytest.mark.parametrize(
    "read",
    [
        lambda stats: stats.store.puts,
        lambda stats: next(tally.messages for _, tally in stats.put_totals()),
        lambda stats: stats.view("TOPIC_PUT_NUMS", "T").day.sum,
    ],
)
def test_runs_are_collected_when_a_counter_is_read_and_only_once(read: Callable[[BrokerStats], int]) -> None:
    stats, _ = make()
    waiting = [([("T", 3, 300, 0, 1)], 0.25)]
    stats.put_runs_of(lambda: waiting.pop() if waiting else ([], 0.0))
    assert (read(stats), read(stats)) == (3, 3)


def test_the_runs_of_a_removed_topic_do_not_bring_its_counters_back() -> None:
    stats, _ = make()
    waiting = [([("T", 3, 300, 0, 1)], 0.25)]
    stats.put_runs_of(lambda: waiting.pop() if waiting else ([], 0.0))
    stats.remove_topic("T")
    assert not len(stats.put_totals())
    assert stats.store.puts == 3


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("TOPIC_PUT_NUMS", "other"),
        ("TOPIC_PUT_NUMS", "T@3"),
        ("QUEUE_PUT_NUMS", "T@x"),
        ("BROKER_PUT_NUMS", "another cluster"),
        ("COMMERCIAL_SEND_TIMES", "T"),
        ("", ""),
    ],
)
def test_what_was_never_counted_is_not_there(name: str, key: str) -> None:
    stats, _ = make()
    stats.put("T", 1, 100, 3)
    assert stats.view(name, key) is None


def test_the_average_is_per_call() -> None:
    stats, clock = make()
    stats.put("T", 10, 500)
    stats.put("T", 20, 100)
    pass_time(stats, clock, 10)
    nums, size = stats.view("TOPIC_PUT_NUMS", "T"), stats.view("TOPIC_PUT_SIZE", "T")
    assert nums is not None
    assert size is not None
    assert nums.minute.average == 15
    assert size.minute.average == 300


def test_a_minute_is_six_steps_of_ten_seconds_and_then_forgets() -> None:
    stats, clock = make()
    stats.put("T", 60, 0)
    pass_time(stats, clock, 60)
    view = stats.view("TOPIC_PUT_NUMS", "T")
    assert view is not None
    assert (view.minute.sum, view.minute.tps) == (60, 1.0)
    pass_time(stats, clock, 10)
    view = stats.view("TOPIC_PUT_NUMS", "T")
    assert view is not None
    assert view.minute.sum == 0


def test_hour_and_day_are_sampled_every_ten_minutes_and_every_hour() -> None:
    stats, clock = make()
    stats.put("T", 5, 0)
    pass_time(stats, clock, 10)
    stats.put("T", 600, 0)
    pass_time(stats, clock, 580)
    view = stats.view("TOPIC_PUT_NUMS", "T")
    assert view is not None
    assert (view.hour.sum, view.day.sum) == (605, 605)
    assert view.hour.tps == pytest.approx(5 / 600)  # the next samples are due in ten seconds, and in fifty minutes
    pass_time(stats, clock, 20)
    view = stats.view("TOPIC_PUT_NUMS", "T")
    assert view is not None
    assert (view.hour.sum, view.day.sum) == (605, 605)
    assert view.hour.tps == pytest.approx(605 / 1200)
    pass_time(stats, clock, 3000)
    view = stats.view("TOPIC_PUT_NUMS", "T")
    assert view is not None
    assert (view.minute.sum, view.hour.sum, view.day.sum) == (0, 600, 605)


def test_what_was_missed_while_the_loop_slept_is_one_sample_late_and_not_wrong() -> None:
    stats, clock = make()
    stats.put("T", 100, 0)
    clock.ms += 3_600_000
    stats.tick()
    view = stats.view("TOPIC_PUT_NUMS", "T")
    assert view is not None
    assert view.minute.sum == 100
    pass_time(stats, clock, 70)
    view = stats.view("TOPIC_PUT_NUMS", "T")
    assert view is not None
    assert view.minute.sum == 0


def test_group_and_topic_rates_are_those_of_the_last_minute() -> None:
    stats, clock = make()
    stats.put("T", 50, 0)
    stats.get("g", "T", 40, 0)
    pass_time(stats, clock, 10)
    assert stats.topic_put_tps("T") == 5.0
    assert stats.group_get_tps("g", "T") == 4.0
    assert stats.group_get_tps("nobody", "T") == 0.0


def test_a_removed_topic_takes_its_counters_along_and_leaves_the_others() -> None:
    stats, _ = make()
    for topic in ("T", "U"):
        stats.put(topic, 1, 1, 0)
        stats.get("g", topic, 1, 1, 0)
        stats.get_latency("g", topic, 0, 1)
        stats.send_back("g", topic)
        stats.fall_size("g", topic, 0, 10)
        stats.fall_time("g", topic, 0, 10)
    stats.remove_topic("T")
    keys = [
        ("TOPIC_PUT_NUMS", "{}"),
        ("QUEUE_PUT_NUMS", "{}@0"),
        ("GROUP_GET_NUMS", "{}@g"),
        ("QUEUE_GET_NUMS", "{}@0@g"),
        ("GROUP_GET_LATENCY", "0@{}@g"),
        ("SNDBCK_PUT_NUMS", "{}@g"),
    ]
    for name, key in keys:
        assert stats.view(name, key.format("T")) is None, name
        assert stats.view(name, key.format("U")) is not None, name
    assert stats.fallen_behind(0) == {"g": 10}
    stats.remove_topic("U")
    assert stats.fallen_behind(0) == {}


def test_a_removed_group_takes_its_counters_along_and_leaves_the_topics() -> None:
    stats, _ = make()
    stats.put("T", 1, 1, 0)
    for group in ("g", "h"):
        stats.get(group, "T", 1, 1, 0)
        stats.send_back(group, "T")
    stats.remove_group("g")
    assert stats.view("GROUP_GET_NUMS", "T@g") is None
    assert stats.view("SNDBCK_PUT_NUMS", "T@g") is None
    assert stats.view("GROUP_GET_NUMS", "T@h") is not None
    assert stats.view("TOPIC_PUT_NUMS", "T") is not None


def test_groups_far_behind_are_told_with_the_worst_of_their_queues() -> None:
    stats, _ = make()
    stats.fall_size("slow", "T", 0, 100)
    stats.fall_size("slow", "T", 1, 900)
    stats.fall_size("quick", "T", 0, 5)
    assert stats.fallen_behind(50) == {"slow": 900}
    stats.fall_size("slow", "T", 1, 0)
    stats.fall_size("slow", "T", 0, 0)
    assert stats.fallen_behind(50) == {}


def test_names_that_peers_make_up_do_not_fill_the_memory() -> None:
    stats = BrokerStats(CLUSTER, ManualClock(), keys_max=10)
    for number in range(100):
        stats.put(f"T{number}", 1, 1, number)
        stats.get(f"g{number}", "T", 1, 1, number)
        stats.fall_size(f"g{number}", "T", 0, 1)
    assert stats.view("TOPIC_PUT_NUMS", "T9") is not None
    assert stats.view("TOPIC_PUT_NUMS", "T10") is None
    assert len(stats.fallen_behind(0)) == 10
    assert stats.store.puts == 100


def test_a_clock_that_is_set_back_stops_nothing() -> None:
    stats, clock = make()
    stats.put("T", 1, 1)
    pass_time(stats, clock, 30)
    clock.ms = START_MS - 3_600_000
    stats.tick()
    stats.put("T", 5, 1)
    pass_time(stats, clock, 70)
    view = stats.view("TOPIC_PUT_NUMS", "T")
    assert view is not None
    assert view.minute.sum == 0
    stats.put("T", 7, 1)
    pass_time(stats, clock, 10)
    view = stats.view("TOPIC_PUT_NUMS", "T")
    assert view is not None
    assert view.minute.sum == 7
    assert stats.store.runtime_info(clock())["putTps"].startswith("0.7 ")


def test_what_came_today_counts_for_the_day_however_old_the_last_sample_is() -> None:
    stats, clock = make()
    pass_time(stats, clock, 700)  # the samples of hour and day are behind us
    stats.put("T", 5, 500, 0)
    for _ in range(30):
        view = stats.view("TOPIC_PUT_NUMS", "T")
        size = stats.view("TOPIC_PUT_SIZE", "T")
        assert view is not None
        assert size is not None
        assert (view.hour.sum, view.day.sum, view.day.times) == (5, 5, 1)
        assert size.day.sum == 500
        pass_time(stats, clock, 10)
    view = stats.view("TOPIC_PUT_NUMS", "T")
    assert view is not None
    assert view.minute.sum == 0
    pass_time(stats, clock, 26 * 3600)
    view = stats.view("TOPIC_PUT_NUMS", "T")
    assert view is not None
    assert (view.hour.sum, view.day.sum) == (0, 0)
