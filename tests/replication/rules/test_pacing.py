"""The flow limit and the transfer rate, by a clock that the test sets."""

from hypothesis import given
from hypothesis import strategies as st

from hanabi.replication.rules.pacing import TokenBucket, TransferRate


@given(st.integers(10, 1 << 30), st.lists(st.tuples(st.floats(0, 2), st.integers(1, 1 << 20)), max_size=40))
def test_no_span_of_time_carries_more_than_the_limit_and_one_burst(rate: int, steps: list[tuple[float, int]]) -> None:
    bucket, now, sent = TokenBucket(rate, 0.0), 0.0, 0
    for pause, wanted in steps:
        now += pause
        size = min(wanted, bucket.allowance(now))
        bucket.take(size)
        sent += size
        assert sent <= rate * (now + 0.1) * (1 + 1e-9) + 1


def test_after_the_told_wait_the_bytes_may_be_sent() -> None:
    bucket = TokenBucket(1000, 0.0)
    bucket.take(bucket.allowance(0.0))
    assert bucket.allowance(0.0) == 0
    wait = bucket.seconds_until(50)
    assert 0.049 < wait < 0.051
    assert bucket.allowance(wait + 0.001) >= 50


def test_more_than_a_burst_is_waited_for_as_a_burst() -> None:
    bucket = TokenBucket(1000, 0.0)
    assert bucket.seconds_until(1_000_000) == 0
    bucket.take(100)
    assert abs(bucket.seconds_until(1_000_000) - 0.1) < 1e-9


def test_the_rate_is_that_of_the_last_whole_second() -> None:
    rate = TransferRate(0.0)
    assert rate.bytes_per_second(500, 0.5) == 0
    assert rate.bytes_per_second(1000, 1.0) == 1000
    assert rate.bytes_per_second(5000, 1.5) == 1000
    assert rate.bytes_per_second(5000, 3.0) == 2000
    assert rate.bytes_per_second(5000, 4.0) == 0
