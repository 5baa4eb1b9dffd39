"""The figures that an operator sees."""

import pytest

from hanabi.client.consumer.consume_stats import ConsumeStats, TopicStats


def test_rates_are_of_the_last_minute_and_failures_of_the_last_hour() -> None:
    stats = TopicStats(0.0)
    stats.totals.succeeded, stats.totals.failed = 6_000, 5
    stats.sample(100.0)
    for second in range(110, 7_300, 10):
        stats.sample(float(second))
    stats.totals.succeeded += 600
    stats.totals.failed += 1
    stats.totals.batches, stats.totals.consume_s = 10, 0.5
    stats.totals.pulls, stats.totals.pulled, stats.totals.pull_s = 4, 120, 0.2
    status = stats.status(7_350.0)
    assert status.consume_ok_tps == pytest.approx(10.0)
    assert status.consume_failed_msgs == 1
    assert status.consume_rt == pytest.approx(50.0)
    assert status.pull_rt == pytest.approx(50.0)
    assert status.pull_tps == pytest.approx(2.0)


def test_samples_do_not_grow_without_end() -> None:
    stats = TopicStats(0.0)
    for second in range(20_000):
        stats.sample(float(second))
    assert len(stats._samples) <= 362


def test_a_consumer_that_has_just_begun_has_figures_too() -> None:
    stats = ConsumeStats()
    stats.of("Orders", 5.0).totals.succeeded = 3
    stats.sample(5.1)
    assert stats.of("Orders", 5.5).status(5.5).consume_ok_tps == 3.0
    assert stats.of("Never", 6.0).status(6.0).consume_rt == 0.0
