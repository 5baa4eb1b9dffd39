"""A plan of faults follows from its seed, and every fault has its turn."""

import itertools

import pytest

from chaos.plan import LANES, SHAPES, FaultKind, make_plan


def test_the_same_seed_gives_the_same_plan_and_another_seed_another() -> None:
    assert make_plan(7, 300) == make_plan(7, 300)
    assert make_plan(7, 300) != make_plan(8, 300)


def test_a_longer_run_begins_like_a_shorter_one() -> None:
    short, long = make_plan(7, 60), make_plan(7, 600)
    for lane, faults in short.items():
        assert long[lane][: len(faults)] == faults


@pytest.mark.parametrize("seed", range(20))
def test_in_five_minutes_every_kind_of_fault_happens(seed: int) -> None:
    plan = make_plan(seed, 300)
    assert {fault.kind for faults in plan.values() for fault in faults} == set(FaultKind)
    for faults in plan.values():
        for before, after in itertools.pairwise(faults):
            assert after.at_s > before.at_s + before.seconds


def test_every_kind_of_fault_is_in_one_lane_and_has_a_shape() -> None:
    assert sorted(kind for kinds in LANES.values() for kind in kinds) == sorted(FaultKind)
    assert set(SHAPES) == set(FaultKind)


def test_only_the_faults_that_were_asked_for_are_planned() -> None:
    plan = make_plan(7, 300, [FaultKind.BROKER_KILL])
    assert {fault.kind for faults in plan.values() for fault in faults} == {FaultKind.BROKER_KILL}
