"""The pure parts of a measurement: percentiles, rates, turns, what is lost."""

import random

import pytest

from hanabi.bench.histogram import Histogram, bucket_of, largest_in
from hanabi.bench.journeys import Journeys
from hanabi.bench.meter import Meter, reason_of
from hanabi.bench.produce import Load
from hanabi.bench.results import Ended, flow_of, times_of
from hanabi.bench.send_schedule import Limits, SendSchedule
from hanabi.errors import ConfigError, ConnectError, MQError, SendAttempt, SendFailed


def histogram_of(values: list[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    return histogram


def test_every_time_is_in_a_bucket_that_is_at_most_a_hundredth_too_large() -> None:
    seen = -1
    for us in [*range(2_000), *(random.Random(1).randrange(1 << 40) for _ in range(2_000))]:
        bucket = bucket_of(us)
        assert us <= largest_in(bucket) <= us * 1.008
        assert bucket_of(largest_in(bucket)) == bucket
        assert bucket_of(largest_in(bucket) + 1) == bucket + 1
        if us < 2_000:
            assert bucket >= seen
            seen = bucket


def test_percentiles_are_those_of_the_sorted_times() -> None:
    seed = random.randrange(1 << 32)
    values = [int(random.Random(seed + n).expovariate(1 / 5_000)) for n in range(5_000)]
    histogram, ordered = histogram_of(values), sorted(values)
    for percent in (50, 90, 99, 99.9):
        exact = ordered[-(-round(len(values) * percent * 10) // 1_000) - 1]
        assert exact <= histogram.percentile(percent) <= exact * 1.008 + 1, seed
    assert histogram.percentile(100) == histogram.max_us == ordered[-1]
    assert (histogram.count, histogram.sum_us) == (len(values), sum(values))


def test_histograms_can_be_joined_and_a_time_before_its_beginning_is_none() -> None:
    both = histogram_of([1, 2, 3])
    both.merge(histogram_of([1_000_000, -5]))
    assert (both.count, both.max_us, both.percentile(0), both.percentile(80)) == (5, 1_000_000, 0, 3)
    assert Histogram().percentile(99) == 0
    assert times_of(Histogram()) is None


def test_times_are_told_in_milliseconds() -> None:
    times = times_of(histogram_of([1_000] * 998 + [2_000, 50_000]))
    assert times is not None
    assert times.p50_ms == pytest.approx(1.0, rel=0.008)
    assert times.max_ms == 50.0
    assert times.mean_ms == pytest.approx(1.05)
    assert times.p999_ms == pytest.approx(2.0, rel=0.008)


def test_a_flow_is_a_second_s_share_and_nothing_is_no_speed() -> None:
    flow = flow_of(200, 4_000_000, 2.0)
    assert (flow.messages_per_second, flow.megabytes, flow.megabytes_per_second) == (100.0, 4.0, 2.0)
    assert flow_of(0, 0, 0.0).messages_per_second == 0.0


def test_without_a_rate_a_turn_is_due_at_once_and_the_time_ends_it() -> None:
    pace = SendSchedule(Limits(seconds=1.0), 10.0, size=1)
    assert pace.take(10.5) == (10.5, 1)
    assert pace.take(11.0) is None
    assert pace.ended is Ended.TIME


def test_with_a_rate_turns_keep_their_distance_however_late_it_is() -> None:
    pace = SendSchedule(Limits(seconds=1.0, rate=4.0), 10.0, size=1)
    assert [pace.take(now) for now in (10.0, 10.0, 10.9, 10.9)] == [(10.0, 1), (10.25, 1), (10.5, 1), (10.75, 1)]
    assert pace.take(10.9) is None  # it would be due at 11
    late = SendSchedule(Limits(seconds=1.0, rate=4.0), 10.0, size=1)
    assert late.take(11.5) is None
    assert late.ended is Ended.TIME


def test_a_count_is_met_exactly_and_a_limit_of_bytes_is_not_exceeded() -> None:
    counted = SendSchedule(Limits(count=5), 0.0, size=1, per_turn=3)
    assert [turn.messages for turn in iter(lambda: counted.take(0.0), None)] == [3, 2]
    assert counted.ended is Ended.COUNT
    bounded = SendSchedule(Limits(seconds=9, bytes_max=2_500), 0.0, size=800)
    assert [turn.messages for turn in iter(lambda: bounded.take(0.0), None)] == [1, 1]
    assert bounded.ended is Ended.LIMIT


@pytest.mark.parametrize("wrong", [{"seconds": 0}, {"count": -1}, {"rate": 0.0}, {"seconds": float("nan")}])
def test_a_limit_must_allow_something(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Limits(**wrong)  # type: ignore[arg-type]


def test_a_batch_must_fit_into_a_request() -> None:
    with pytest.raises(ConfigError, match="--batch 1000"):
        Load(topic="T", limits=Limits(count=1), batch=1_000)


def test_a_meter_tells_what_happened_since_it_was_last_asked_and_all_of_it_at_the_end() -> None:
    meter = Meter("sent", 100.0)
    meter.add(100.5, 0.002, 10, 5_000_000)
    first = meter.second(101.0)
    assert (first.messages_per_second, first.megabytes_per_second, first.at_seconds) == (10.0, 5.0, 1.0)
    meter.fail(ConnectError("nobody is there"), 2)
    second = meter.second(103.0)
    assert (second.messages_per_second, second.failed, second.p99_ms) == (0.0, 2, 0.0)
    meter.add(103.5, 0.004, 1, 1)
    assert (meter.messages, meter.times.count, meter.times.max_us, meter.last) == (11, 2, 4_000, 103.5)


def test_failures_are_counted_by_the_error_of_the_last_try() -> None:
    tries = (SendAttempt("a", None, ConnectError("1")), SendAttempt("b", None, MQError("2")))
    assert reason_of(SendFailed("no", topic="T", attempts=tries)) == "MQError"
    meter = Meter("sent", 0.0)
    meter.fail(MQError("once"), 1)
    meter.fail(ConnectError("first"), 1)
    meter.fail(ConnectError("second"), 2)
    assert [(each.reason, each.messages, each.example) for each in meter.failures] == [
        ("ConnectError", 3, "first"),
        ("MQError", 1, "once"),
    ]


def test_what_is_acknowledged_and_does_not_come_is_missing_and_what_comes_again_is_counted() -> None:
    journeys = Journeys()
    numbers = [journeys.begin(float(at)) for at in range(4)]
    assert numbers == [0, 1, 2, 3]
    assert journeys.arrived(0)  # before its answer
    for number in (0, 1, 2):
        journeys.acknowledged(number)
    assert journeys.arrived(1)
    assert not journeys.arrived(1)
    assert journeys.arrived(3)  # nobody knew whether it was stored
    assert (journeys.received, journeys.duplicated, journeys.missing) == (3, 1, 1)
