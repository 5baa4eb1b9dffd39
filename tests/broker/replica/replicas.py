"""A controller, a name server and brokers of one name in controller mode, in one process."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.broker.replica.controller_side import ControllerSide
from hanabi.controller.config import ControllerConfig
from hanabi.controller.controller import Controller
from hanabi.remoting.address import format_address
from hanabi.replication.autoswitch.acks import InSyncAcks
from hanabi.testing.cluster import HOST, running_broker
from hanabi.testing.waiting import eventually
from tests.broker.replica.pairs import NAME, running_name_server

SAFE: dict[str, Any] = {"all_ack_in_sync_state_set": True, "min_in_sync_replicas": 2, "in_sync_replicas": 2}


@dataclass
class Replicas:
    """Brokers that run, by their ids."""

    home: Path
    namesrv: str
    controller: str
    brokers: dict[int, Broker] = field(default_factory=dict)
    stacks: dict[int, AsyncExitStack] = field(default_factory=dict)

    @property
    def master(self) -> Broker:
        """The only one that takes messages."""
        (found,) = [broker for broker in self.brokers.values() if not broker.settings.is_slave]
        return found

    def slaves(self) -> list[Broker]:
        return [broker for broker in self.brokers.values() if broker.settings.is_slave]

    async def start(self, number: int, **settings: Any) -> Broker:
        """Start the broker in the store *number* and wait until it has a role."""
        stack = self.stacks[number] = AsyncExitStack()
        broker = await stack.enter_async_context(
            running_broker(self.home / f"broker-{number}", self.config(**settings))
        )
        self.brokers[number] = broker
        side = side_of(broker)
        await eventually(side.has_role.is_set, f"broker {number} has a role")
        return broker

    def config(self, **settings: Any) -> BrokerConfig:
        """Return the settings of a broker of this group."""
        chosen = {"broker_name": NAME, "controller_addr": self.controller, "controller_heartbeat_timeout_ms": 3_000}
        return BrokerConfig(namesrv_addr=self.namesrv, controller_mode_enabled=True, **{**chosen, **settings})

    async def stop(self, number: int) -> None:
        del self.brokers[number]
        await self.stacks.pop(number).aclose()

    async def in_sync(self, *members: int) -> None:
        """Wait until the master has this set."""
        await eventually(
            lambda: (
                sum(not broker.settings.is_slave for broker in self.brokers.values()) == 1
                and acks_of(self.master).sync_set.members == set(members)
                and acks_of(self.master).sync_set.asked is None
            ),
            f"replicas in sync: {members}",
        )
        await self.master.registration.settled()

    async def same_logs(self) -> None:
        await eventually(
            lambda: len({broker.store.max_log_offset for broker in self.brokers.values()}) == 1, "logs of one length"
        )


def side_of(broker: Broker) -> ControllerSide:
    assert broker.controller_side is not None
    return broker.controller_side


def acks_of(broker: Broker) -> InSyncAcks:
    assert broker.master_side.switching is not None
    return broker.master_side.switching.in_sync


@asynccontextmanager
async def running_replicas(home: Path, count: int, **settings: Any) -> AsyncIterator[Replicas]:
    config = ControllerConfig(election_wait_millis=0, scan_not_active_broker_interval=200)
    async with running_name_server(home) as namesrv, Controller(config, home / "controller") as controller:
        address = format_address(await controller.start(HOST, 0))
        replicas = Replicas(home, namesrv, address)
        try:
            for number in range(1, count + 1):
                await replicas.start(number, **settings)
            yield replicas
        finally:
            for number in list(replicas.brokers):
                await replicas.stop(number)
