"""Master's part of a broker: the port for slaves, and the settings of replication in force.

    side = MasterSide(store, settings, tls)         before the first put
    port = side.listen(host, port)                  takes the port; slaves wait until `start`
    await side.start()
    await side.stop(seconds)                        slaves first get what they lack, if they can in that time

Every role has it: slaves may follow a slave, as in Apache. The store tells the port of each append.
"""

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Callable
from typing import Final

import msgspec

from hanabi.broker.replica.roles import BrokerRole
from hanabi.broker.settings import Settings
from hanabi.errors import ConfigError
from hanabi.remoting.address import format_address
from hanabi.remoting.transport.tls import ServerTls, TlsConfig
from hanabi.replication.acks import Acknowledgements
from hanabi.replication.autoswitch.epochs import EpochFile
from hanabi.replication.autoswitch.master import AutoSwitchMaster
from hanabi.replication.ha_status import master_status
from hanabi.replication.log_access import StoreLog
from hanabi.replication.master import BACKLOG, Master
from hanabi.replication.rules.put_rules import PutRule
from hanabi.store.message_store import MessageStore
from hanabi.wire.bodies.ha_status import HAStatus

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.01


class MasterSide:
    """The port for slaves of one broker, and their acknowledgements."""

    def __init__(
        self,
        store: MessageStore,
        settings: Settings,
        tls: TlsConfig | None = None,
        *,
        epochs: EpochFile | None = None,
        on_confirmed: Callable[[int], None] = lambda offset: None,
    ) -> None:
        """*epochs* are those of controller mode; *on_confirmed* gets the limit of readers there."""
        self._store, self._settings = store, settings
        self.first_end_offset: Final = store.max_log_offset  # the end of the log when the broker started
        context = server_context(tls) if settings.broker.ha_tls_enabled else None
        self.switching: AutoSwitchMaster | None = None  # in controller mode
        parts = StoreLog(store), settings.broker, self._rule()
        if epochs is not None:
            self.switching = AutoSwitchMaster(*parts, epochs, tls=context, on_confirmed=on_confirmed)
        self.master: Master = self.switching or Master(*parts, tls=context)
        self._listener: socket.socket | None = None
        store.on_growth = self.master.appended
        settings.on_change.append(self._use_settings)

    @property
    def acks(self) -> Acknowledgements:
        """The slaves' acknowledgements, which puts wait for."""
        return self.master.acks

    def listen(self, host: str, port: int) -> int:
        """Take the port for slaves and return its number; 0 means any. Raise ConfigError if it cannot be had."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
        except OSError as error:
            where = format_address((host, port))
            raise ConfigError(
                f"cannot listen on {where}: {error.strerror or error} (the port for slaves: haListenPort, or listenPort"
                " + 1 if that is not set)"
            ) from error
        bound: int = self._listener.getsockname()[1]
        return bound

    async def start(self) -> None:
        """Accept slaves."""
        if self._listener is not None:
            await self.master.start_on(self._listener)

    async def stop(self, seconds: float) -> None:
        """Wait until the slaves hold the log, for at most *seconds*, and close the port."""
        deadline = time.monotonic() + seconds
        while self._is_any_behind() and time.monotonic() < deadline:  # noqa: ASYNC110 - once, at the stop
            await asyncio.sleep(_LOOK_SECONDS)
        await self.master.stop()
        self._store.on_growth = None
        if self._listener is not None:
            self._listener.close()

    def status(self) -> HAStatus:
        """Return the state of the slaves, for operators."""
        return master_status(self.master.slaves(), self._store.max_log_offset)

    def _is_any_behind(self) -> bool:
        return any(slave.lag_bytes for slave in self.master.slaves())

    def _rule(self) -> PutRule:
        broker = self._settings.broker
        return broker.put_rule(is_sync=broker.broker_role == BrokerRole.SYNC_MASTER or broker.controller_mode_enabled)

    def _use_settings(self) -> None:
        self.master.use(self._settings.broker, self._rule())


def server_context(tls: TlsConfig | None) -> ssl.SSLContext:
    """Return the context of the port for slaves: the broker's own, read again when its files have changed."""
    files = ServerTls(_given(tls), time.monotonic)
    context = files.context()

    def use_newest(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = files.context()

    context.sni_callback = use_newest  # called for each connection, also without a server name
    return context


def client_config(tls: TlsConfig | None) -> TlsConfig:
    """Return the settings of a slave's connection to the port for slaves of its master."""
    return msgspec.structs.replace(_given(tls), client_enable=True)


def _given(tls: TlsConfig | None) -> TlsConfig:
    if tls is None:
        raise ConfigError("haTlsEnable = true needs the broker's TLS files: see --tls-config")
    return tls
