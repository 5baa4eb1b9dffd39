"""The texts that `mqadmin brokerStatus` and Prometheus exporters read."""

from datetime import datetime

import pytest

from hanabi.broker.stats.store_stats import StoreStats, java_double, percentile_ms
from hanabi.testing.clock import START_MS


def test_rates_are_over_ten_sixty_and_six_hundred_seconds() -> None:
    stats = StoreStats(0)
    for second in range(1, 601):
        stats.puts += 10 if second > 590 else 4
        stats.tick(second * 1000)
    info = stats.runtime_info(600_000)
    assert info["putTps"] == f"10.0 5.0 {(590 * 4 + 100) / 600}"
    assert info["getFoundTps"] == "0.0 0.0 0.0"


def test_rates_are_there_from_the_first_second_on() -> None:
    stats = StoreStats(0)
    assert stats.runtime_info(0)["putTps"] == "0.0 0.0 0.0"
    stats.puts += 3
    stats.gets_found += 2
    stats.gets_missed += 1
    stats.tick(1000)
    info = stats.runtime_info(1000)
    assert info["putTps"] == "3.0 3.0 3.0"
    assert info["getTotalTps"] == "3.0 3.0 3.0"


def test_the_distribution_is_that_of_the_last_whole_minute() -> None:
    stats = StoreStats(0)
    for ms in (0, 0, 0, 1, 9, 10, 60, 12_000):
        stats.put_took(ms)
    stats.tick(60_000)
    stats.put_took(0)
    info = stats.runtime_info(60_000)
    assert info["putMessageDistributeTime"].startswith("[<=0ms]:3 [0~10ms]:2 [10~50ms]:1 [50~100ms]:1 [100~200ms]:0 ")
    assert info["putMessageDistributeTime"].endswith("[10s~]:1 ")
    assert info["putMessageEntireTimeMax"] == "12000"


def test_puts_that_nobody_timed_were_quick() -> None:
    stats = StoreStats(0)
    stats.puts = 1000
    stats.put_took(30)
    stats.tick(60_000)
    info = stats.runtime_info(60_000)
    assert info["putMessageDistributeTime"].startswith("[<=0ms]:999 [0~10ms]:0 [10~50ms]:1 ")
    assert float(info["putLatency99"]) <= 1
    stats.puts += 5
    stats.tick(120_000)
    assert stats.runtime_info(120_000)["putMessageDistributeTime"].startswith("[<=0ms]:5 [0~10ms]:0 ")


def test_today_begins_at_midnight() -> None:
    evening = int(datetime(2024, 3, 1, 23, 59, 59).timestamp() * 1000)
    stats = StoreStats(evening)
    stats.puts, stats.transferred = 10, 4
    stats.tick(evening + 1000)
    stats.puts, stats.transferred = 12, 5
    info = stats.runtime_info(evening + 2000)
    assert (info["msgPutTotalTodayMorning"], info["msgPutTotalTodayNow"]) == ("10", "12")
    assert (info["msgGetTotalTodayMorning"], info["msgGetTotalTodayNow"]) == ("4", "5")
    assert info["msgPutTotalYesterdayMorning"] == "0"
    stats.tick(evening + 86_401_000)
    info = stats.runtime_info(evening + 86_401_000)
    assert (info["msgPutTotalYesterdayMorning"], info["msgPutTotalTodayMorning"]) == ("10", "12")


def test_the_runtime_is_told_in_days_hours_minutes_and_seconds() -> None:
    stats = StoreStats(START_MS)
    later = START_MS + 1000 * (2 * 86_400 + 3 * 3_600 + 4 * 60 + 5)
    assert stats.runtime_info(later)["runtime"] == "[ 2 days, 3 hours, 4 minutes, 5 seconds ]"
    assert stats.runtime_info(later)["bootTimestamp"] == str(START_MS)


def test_the_average_size_of_nothing_is_zero() -> None:
    stats = StoreStats(0)
    assert stats.runtime_info(0)["putMessageAverageSize"] == "0.0"
    stats.puts, stats.put_bytes = 3, 1000
    assert stats.runtime_info(0)["putMessageAverageSize"] == java_double(1000 / 3)


def test_a_percentile_lies_between_the_limits_of_its_class() -> None:
    counts = [0] * 76
    assert percentile_ms(counts, 0.99) == 0.0
    counts[4] = 100  # between 4 and 5 ms
    assert 4 < percentile_ms(counts, 0.5) < percentile_ms(counts, 0.99) <= 5


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (1.5, "1.5"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (9_999_999.5, "9999999.5"),
        (10_000_000.0, "1.0E7"),
        (12_345_678.9, "1.23456789E7"),
        (-0.00025, "-2.5E-4"),
    ],
)
def test_numbers_are_spelled_as_java_spells_them(value: float, text: str) -> None:
    assert java_double(value) == text
