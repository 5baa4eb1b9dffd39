"""Changes of the state: a decision is made on the stored state and written back, or made again if that has changed.

Decisions are in `rules`; this module knows the store, the living brokers and the time.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from hanabi.controller.config import Settings
from hanabi.controller.rules.election import elect
from hanabi.controller.rules.liveness import Liveness
from hanabi.controller.rules.state import NO_ID, Alive, Answer, BrokerSet, Decision, refused
from hanabi.controller.storage.store import ABSENT, StateStore
from hanabi.errors import ControllerNotLeader, SystemBusy
from hanabi.wire.codes import ResponseCode
from hanabi.wire.headers.v5.controller import ElectMasterHeader

TRIES: Final = 5  # more than one change between a read and a write means that another controller leads

Rule = Callable[[BrokerSet | None, Alive], Decision]

logger = logging.getLogger(__name__)


class Changes:
    """Decisions of the leader, one at a time."""

    def __init__(self, store: StateStore, liveness: Liveness, settings: Settings, now_ms: Callable[[], int]) -> None:
        self.store, self.liveness = store, liveness
        self._settings, self._now_ms = settings, now_ms
        self._one_at_a_time = asyncio.Lock()
        self._listening_since_ms = now_ms()

    def alive(self, state: BrokerSet) -> Alive:
        """Return the living brokers of one name."""
        return self.liveness.alive(state.cluster, state.name, self._now_ms())

    @property
    def has_listened(self) -> bool:
        """Return True once every living broker had time for a heartbeat since our start."""
        return self._now_ms() - self._listening_since_ms >= self._settings.current.election_wait_millis

    def check_leads(self) -> None:
        """Raise ControllerNotLeader unless this controller leads; the text names the leader."""
        if not self.store.leads:
            leader = self.store.leader
            where = f"ask {leader.address}" if leader is not None else "no controller leads now, retry"
            raise ControllerNotLeader(f"The controller is not in leader state: {where}")

    async def read(self, name: str, rule: Rule) -> Answer:
        """Answer a query."""
        self.check_leads()
        stored = await self.store.read(name)
        return self._decided(stored.state if stored is not None else None, rule).answer

    async def change(self, name: str, rule: Rule) -> Decision:
        """Decide, and write the outcome before it is returned."""
        async with self._one_at_a_time:
            for _ in range(TRIES):
                self.check_leads()
                stored = await self.store.read(name)
                before, revision = stored if stored is not None else (None, ABSENT)
                decision = self._decided(before, rule)
                if decision.state is before or await self.store.write(name, revision, decision.state):
                    return decision
        raise SystemBusy(f"the state of {name} changed {TRIES} times while this was decided: retry")

    def _decided(self, state: BrokerSet | None, rule: Rule) -> Decision:
        return rule(state, self.alive(state) if state is not None else {})

    async def elect(self, asked: ElectMasterHeader) -> Decision:
        """Elect a master, unless that is too early after our start: its heartbeat may be under way."""
        unclean = self._settings.current.enable_elect_unclean_master

        def rule(state: BrokerSet | None, alive: Alive) -> Decision:
            if state is not None and not self.has_listened and _may_be_early(state, asked, alive):
                return _too_early(state)
            return elect(state, asked, alive, unclean=unclean)

        return await self.change(asked.broker_name, rule)

    async def elect_successor(self, state: BrokerSet) -> Decision:
        """Elect a master because the last one is gone."""
        return await self.elect(ElectMasterHeader(cluster_name=state.cluster, broker_name=state.name, broker_id=NO_ID))


def _may_be_early(state: BrokerSet, asked: ElectMasterHeader, alive: Alive) -> bool:
    return state.master_epoch > 0 and not asked.designate_elect and state.master_id not in alive


def _too_early(state: BrokerSet) -> Decision:
    return refused(
        state,
        ResponseCode.CONTROLLER_ELECT_MASTER_FAILED,
        f"this controller has just started and may not have heard of the master of {state.name} yet: retry",
    )
