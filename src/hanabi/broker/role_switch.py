"""Changes of a broker's role while it serves, in controller mode.

    to master    leave the master ─> cut a partial record ─> begin the epoch ─> accept messages ─> deliver ─> register
    to slave     refuse messages ─> close slaves' connections ─> stop delivery ─> follow the new master ─> register

A broker starts as a slave of no master: it takes no message and is not registered before it has a role.
"""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from hanabi.broker.background import Background
from hanabi.broker.parts import Services, Tables
from hanabi.broker.registration import Registration
from hanabi.broker.replica.roles import MASTER_ID, BrokerRole
from hanabi.broker.replica.slave_side import SlaveSide
from hanabi.errors import MQError
from hanabi.remoting.address import parse_address
from hanabi.remoting.transport.connector import Connector
from hanabi.replication.autoswitch.epochs import EpochFile
from hanabi.replication.autoswitch.log_roles import LogRoles
from hanabi.replication.autoswitch.master import AutoSwitchMaster
from hanabi.replication.log_access import StoreLog
from hanabi.replication.rules.sync_set import SyncSet
from hanabi.store.message_store import MessageStore
from hanabi.store.read.queue_reader import NO_LIMIT
from hanabi.wire.codes import RequestCode
from hanabi.wire.headers.v5.replication import ExchangeHAInfoHeader, ExchangeHAInfoReplyHeader

logger = logging.getLogger(__name__)

RETRY_SECONDS = 0.5


class Limit:
    """The limit of readers: messages behind it are not confirmed by the replicas."""

    def __init__(self, store: MessageStore, tables: Tables) -> None:
        self._store, self._tables = store, tables

    def use(self, log_offset: int) -> None:
        """Let readers see the messages up to *log_offset*."""
        self._store.reader.confirmed = log_offset
        self._tables.arrivals.confirm(log_offset)


class RoleSwitch:
    """The roles of one broker. `run_as_master` starts the work that only a master does."""

    def __init__(
        self,
        store: MessageStore,
        tables: Tables,
        services: Services,
        master: AutoSwitchMaster,
        slave: SlaveSide,
        registration: Registration,
        connector: Connector,
        limit: Limit,
        *,
        run_as_master: Callable[[Background], None],
        run_registration: Callable[[], None],
    ) -> None:
        self._store, self._tables, self._services = store, tables, services
        self._master, self._slave, self._registration, self._connector = master, slave, registration, connector
        self._limit, self._run_as_master, self._run_registration = limit, run_as_master, run_registration
        self._log_roles = LogRoles(StoreLog(store), master, slave.slave)
        self._work = Background()
        self._is_registered = False
        self._is_master = self._has_pop = False

    @property
    def epochs(self) -> EpochFile:
        return self._master.epochs

    def begin(self) -> None:
        """Drop epochs behind the ends of the log: a crash may have left them. Nothing may be read before there is a
        role."""
        self._log_roles.begin()
        self._limit.use(0)

    async def become_master(self, broker_id: int, epoch: int, sync_set: SyncSet) -> None:
        """Take messages from now on."""
        await self._work.stop()
        self._slave.sync.follow(None)
        store = self._store
        self._log_roles.take_over(epoch)
        store.restore_queue_offsets()
        self._limit.use(NO_LIMIT)
        self._tables.settings.use_role(BrokerRole.SYNC_MASTER, MASTER_ID)
        self._tables.topics.recreate(store.queues_since(self._slave.tables.topics_taken_at))
        await self._continue_queues()
        await asyncio.to_thread(self._services.renew_delivery)
        if not self._has_pop:
            self._has_pop = True
            await asyncio.to_thread(self._services.pop.restore)
        self._services.transactions.begin_again()
        self._log_roles.serve(broker_id, sync_set)
        store.is_copy = False
        self.fence(None)
        self._services.listen()
        self._work = Background()
        self._run_as_master(self._work)
        self._is_master = True
        logger.warning("this broker is the master of epoch %d, from log offset %d on", epoch, store.max_log_offset)
        self._register(MASTER_ID, epoch)

    async def become_slave(self, broker_id: int, epoch: int, master_address: str) -> None:
        """Follow the master at *master_address*."""
        store = self._store
        store.is_copy = True
        self.fence(None)
        confirmed = min(store.reader.confirmed, store.max_log_offset)
        self._log_roles.step_down()
        self._limit.use(confirmed)
        await self._work.stop()
        self._services.stop_listening()
        self._has_pop = True  # nothing is left to restore
        self._services.pop.step_down()
        if self._is_master:
            self._is_master = False
            await self._save_progress()
        self._tables.settings.use_role(BrokerRole.SLAVE, broker_id)
        self._work = Background()
        self._work.run("finding the master's port for slaves", lambda: self._follow(master_address))
        self._work.run("copying the master's tables", self._slave.run)
        self._slave.sync.follow(master_address)
        logger.warning("this broker is a slave of %s, epoch %d", master_address, epoch)
        self._register(broker_id, epoch)

    async def _continue_queues(self) -> None:
        """Let queues without a message in this copy begin where the last master's ended."""
        known = self._tables.queue_ends
        ends = known.of_topics(frozenset(self._tables.topics.names()))
        if ends:
            begun = self._store.begin_queues_at(ends)
            await asyncio.to_thread(self._store.flush)
            logger.info("%d queues without a message in this copy begin where the last master's ended", begun)
        await asyncio.to_thread(known.forget)

    def fence(self, reason: str | None) -> None:
        """Refuse all messages with *reason*; None: take them again."""
        self._store.fence = self._master.in_sync.fence = reason

    async def stop(self) -> None:
        """Stop the work of the role."""
        await self._work.stop()

    async def _save_progress(self) -> None:
        for save in (self._services.delivery.save, self._services.timer.save):
            try:
                await asyncio.to_thread(save)
            except (MQError, OSError) as error:
                logger.error("progress of delivery could not be saved: %s", error)

    async def _follow(self, master_address: str) -> None:
        """Ask the master for its port for slaves, until it answers as a master."""
        while True:
            try:
                reply = await self._connector.request(
                    master_address, RequestCode.EXCHANGE_BROKER_HA_INFO, ExchangeHAInfoHeader()
                )
                address = reply.header(ExchangeHAInfoReplyHeader).master_ha_address
                if address:
                    parse_address(address)
                    self._slave.slave.follow(address)
                    return
            except (MQError, ValueError) as error:
                logger.debug("the master %s does not say where slaves connect: %s", master_address, error)
            await asyncio.sleep(RETRY_SECONDS)

    def _register(self, broker_id: int, epoch: int) -> None:
        self._tables.topics.use_state_version(epoch)
        self._registration.use(msgspec.structs.replace(self._registration.identity, broker_id=broker_id))
        if not self._is_registered:
            self._is_registered = True
            self._run_registration()
