"""Failover under a seeded scheduler: no promise breaks, and each bug that is planted on purpose is found.

A failing seed replays: `World(SEED).run()` prints its history.
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator

import pytest

from hanabi.broker.replica.controller_side import ControllerSide
from hanabi.controller.rules.state import Alive, BrokerSet
from hanabi.replication.autoswitch.acks import InSyncAcks
from hanabi.replication.rules.sync_set import Replica, SyncSet
from tests.simulation.checks import Broken
from tests.simulation.world import World

SEEDS = 2_000 if os.environ.get("HANABI_SLOW_TESTS") else 40
SEEDS_OF_A_BUG = 120  # at most: the first ones find it

Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Keep the brokers' log lines out of the report: they are millions."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.timeout(400 + 5 * SEEDS)
def test_no_promise_breaks_in_any_run() -> None:
    elections = acknowledged = 0
    for seed in range(SEEDS):
        world = World(seed)
        world.run()
        elections += world.elections
        acknowledged += len(world.checks.acked)
    assert elections > SEEDS
    assert acknowledged > 100 * SEEDS


def test_a_seed_replays_the_same_history() -> None:
    first, again = World(7, seconds=20), World(7, seconds=20)
    first.run()
    again.run()
    assert list(first.checks.history) == list(again.checks.history)
    assert first.steps == again.steps


def shrink_at_once(patch: pytest.MonkeyPatch) -> None:
    """Use the asked set before the controller has agreed."""
    patch.setattr(SyncSet, "required", property(lambda self: self.asked or self.members))


def one_is_enough(patch: pytest.MonkeyPatch) -> None:
    """Acknowledge what one replica of the set has."""

    def fastest(required: Iterable[int], replicas: Iterable[Replica], *, master_id: int) -> int | None:
        slaves = {each for each in required if each != master_id}
        acked = {replica.broker_id: replica.acked for replica in replicas}
        return max(acked.get(each, 0) for each in slaves) if slaves else None

    patch.setattr("hanabi.replication.autoswitch.acks.acknowledged_by_all", fastest)


def keep_the_tail(patch: pytest.MonkeyPatch) -> None:
    """Follow a new master without cutting the log."""
    patch.setattr("hanabi.replication.autoswitch.follower.common_end", lambda own, own_end, *_: own_end)


def read_to_the_end(patch: pytest.MonkeyPatch) -> None:
    """Let readers see everything that the master has."""
    patch.setattr(InSyncAcks, "is_limited", property(lambda _: False))


def go_on_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    """Let a broker that has started again keep its place, as Java's controller does."""

    def unchanged(state: BrokerSet, number: int, alive: Alive) -> BrokerSet:
        return state

    patch.setattr("hanabi.controller.rules.registration._restarted", unchanged)


def join_too_early(patch: pytest.MonkeyPatch) -> None:
    """Ask for a replica before it holds what was acknowledged without it."""

    async def at_once(_: ControllerSide, joining: frozenset[int]) -> bool:
        return True

    patch.setattr(ControllerSide, "_hold_everything", at_once)


UNSAFE = ("lacks a part",)  # a replica in sync, of what is confirmed
LOST = ("without the acknowledged", "acknowledged messages are lost", "lacks it")
UNREAD = ("see other messages", "that were read are lost", "bytes and see")
DIVERGED = ("the logs differ", "no recovery", *UNSAFE, *LOST, *UNREAD)


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (shrink_at_once, (*LOST, *UNREAD, *UNSAFE)),
        (one_is_enough, (*LOST, *UNREAD, *UNSAFE)),
        (keep_the_tail, DIVERGED),
        (read_to_the_end, UNREAD),
        (go_on_after_a_restart, (*LOST, *UNREAD, *UNSAFE)),
        (join_too_early, (*LOST, *UNREAD, *UNSAFE)),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_bug_is_found(plant: Plant, found: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    failure = first_failure()
    assert any(text in failure for text in found), failure


def test_an_election_outside_the_set_is_found() -> None:
    failure = first_failure(unclean=True)
    assert any(text in failure for text in (*LOST, *UNREAD)), failure


def first_failure(*, unclean: bool = False) -> str:
    """Return the first line of the first broken promise."""
    for seed in range(SEEDS_OF_A_BUG):
        try:
            World(seed, unclean=unclean).run()
        except Broken as error:
            return str(error).partition("\n")[0]
    return ""
