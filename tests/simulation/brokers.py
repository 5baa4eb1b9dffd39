"""A simulated broker in controller mode: the real parts that decide and replicate, over a log in memory.

Real: ControllerSide, ControllerRequests, LogRoles, InSyncAcks, AutoSwitchMaster and its senders, Slave and its
followers. Simulated: the files, the sockets, the clock, and the delivery of messages to consumers.
"""

import asyncio
import contextvars
import random
from typing import Any, cast

from hanabi.broker.config import BrokerConfig
from hanabi.broker.replica.controller_requests import ControllerRequests
from hanabi.broker.replica.controller_side import ControllerSide
from hanabi.broker.settings import Settings
from hanabi.remoting.transport.connector import Connector
from hanabi.replication.autoswitch.follower import AutoSwitchFollower, Replica
from hanabi.replication.autoswitch.log_roles import LogRoles
from hanabi.replication.autoswitch.master import AutoSwitchMaster
from hanabi.replication.autoswitch.wire import Hello
from hanabi.replication.rules.role_news import RoleNews
from hanabi.replication.rules.sync_set import SyncSet
from hanabi.replication.slave import Slave
from hanabi.store.config import StoreConfig
from hanabi.store.message_store import PutStatus
from hanabi.store.read.queue_reader import NO_LIMIT
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import Command
from hanabi.wire.header import Header
from tests.simulation import controllers
from tests.simulation.checks import Checks
from tests.simulation.controllers import SimController
from tests.simulation.logs import Log, MemoryEpochs, MemoryIdentity
from tests.simulation.network import Network
from tests.simulation.virtual_loop import listener

CLUSTER, NAME = "c", "broker-a"
HA_PORT, PORT = 10_912, 10_911
FLUSH_SECONDS = 0.5

HOST: contextvars.ContextVar[str] = contextvars.ContextVar("host")


class Life:
    """One life of a broker's process; the controller takes it for its connection."""

    def __init__(self, peer: str) -> None:
        self.peer = peer


class _Requests:
    """A connector that knows one peer: the controller."""

    def __init__(self, broker: "SimBroker", network: Network, controller: SimController) -> None:
        self._broker, self._network, self._controller = broker, network, controller

    async def request(
        self,
        address: str,
        code: RequestCode,
        header: Header,
        body: bytes = b"",
        *,
        timeout: float = 3.0,  # noqa: ASYNC109 - as the connector
    ) -> Command:
        connection, controller = self._broker.connection, self._controller

        def execute() -> Any:
            return controller.handle(code, header, body, connection)

        return cast(Command, await self._network.call(self._broker.host, controllers.HOST, execute, timeout))

    async def send_oneway(
        self,
        address: str,
        code: RequestCode,
        header: Header,
        *,
        timeout: float,  # noqa: ASYNC109 - as the connector
    ) -> None:
        asyncio.create_task(self._quietly(code, header))  # noqa: RUF006 - ends in a second

    async def _quietly(self, code: RequestCode, header: Header) -> None:
        connection = self._broker.connection
        try:
            if self._broker.is_up and self._broker.connection is connection:
                await self.request("", code, header, timeout=1.0)
        except Exception:  # noqa: BLE001 - a one-way request that is lost
            return


class SimBroker:
    """One broker. Its files outlive a crash; `connection` stands for one life of its process."""

    def __init__(
        self,
        number: int,
        config: BrokerConfig,
        network: Network,
        controller: SimController,
        checks: Checks,
        rng: random.Random,
    ) -> None:
        self.number, self.host = number, f"10.0.0.{number}"
        self._config, self._network, self._controller, self.checks = config, network, controller, checks
        self._random = rng
        self.log, self.epochs = Log(), MemoryEpochs()
        self._identity = MemoryIdentity(CLUSTER, NAME)
        self.is_up = False
        self.is_lossy = False  # it has lost the end of its log and has no role since
        self.connection: object = None
        self.drift = 1.0

    @property
    def broker_id(self) -> int:
        return self._identity.identity.broker_id if self._identity.identity is not None else -1

    @property
    def is_serving(self) -> bool:
        return self.is_up and not self.is_copy

    # Its life

    def start(self) -> None:
        self.is_up, self.is_copy, self.limit = True, True, 0
        self.connection = Life(self.host)
        self.checks.started(self)
        contextvars.copy_context().run(self._start)

    def _start(self) -> None:
        HOST.set(self.host)
        config, loop = self._config, asyncio.get_running_loop()

        def now() -> float:
            return loop.time() * self.drift

        rule = config.put_rule(is_sync=True)
        self.master = AutoSwitchMaster(self.log, config, rule, self.epochs, now=now, on_confirmed=self.use_limit)
        self.slave = Slave(self.log, config, now=now, new_follower=lambda: self._new_follower(now))
        self._roles = LogRoles(self.log, self.master, self.slave)
        self._roles.begin()
        connector = cast(Connector, _Requests(self, self._network, self._controller))
        self.side = ControllerSide(
            ControllerRequests(connector, [controllers.ADDRESS], CLUSTER, NAME),
            self._identity,
            Settings(config, StoreConfig(root="/nonexistent")),
            self,
            self.master.in_sync,
            self.epochs,
            address=f"{self.host}:{PORT}",
            end_offset=lambda: self.log.end_offset,
            now=now,
        )
        self.master.on_progress = self.side.progress
        self.slave.start()
        self._tasks = [asyncio.create_task(self.side.run()), asyncio.create_task(self._keep_flushing())]
        self._tasks.append(asyncio.create_task(self._listen()))
        for task in self._tasks:
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.checks.broken(f"{self.number} fails: {error!r} {getattr(error, 'exceptions', '')}")

    async def _listen(self) -> None:
        await self.master.start_on(listener(self.host, HA_PORT))

    def _new_follower(self, now: Any) -> AutoSwitchFollower:
        hello = Hello(False, self._config.async_learner, self.broker_id)
        replica = Replica(hello, self.epochs, self._was_cut, self.use_limit)
        return AutoSwitchFollower(self.log, self._config, replica, now)

    async def _keep_flushing(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            self.log.flush()

    def crash(self, *, is_noticed: bool, is_lossy: bool) -> None:
        """End the process at once; with *is_lossy* a part of what was not flushed is gone."""
        self.is_up = False
        self._network.host_crashed(self.host, is_noticed=is_noticed)
        if is_noticed:
            connection = self.connection
            asyncio.get_running_loop().call_later(self._network.delay(), self._controller.closed, connection)
        self.slave.follow(None)
        for task in self._tasks:
            task.cancel()
        asyncio.create_task(self.slave.stop())  # noqa: RUF006 - at once
        for sender_end in (self.master.close_connections, self.master.loaders.shutdown):
            sender_end()
        if is_lossy:
            self.is_lossy = True
            kept = self._random.randint(self.log.flushed, self.log.end_offset)
            del self.log.data[kept:]
            self.log.cut_partial_record()
            self.log.flushed = min(self.log.flushed, self.log.end_offset)

    # The roles, as `RoleSwitch` changes them

    async def become_master(self, broker_id: int, epoch: int, sync_set: SyncSet) -> None:
        self._roles.take_over(epoch)
        await asyncio.sleep(self._network.delay())
        self.use_limit(NO_LIMIT)
        self._roles.serve(broker_id, sync_set)
        self.is_copy, self.is_lossy = False, False
        self.fence(None)
        self.checks.took_over(self)
        self.checks.note(f"{self.number} is master of epoch {epoch} from {self.log.end_offset}, {sync_set}")

    async def become_slave(self, broker_id: int, epoch: int, master_address: str) -> None:
        self.is_copy = True
        self.fence(None)
        confirmed = min(self.limit, self.log.end_offset)
        self._roles.step_down()
        self.use_limit(confirmed)
        await asyncio.sleep(self._network.delay())
        self.is_lossy = False
        host = master_address.partition(":")[0]
        self.slave.follow(f"{host}:{HA_PORT}")
        self.checks.note(f"{self.number} follows {host} in epoch {epoch}, {confirmed} is confirmed")

    def fence(self, reason: str | None) -> None:
        self.master.in_sync.fence = reason
        if reason is not None:
            self.checks.note(f"{self.number} is fenced")

    def notified(self, news: RoleNews) -> None:
        if self.is_up:
            self.side.notified(news)

    # Messages

    def put(self, record: bytes) -> None:
        """Store a record as a broker does: refused, or answered when the replicas have it."""
        acks = self.master.in_sync
        if self.is_copy or acks.why_refused(self.log.end_offset) is not None:
            return
        epoch, life = self.epochs.last, self.connection
        end = self.log.append(record)
        self.checks.stored(self, record, end)
        self.master.appended()

        def done(status: PutStatus) -> None:
            if status is PutStatus.PUT_OK and self.is_up and self.connection is life:
                self.checks.acknowledged(self, record, end, epoch)

        acks.wait(end, done)

    def use_limit(self, offset: int) -> None:
        """Let readers see the log up to *offset*."""
        if self.is_up:
            self.limit = offset
            self.checks.readable(self)

    def _was_cut(self) -> None:
        self.limit = min(self.limit, self.log.end_offset)
        self.checks.note(f"{self.number} is cut to {self.log.end_offset}")
        self.checks.readable(self)
