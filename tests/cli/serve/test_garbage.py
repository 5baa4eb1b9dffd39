"""Full garbage collections stop a server when it is idle, and not when clients wait."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from hanabi.cli.serve.garbage import FULL_AT, FULL_FROM, IDLE_PART, collect_when_idle, is_due
from hanabi.testing.waiting import eventually


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """Yield the generations that are collected while a test runs."""
    seen: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            seen.append(info["generation"])

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)


@pytest.mark.parametrize(
    ("middle", "computed_part", "expected"),
    [
        (0, 0.0, False),
        (FULL_FROM - 1, 0.0, False),
        (FULL_FROM, 0.0, True),
        (FULL_FROM, IDLE_PART + 0.01, False),
        (FULL_AT - 1, 1.0, False),
        (FULL_AT, 1.0, True),
    ],
)
def test_a_busy_server_puts_it_off_as_long_as_it_can(middle: int, computed_part: float, expected: bool) -> None:
    assert is_due(middle, computed_part) is expected


async def test_many_objects_that_stay_cause_no_full_collection_while_the_loop_is_busy(collections: list[int]) -> None:
    collecting = asyncio.create_task(collect_when_idle())
    await asyncio.sleep(0)
    collections.clear()
    kept = [[number] for number in range(300_000)]
    assert max(collections) == 1
    assert len(kept) == 300_000
    collecting.cancel()
    await asyncio.wait((collecting,))


async def test_an_idle_server_runs_one_when_it_is_due(collections: list[int]) -> None:
    collecting = asyncio.create_task(collect_when_idle(look_seconds=0.01))
    await asyncio.sleep(0)
    collections.clear()
    kept = [[number] for number in range(100_000)]
    await eventually(lambda: 2 in collections)
    assert len(kept) == 100_000
    collecting.cancel()
    await asyncio.wait((collecting,))


async def test_at_the_end_everything_is_as_before() -> None:
    before = gc.get_threshold()
    collecting = asyncio.create_task(collect_when_idle())
    await asyncio.sleep(0)
    assert gc.get_freeze_count() > 0
    collecting.cancel()
    await asyncio.wait((collecting,))
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)
