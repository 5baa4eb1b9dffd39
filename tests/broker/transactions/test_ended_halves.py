from hypothesis import given
from hypothesis import strategies as st

from hanabi.broker.transactions.ended_halves import READ_AGAIN, REMEMBERED, End, EndedHalves

EARLIER, TOLD_AT, LATER = 100, 200, 300  # places in the log


def test_offsets_go_forward_over_what_has_ended() -> None:
    ended = EndedHalves(0, 0)
    ended.mark_op(0, [0], TOLD_AT)
    ended.mark_op(1, [2], TOLD_AT)
    ended.mark_op(2, [1], TOLD_AT)
    ended.mark_op(3, [5], TOLD_AT)
    ended.skip_ended()
    ended.settle()
    assert (ended.half_offset, ended.op_offset, ended.next_op) == (3, 3, 4)


def test_an_op_message_of_several_is_done_with_when_all_of_them_are() -> None:
    ended = EndedHalves(0, 0)
    ended.mark_op(0, [0, 2], TOLD_AT)
    ended.mark_op(1, [1], TOLD_AT)
    ended.skip_ended()
    assert ended.half_offset == 3
    ended = EndedHalves(0, 0)
    ended.mark_op(0, [0, 2], TOLD_AT)
    ended.skip_ended()
    ended.settle()
    assert (ended.half_offset, ended.op_offset) == (1, 0)
    ended.skip_one()
    ended.skip_ended()
    ended.settle()
    assert (ended.half_offset, ended.op_offset) == (3, 1)


def test_op_messages_that_tell_nothing_or_are_lost_hold_nothing_up() -> None:
    ended = EndedHalves(0, 0)
    ended.mark_op(0, [], TOLD_AT)
    ended.mark_op(1, [0], TOLD_AT)
    ended.mark_op(4, [1], TOLD_AT)  # 2 and 3 are damaged
    ended.skip_ended()
    ended.settle()
    assert (ended.half_offset, ended.op_offset) == (2, 5)


def test_op_messages_that_were_deleted_before_they_were_read_are_passed() -> None:
    ended = EndedHalves(0, 0)
    ended.mark_op(5_000_000, [7], TOLD_AT)
    assert ended.op_offset == 5_000_000


def test_how_a_transaction_ended_is_not_forgotten_when_its_op_message_is_read() -> None:
    ended = EndedHalves(0, 0)
    ended.mark(3, End.ROLLED_BACK, TOLD_AT)
    ended.mark_op(0, [3], TOLD_AT)
    assert ended.end_of(3, EARLIER) is End.ROLLED_BACK
    assert ended.end_of(2, EARLIER) is ended.end_of(4, EARLIER) is ended.end_of(-5, EARLIER) is End.NOT_YET


def test_after_a_restart_the_last_op_messages_are_read_again_to_be_remembered() -> None:
    ended = EndedHalves(1_000_000, 50_000)
    assert ended.next_op == 50_000 - READ_AGAIN
    ended.mark_op(ended.next_op, [999_990], TOLD_AT)
    assert ended.end_of(999_990, EARLIER) is End.SOMEHOW
    assert (ended.half_offset, ended.op_offset) == (1_000_000, 50_000)


def test_what_is_remembered_has_a_limit() -> None:
    ended = EndedHalves(0, 0)
    for offset in range(3 * REMEMBERED):
        ended.mark_op(offset, [offset], TOLD_AT)
    ended.skip_ended()
    ended.settle()
    assert ended.end_of(3 * REMEMBERED - 1, EARLIER) is End.SOMEHOW
    assert ended.end_of(2 * REMEMBERED, EARLIER) is End.SOMEHOW
    assert ended.end_of(REMEMBERED, EARLIER) is End.NOT_YET
    assert len(ended._marks) == REMEMBERED
    ended.mark(5, End.COMMITTED, TOLD_AT)  # too long ago
    assert ended.end_of(5, EARLIER) is End.NOT_YET


@given(
    st.lists(st.lists(st.integers(0, 30), max_size=4), max_size=30),
    st.lists(st.integers(0, 30), max_size=10),
)
def test_it_agrees_with_sets(ops: list[list[int]], dealt_with: list[int]) -> None:
    ended = EndedHalves(0, 0)
    done: set[int] = set()
    for op_offset, halves in enumerate(ops):
        ended.mark_op(op_offset, halves, TOLD_AT)
        done.update(halves)
    for _ in dealt_with:
        ended.skip_ended()
        ended.skip_one()
        done.add(next(offset for offset in range(100) if offset not in done))
    ended.skip_ended()
    ended.settle()
    first = next(offset for offset in range(100) if offset not in done)
    assert ended.half_offset == first
    open_ops = [number for number, halves in enumerate(ops) if any(half >= first for half in halves)]
    assert ended.op_offset == min(open_ops, default=len(ops))


def test_a_mark_is_not_that_of_a_half_message_which_was_stored_after_it() -> None:
    ended = EndedHalves(0, 0)
    ended.mark_op(0, [7], TOLD_AT)
    assert ended.end_of(7, EARLIER) is End.SOMEHOW
    assert ended.end_of(7, LATER) is End.NOT_YET
    ended.mark(7, End.COMMITTED, LATER + 1)
    assert ended.end_of(7, LATER) is End.COMMITTED
