"""Chaos for a pair in its short form. `python -m chaos.pair --minutes 30` is the long form."""

import asyncio
from itertools import islice
from pathlib import Path

import pytest

from chaos.pair.plan import PairFault, faults
from chaos.pair.run import SYNC, PairSettings, run


def test_all_kinds_of_faults_come_before_one_comes_again_and_a_seed_repeats_them() -> None:
    first = list(islice(faults(7), 16))
    assert {each.kind for each in first[:8]} == {each.kind for each in first[8:]} == set(PairFault)
    assert list(islice(faults(7), 16)) == first


@pytest.mark.parametrize("role", [SYNC, "ASYNC_MASTER"])
def test_a_lost_master_takes_nothing_with_it_that_was_acknowledged_for_its_slave_too(role: str, tmp_path: Path) -> None:
    told: list[str] = []
    settings = PairSettings(seed=3, seconds=20.0, role=role, round_s=8.0)
    report = asyncio.run(run(settings, tmp_path, told.append))
    assert report.holds, f"{report}\n" + "\n".join(told)
    assert len(report.rounds) >= 2  # a promoted slave has served
    assert all(each.acknowledged > 100 for each in report.rounds)
