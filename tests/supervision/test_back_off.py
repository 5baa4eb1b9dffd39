"""Pauses between the starts of a process."""

from hanabi.supervision.back_off import FIRST_SECONDS, LONGEST_SECONDS, STEADY_SECONDS, failures_after, pause_seconds


def test_the_pause_doubles_with_each_failure_in_a_row_and_is_bounded() -> None:
    pauses = [pause_seconds(failures) for failures in range(1, 12)]
    assert pauses[:4] == [FIRST_SECONDS, 2 * FIRST_SECONDS, 4 * FIRST_SECONDS, 8 * FIRST_SECONDS]
    assert pauses[-1] == pause_seconds(10_000) == LONGEST_SECONDS
    assert pauses == sorted(pauses)


def test_a_long_life_ends_the_row_of_failures() -> None:
    assert failures_after(7, STEADY_SECONDS) == 1
    assert failures_after(7, STEADY_SECONDS - 0.1) == 8
