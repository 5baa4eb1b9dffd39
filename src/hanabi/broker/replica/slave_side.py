"""Part of a broker whose role is SLAVE: it follows its master's log and copies its master's tables.

    registration ─> the master's addresses ─> Slave (log, by the port for slaves)
                                           └> MetadataSync (topics, groups, offsets..., by the port for clients)

A lost master does not change the followed log address: it may come back there. Its tables are not asked for while the
name servers know no master. `haMasterAddress` sets the log address for good. Agrees with BrokerController and
SlaveSynchronize (4.9.8).
"""

import logging
from collections.abc import Callable

from hanabi.broker.replica.copied_tables import CopiedTables
from hanabi.broker.replica.master_addresses import MasterAddress, MasterAddresses
from hanabi.broker.replica.master_side import client_config
from hanabi.broker.settings import Settings
from hanabi.errors import ConfigError
from hanabi.remoting.address import parse_address
from hanabi.remoting.transport.connector import Connector, Signs
from hanabi.remoting.transport.tls import TlsConfig, client_context
from hanabi.replication.follower import Follower
from hanabi.replication.ha_status import slave_status
from hanabi.replication.log_access import StoreLog
from hanabi.replication.metadata import MetadataSync
from hanabi.replication.slave import Slave
from hanabi.store.message_store import MessageStore
from hanabi.wire.bodies.ha_status import HAStatus

logger = logging.getLogger(__name__)


class SlaveSide:
    """One slave. `start` it, `run` the copying of tables until cancelled, then `stop`."""

    def __init__(
        self,
        store: MessageStore,
        tables: CopiedTables,
        settings: Settings,
        *,
        own_address: str,
        tls: TlsConfig | None,
        signs: Signs | None = None,
        on_lost: Callable[[], None],
        new_follower: Callable[[], Follower] | None = None,
    ) -> None:
        """*own_address* is ours for clients; *signs* proves our identity to the master; *on_lost* is called when the
        connection to the master ends; *new_follower* makes connections of controller mode."""
        broker = settings.broker
        ha_tls = client_context(client_config(tls)) if broker.ha_tls_enabled else None
        self._fixed_address, self._own_address, self._broker_id = (
            broker.ha_master_address,
            own_address,
            broker.broker_id,
        )
        self._connector = Connector(tls=tls, signs=signs)
        self.tables = tables
        self.slave = Slave(StoreLog(store), broker, tls=ha_tls, on_lost=on_lost, new_follower=new_follower)
        self.sync = MetadataSync(self._connector, tables)
        store.on_new_queue(self._queue_began)
        self.masters = MasterAddresses(broker.namesrv_addresses, self._use)

    def start(self) -> None:
        """Follow the master's log as soon as its address is known."""
        if self._fixed_address:
            self.slave.follow(self._fixed_address)
        self.slave.start()

    async def run(self) -> None:
        """Copy the master's tables, until cancelled."""
        await self.sync.run()

    async def stop(self) -> None:
        """Leave the master."""
        await self.slave.stop()
        await self._connector.close()

    def told_master(self, ha_address: str, peer: str) -> None:
        """Follow the master that *peer* says is at *ha_address*, unless a master is followed now: it returns, and is
        not registered yet."""
        if self._fixed_address or self.is_connected:
            return
        try:
            self.slave.follow(ha_address)
        except ValueError as error:
            logger.warning("%s gives a wrong address of the master: %s", peer, error)
        else:
            logger.info("%s says that the master is back at %s", peer, ha_address)

    @property
    def is_connected(self) -> bool:
        """Return whether the master's log is followed now."""
        return self.slave.state().is_connected

    def summary(self) -> str:
        """Return the role and the followed master in a few words."""
        master = self.slave.state().master_address
        return (
            f"slave {self._broker_id} of {master}" if master is not None else f"slave {self._broker_id}, no master yet"
        )

    def status(self, now_ms: int) -> HAStatus:
        """Return the answer to GET_BROKER_HA_STATUS."""
        return slave_status(self.slave.state(), now_ms)

    def _queue_began(self, topic: str, is_again: bool) -> None:
        """Copy the tables soon, as a topic is new. Offsets of a deleted one would skip messages of its successor."""
        if is_again:
            self.tables.forget_offsets(topic)
        self.sync.hurry()

    def _use(self, master: MasterAddress | None) -> None:
        """Follow another master, or, if there is none, copy no tables."""
        if master is None or master.for_clients == self._own_address:
            logger.warning("the name servers know no master of this slave: its tables are not copied until they do")
            self.sync.follow(None)
            return
        logger.info("the master is %s, for slaves %s", master.for_clients, master.for_slaves)
        try:
            parse_address(master.for_clients)
            if not self._fixed_address:
                self.slave.follow(master.for_slaves)
        except ValueError as error:
            logger.warning("a name server gives a wrong address of the master: %s", error)
            return
        self.sync.follow(master.for_clients)


def check_master_address(address: str) -> None:
    """Raise ConfigError if haMasterAddress is no address."""
    try:
        if address:
            parse_address(address)
    except ValueError as error:
        raise ConfigError(f"haMasterAddress: {error}") from error
