"""The soak of the client library in short, and that it would notice: `python -m tests.soak.client` is the long one."""

import pytest

from tests.soak.client import soak
from tests.soak.vitals import SLACK, Vitals, growth

STEADY = Vitals(resident_kib=40_000, objects=30_000, descriptors=18, tasks=20, threads=7)


def plus(reading: Vitals, name: str, more: int) -> Vitals:
    return reading._replace(**{name: getattr(reading, name) + more})


def test_the_client_does_not_grow_and_loses_nothing_while_members_and_servers_come_and_go(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = soak(rounds=6, round_s=1.2, restart_every=4, rate=300)
    with capsys.disabled():
        print(f"\n{run.summary()}")  # noqa: T201
    assert run.restarts >= 1
    assert run.visits >= 50
    assert run.faults() == []


@pytest.mark.parametrize("name", Vitals._fields)
def test_what_grows_a_little_each_round_is_noticed_and_what_swings_is_not(name: str) -> None:
    allowed = getattr(SLACK, name)
    swinging = [plus(STEADY, name, (index % 2) * allowed) for index in range(40)]
    growing = [plus(STEADY, name, index * (allowed // 10 + 1)) for index in range(40)]
    assert growth(swinging) == []
    (sentence,) = growth(growing)
    assert sentence.startswith(f"{name} grew from ")


def test_what_is_taken_at_the_start_and_then_kept_is_no_growth() -> None:
    readings = [plus(STEADY, "resident_kib", min(index, 5) * 10_000) for index in range(40)]
    assert growth(readings) == []
