"""Tests of what a put of a SYNC_MASTER waits for: HA.md's tables of 4.9 and 5.x, line by line."""

import pytest

from hanabi.replication.rules.put_rules import (
    Group,
    PutRule,
    Standing,
    acknowledgements_needed,
    joint_status,
    status_at_once,
    why_refused,
)
from hanabi.store.message_store import PutStatus

OK, NO_SLAVE = PutStatus.PUT_OK, PutStatus.SLAVE_NOT_AVAILABLE


def rule(group: Group = Group.PLAIN, **settings: object) -> PutRule:
    return PutRule(is_sync=True, group=group, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("standing", [Standing(0, 0), Standing(2, 2)])
def test_an_async_master_waits_for_nothing(standing: Standing) -> None:
    assert status_at_once(PutRule(is_sync=False, in_sync_replicas=3), standing) is OK
    assert why_refused(PutRule(is_sync=False, group=Group.CONTROLLER, min_in_sync_replicas=2), standing) is None


@pytest.mark.parametrize(
    ("standing", "status"),
    [(Standing(0, 0), NO_SLAVE), (Standing(1, 0), NO_SLAVE), (Standing(1, 1), None), (Standing(3, 1), None)],
)
def test_sync_master_alone_needs_one_slave_that_is_not_too_far_behind(
    standing: Standing, status: PutStatus | None
) -> None:
    assert status_at_once(rule(), standing) is status
    assert acknowledgements_needed(rule(), standing) == 1
    assert why_refused(rule(), standing) is None


@pytest.mark.parametrize(("replicas", "needed"), [(1, 0), (2, 1), (3, 2)])
@pytest.mark.parametrize("standing", [Standing(0, 0), Standing(2, 2)])
def test_in_sync_replicas_count_the_master_and_never_answer_11(replicas: int, needed: int, standing: Standing) -> None:
    plain = rule(in_sync_replicas=replicas)
    assert acknowledgements_needed(plain, standing) == needed
    assert status_at_once(plain, standing) is (None if needed else OK)
    assert why_refused(plain, standing) is None


@pytest.mark.parametrize(
    ("is_auto", "minimum", "standing", "needed", "refused"),
    [
        (False, 1, Standing(1, 1), 1, False),
        (False, 1, Standing(0, 0), 1, True),
        (False, 1, Standing(1, 1, alive=1), 1, True),  # connected, but its broker is not alive
        (True, 1, Standing(0, 0), 0, False),
        (True, 1, Standing(1, 1), 1, False),
        (True, 2, Standing(0, 0), 1, True),
    ],
)
def test_an_acting_group_refuses_before_the_append(
    is_auto: bool, minimum: int, standing: Standing, needed: int, refused: bool
) -> None:
    acting = rule(Group.ACTING_MASTER, in_sync_replicas=2, is_auto=is_auto, min_in_sync_replicas=minimum)
    assert acknowledgements_needed(acting, standing) == needed
    assert (why_refused(acting, standing) is not None) == refused


@pytest.mark.parametrize(
    ("is_all", "standing", "needed", "refused"),
    [
        (False, Standing(2, 2), 1, False),
        (True, Standing(2, 2), 2, False),
        (True, Standing(1, 1), 1, False),
        (False, Standing(0, 0), 1, True),
        (True, Standing(3, 0), 0, True),
    ],
)
def test_a_controllers_set_must_be_large_enough_and_may_all_have_to_acknowledge(
    is_all: bool, standing: Standing, needed: int, refused: bool
) -> None:
    safe = rule(Group.CONTROLLER, in_sync_replicas=2, min_in_sync_replicas=2, is_all=is_all)
    assert acknowledgements_needed(safe, standing) == needed
    text = why_refused(safe, standing)
    assert (text is not None) == refused
    assert text is None or text.endswith("replicas are in sync")


@pytest.mark.parametrize(
    ("flushed", "replicated", "told"),
    [
        (OK, OK, OK),
        (PutStatus.FLUSH_DISK_TIMEOUT, OK, PutStatus.FLUSH_DISK_TIMEOUT),
        (OK, PutStatus.FLUSH_SLAVE_TIMEOUT, PutStatus.FLUSH_SLAVE_TIMEOUT),
        (PutStatus.FLUSH_DISK_TIMEOUT, NO_SLAVE, NO_SLAVE),
    ],
)
def test_the_status_of_the_slaves_wins(flushed: PutStatus, replicated: PutStatus, told: PutStatus) -> None:
    assert joint_status(flushed, replicated) is told
