"""Counted steps are the same each time, and grow with the work."""

from tests.steps import steps


def walk(count: int) -> list[int]:
    return [number for number in range(count) if number % 2]


def test_the_same_work_takes_the_same_steps() -> None:
    assert steps(lambda: walk(100)) == steps(lambda: walk(100))


def test_a_walk_through_more_takes_more_steps() -> None:
    assert steps(lambda: walk(1_000)) > 5 * steps(lambda: walk(100))
