"""Part of a broker with `enableSlaveActingMaster`: members of its name, and its role among them.

slave     no master, smallest id ─> StandIn: due messages escape to other masters
master    at its start ─> PreOnline: takes over the work of its slaves before it registers
"""

import time
from collections.abc import Callable, Mapping
from typing import Final

from hanabi.broker.acting.escape import Escape
from hanabi.broker.acting.member_group import MemberGroup
from hanabi.broker.acting.member_rules import Members, acts_as_master
from hanabi.broker.acting.pre_online import Offsets, PreOnline
from hanabi.broker.acting.requests import acting_handlers
from hanabi.broker.acting.stand_in import StandIn
from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.broker.parts import Services
from hanabi.broker.registration import Identity, Registration
from hanabi.broker.replica.master_side import MasterSide
from hanabi.broker.replica.roles import MASTER_ID
from hanabi.broker.replica.slave_side import SlaveSide
from hanabi.broker.settings import Settings
from hanabi.remoting.address import parse_address
from hanabi.remoting.connection.dispatch import Handler
from hanabi.remoting.transport.connector import Connector
from hanabi.wire.bodies.offsets import TimerCheckpoint

GIVE_WAY_SECONDS: Final = 15.0  # for a master to take over our work and register


class ActingSlave:
    """A slave that may act as master. `run` both of its loops until cancelled."""

    def __init__(
        self,
        identity: Identity,
        settings: Settings,
        connector: Connector,
        services: Services,
        slave: SlaveSide,
        registration: Registration,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._identity, self._slave, self._registration = identity, slave, registration
        self._wants_to_act, self._master = False, ""
        self._gives_way_until, self._now = 0.0, now
        self.group = MemberGroup(identity, settings, connector)
        self.group.on_members = self._use
        self.escape = Escape(identity, settings, connector)
        self.stand_in = StandIn(services, self.escape, lambda: self._wants_to_act)

    def handlers(self) -> dict[int, Handler]:
        """Return the handlers of requests about the members."""
        return acting_handlers(self.group.wake, self._give_way)

    async def _give_way(self, ha_address: str, peer: str) -> None:
        """Stop acting, save the progress, and follow the master that returns. It acts again if the master has not
        registered after a while."""
        if self._slave.is_connected:
            return
        self._gives_way_until = self._now() + GIVE_WAY_SECONDS
        self._wants_to_act = False
        await self.stand_in.settle()
        self._slave.told_master(ha_address, peer)

    def _use(self, members: Members) -> None:
        if MASTER_ID in members:
            self._gives_way_until = 0.0
        gives_way = self._now() < self._gives_way_until
        acts = acts_as_master(self._identity.broker_id, self._identity.address, members)
        self._wants_to_act = acts and not gives_way
        master = members.get(MASTER_ID, "")
        if master != self._master:
            self._master = master
            self._registration.ask_again()  # the reply has the address for slaves
        self.stand_in.look()


class ActingMaster:
    """A master whose slaves may act for it."""

    def __init__(
        self,
        identity: Identity,
        settings: Settings,
        connector: Connector,
        services: Services,
        offsets: ConsumerOffsets,
        master_side: MasterSide,
    ) -> None:
        self._services, self._offsets, self._master_side = services, offsets, master_side
        self._timer_done: Final[list[TimerCheckpoint]] = []
        self.group = MemberGroup(identity, settings, connector)
        self.pre_online = PreOnline(
            identity, self.group.ask, connector, self, first_end_offset=master_side.first_end_offset
        )

    def slave_hosts(self) -> set[str]:
        return {parse_address(slave.address)[0] for slave in self._master_side.master.slaves()}

    def take_offsets(self, offsets: Offsets) -> None:
        """Take over larger offsets: groups have consumed on while this master was away."""
        own = self._offsets.view()
        larger = {
            key: {queue: offset for queue, offset in queues.items() if offset > own.get(key, {}).get(queue, -1)}
            for key, queues in offsets.items()
        }
        self._offsets.adopt({key: queues for key, queues in larger.items() if queues})

    async def take_delay_offsets(self, offsets: Mapping[int, int]) -> None:
        await self._services.delivery.take_over(offsets)

    def take_timer_checkpoint(self, checkpoint: TimerCheckpoint) -> None:
        self._timer_done.append(checkpoint)

    def begin(self) -> None:
        """Start delivery from what was taken over. Blocks."""
        self._services.renew_delivery()
        self._services.listen()
        self._services.transactions.begin_again()
        for checkpoint in self._timer_done:
            self._services.timer.take_over(checkpoint.read_ms, checkpoint.master_queue_offset)
