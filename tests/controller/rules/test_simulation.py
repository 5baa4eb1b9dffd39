"""A seeded simulation of the decisions: lost, repeated and delayed requests, crashes, and a leader with an old view.

The world is a list of requests under way. Each step delivers one of them, loses it, repeats it, or changes which
brokers are alive. Two controllers decide on what they read; the store takes a write only at the revision that was
read. A failing seed replays.
"""

import random
from collections.abc import Callable

import msgspec
import pytest

from hanabi.controller.rules import election, in_sync
from hanabi.controller.rules.ids import apply_id
from hanabi.controller.rules.state import BrokerSet, Decision, Live
from hanabi.wire.bodies.v5.controller import SyncStateSetBody
from hanabi.wire.headers.v5 import controller as headers
from tests.controller.rules.brokers import live

STEPS = 400
REPLICAS = 3

Elect = Callable[[BrokerSet | None, headers.ElectMasterHeader, dict[int, Live]], Decision]
Alter = Callable[[BrokerSet | None, headers.AlterSyncStateSetHeader, SyncStateSetBody, dict[int, Live]], Decision]


class Broken(AssertionError):
    """An invariant does not hold."""


class World:
    """One broker name, its replicas, and two controllers that write to one store."""

    def __init__(self, seed: int, elect: Elect, alter: Alter, *, compares: bool = True) -> None:
        self._random = random.Random(seed)
        self._elect, self._alter, self._compares = elect, alter, compares
        self.state: BrokerSet | None = None
        self._alive = set(range(1, REPLICAS + 1))
        self._views: list[tuple[BrokerSet | None, Callable[[BrokerSet | None], Decision]]] = []
        self._masters: dict[int, int] = {}
        for number in range(1, REPLICAS + 1):
            asked = headers.ApplyBrokerIdHeader(
                cluster_name="c", broker_name="a", applied_broker_id=number, register_check_code=f"h{number}:1;1"
            )
            self.state = apply_id(self.state, asked).state

    def run(self) -> None:
        for _ in range(STEPS):
            self._random.choice((self._crash, self._ask, self._ask, self._write, self._write))()

    def _crash(self) -> None:
        self._alive ^= {self._random.randint(1, REPLICAS)}

    def _ask(self) -> None:
        """A controller reads the state and has a request to decide; it may be slow to write."""
        self._views.append((self.state, self._random.choice((self._an_election, self._a_set))()))

    def _an_election(self) -> Callable[[BrokerSet | None], Decision]:
        number = self._random.choice((-1, *range(1, REPLICAS + 1)))
        asked = headers.ElectMasterHeader(
            cluster_name="c",
            broker_name="a",
            broker_id=number,
            designate_elect=number > 0 and self._random.random() < 0.3,
        )
        alive = self._living()
        return lambda state: self._elect(state, asked, alive)

    def _a_set(self) -> Callable[[BrokerSet | None], Decision]:
        """A master, perhaps one of an older epoch, wants a set that it believes to be in sync."""
        epoch = self._random.choice(list(self._masters) or [1])
        master = self._masters.get(epoch, 1)
        members = {master, *self._random.sample(range(1, REPLICAS + 1), self._random.randint(0, REPLICAS))}
        sync_epoch = (self.state.sync_epoch if self.state else 0) - self._random.choice((0, 0, 1))
        asked = headers.AlterSyncStateSetHeader(broker_name="a", master_broker_id=master, master_epoch=epoch)
        body = SyncStateSetBody(sync_state_set=sorted(members), sync_state_set_epoch=sync_epoch)
        alive = self._living()
        return lambda state: self._alter(state, asked, body, alive)

    def _living(self) -> dict[int, Live]:
        epoch = self.state.master_epoch if self.state else 0
        return {number: live(number, epoch=min(1, epoch)) for number in self._alive}

    def _write(self) -> None:
        """Deliver any request under way, lose it, or deliver it and keep it for a second time."""
        if not self._views:
            return
        view, rule = self._views.pop(self._random.randrange(len(self._views)))
        fate = self._random.random()
        if fate < 0.2:
            return
        if fate < 0.4:
            self._views.append((view, rule))
        decision = rule(view)
        if self._compares and view is not self.state:
            decision = rule(self.state)  # as the controller: read again, decide again
        if decision.state is not view:
            self._check(self.state, decision.state)
            self.state = decision.state

    def _check(self, before: BrokerSet | None, after: BrokerSet | None) -> None:
        assert before is not None
        assert after is not None
        if after.master_epoch < before.master_epoch or after.sync_epoch < before.sync_epoch:
            raise Broken("an epoch falls")
        if after.in_sync != before.in_sync and after.sync_epoch == before.sync_epoch:
            raise Broken("two sets have one epoch")
        if after.master_id is None:
            return
        if self._masters.setdefault(after.master_epoch, after.master_id) != after.master_id:
            raise Broken("two masters have one epoch")
        if after.master_id not in after.in_sync:
            raise Broken("a master is not in its set")
        is_first = before.master_epoch == 0
        if after.master_epoch > before.master_epoch and not is_first and after.master_id not in before.in_sync:
            raise Broken("a master was not in sync")


@pytest.mark.parametrize("start", range(0, 400, 100))
def test_no_invariant_breaks_in_any_run(start: int) -> None:
    for seed in range(start, start + 100):
        World(seed, election.elect, in_sync.alter).run()


def unclean(state: BrokerSet | None, asked: headers.ElectMasterHeader, alive: dict[int, Live]) -> Decision:
    return election.elect(state, asked, alive, unclean=True)


def same_epoch(state: BrokerSet | None, asked: headers.ElectMasterHeader, alive: dict[int, Live]) -> Decision:
    decision = election.elect(state, asked, alive)
    if decision.state is state or decision.state is None or state is None or state.master_epoch == 0:
        return decision
    return Decision(msgspec.structs.replace(decision.state, master_epoch=state.master_epoch), decision.answer)


def set_kept(state: BrokerSet | None, asked: headers.ElectMasterHeader, alive: dict[int, Live]) -> Decision:
    decision = election.elect(state, asked, alive)
    if decision.state is state or decision.state is None or state is None:
        return decision
    return Decision(msgspec.structs.replace(decision.state, in_sync=state.in_sync), decision.answer)


def unfenced(
    state: BrokerSet | None, asked: headers.AlterSyncStateSetHeader, body: SyncStateSetBody, alive: dict[int, Live]
) -> Decision:
    """Accept a set of any master of any epoch."""
    if state is None or not set(body.sync_state_set) <= alive.keys():
        return in_sync.alter(state, asked, body, alive)
    after = msgspec.structs.replace(state, in_sync=frozenset(body.sync_state_set), sync_epoch=state.sync_epoch + 1)
    return Decision(after, in_sync.alter(state, asked, body, alive).answer)


@pytest.mark.parametrize(
    ("elect", "alter", "compares", "found"),
    [
        (unclean, in_sync.alter, True, "a master was not in sync"),
        (same_epoch, in_sync.alter, True, "two masters have one epoch"),
        (set_kept, in_sync.alter, True, "a master is not in its set"),
        (election.elect, unfenced, True, "a master is not in its set"),
        (election.elect, in_sync.alter, False, "epoch"),
    ],
    ids=["unclean election", "epoch not raised", "set kept at an election", "old master not fenced", "no compare"],
)
def test_a_bug_that_is_planted_is_found(elect: Elect, alter: Alter, compares: bool, found: str) -> None:
    broken: list[str] = []
    for seed in range(200):
        try:
            World(seed, elect, alter, compares=compares).run()
        except Broken as error:
            broken.append(str(error))
    assert any(found in each for each in broken), broken[:3]
