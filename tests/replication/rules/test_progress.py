"""Tests of how far slaves are, and what enough of them hold."""

from hypothesis import given
from hypothesis import strategies as st

from hanabi.replication.rules.progress import AckMark, SlaveProgress, acked_by, in_sync_slaves

ACKS = st.lists(st.integers(0, 1000), max_size=6)


def slave(held: int, *, acked: int = 0) -> SlaveProgress:
    return SlaveProgress(
        address="192.0.2.1:5", reported=held, held=held, sent=held, heard_at=0, caught_up_at=0, acked=acked
    )


def test_a_first_report_counts_for_lag_and_not_as_an_acknowledgement() -> None:
    one = slave(100)
    assert one.lag_bytes(150) == 50
    assert acked_by([one], 1) == 0
    one.acknowledge(100, end=150, now=1)
    assert acked_by([one], 1) == 100


def test_an_empty_slave_that_repeats_zero_keeps_the_position_it_was_given() -> None:
    empty = SlaveProgress(address="a", reported=0, held=4000, sent=4000, heard_at=0, caught_up_at=0)
    empty.acknowledge(0, end=4500, now=3)
    assert (empty.held, empty.acked, empty.heard_at) == (4000, 0, 3)


def test_lag_in_seconds_counts_from_the_last_moment_with_everything() -> None:
    one = slave(0)
    one.acknowledge(10, end=10, now=5)
    assert one.lag_seconds(10, now=9) == 0
    assert one.lag_seconds(11, now=9) == 4
    one.acknowledge(11, end=20, now=12)
    assert one.lag_seconds(20, now=13) == 8
    one.acknowledge(20, end=20, now=14)
    assert one.lag_seconds(20, now=15) == 0


def test_a_slave_is_in_sync_below_the_gap_and_not_at_it() -> None:
    far, near = slave(100), slave(101)
    assert in_sync_slaves([far, near], 200, 100) == [near]


@given(ACKS, st.integers(1, 7))
def test_so_many_slaves_have_acknowledged_the_mark_and_fewer_anything_above(acks: list[int], count: int) -> None:
    slaves = [slave(0, acked=ack) for ack in acks]
    mark = acked_by(slaves, count)
    assert sum(ack >= mark for ack in acks) >= count or mark == 0
    assert sum(ack > mark for ack in acks) < count


def test_the_mark_never_falls() -> None:
    fast, slow = slave(0, acked=50), slave(0, acked=20)
    mark = AckMark(1)
    assert mark.advance([fast, slow])
    assert not mark.advance([slow])
    assert mark.offset == 50
    both = AckMark(2)
    assert both.advance([fast, slow])
    assert both.offset == 20
    assert not both.advance([fast])
