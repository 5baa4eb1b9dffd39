"""Assembly of the broker: builds, connects, starts and stops the parts. Makes no decisions.

    async with Broker(BrokerConfig(broker_name="broker-a"), StoreConfig(root="data")) as broker:
        host, port = await broker.start("127.0.0.1", 10911)

Nothing here is global: any number of brokers run in one process, each with its own store.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from hanabi.broker.addresses import advertised_host, in_figures
from hanabi.broker.background import Background
from hanabi.broker.config import MASTER_ID, BrokerConfig
from hanabi.broker.fast_path.building import fast_path
from hanabi.broker.fast_path.counts import Counts
from hanabi.broker.handler_table import broker_handlers
from hanabi.broker.home_name import remember_name
from hanabi.broker.parts import Services, Tables
from hanabi.broker.registration import Identity, Registration
from hanabi.broker.settings import Settings
from hanabi.broker.steady_clock import SteadyClock
from hanabi.errors import ConfigError, MQError
from hanabi.remoting.address import format_address
from hanabi.remoting.config import RemotingConfig
from hanabi.remoting.connection.dispatch import Express, Handler
from hanabi.remoting.transport.connector import Connector
from hanabi.remoting.transport.descriptors import PROCESS
from hanabi.remoting.transport.server import RemotingServer
from hanabi.remoting.transport.tls import TlsConfig
from hanabi.store.config import StoreConfig
from hanabi.store.message_store import MessageStore
from hanabi.wire.delay_levels import parse_delay_levels
from hanabi.wire.message.hosts import encode_host

FAST_PORT_DISTANCE: Final = 2  # the port of old clients' "VIP channel" lies this far below
STOP_SECONDS: Final = 5.0
STATS_SECONDS: Final = 1.0
CLIENTS_SECONDS: Final = 10.0
FILTERS_SECONDS: Final = 10.0
PROTECTION_SECONDS: Final = 180.0

logger = logging.getLogger(__name__)


class Broker:
    """One broker. Holds the lock on its store from `start` to `stop`; the parts are there between the two."""

    settings: Settings
    tables: Tables
    store: MessageStore
    services: Services
    registration: Registration

    def __init__(
        self,
        config: BrokerConfig,
        store_config: StoreConfig,
        *,
        tls: TlsConfig | None = None,
        now_ms: Callable[[], int] | None = None,
        around: Callable[[int, Handler], Handler] | None = None,
        around_express: Callable[[Express], Express] | None = None,
    ) -> None:
        """*now_ms*: time of day that messages carry; None: the machine's clock, without leaps.

        *around* wraps the handler of each request code, *around_express* the fast path of some codes: for measuring
        latency.
        """
        if config.broker_role == "SLAVE":
            raise ConfigError("brokerRole = SLAVE: this broker can only be a master")
        if config.broker_role == "SYNC_MASTER":
            logger.warning("brokerRole = SYNC_MASTER: there are no slaves here, messages are kept on this machine only")
        parse_delay_levels(config.message_delay_levels)  # so that bad levels are reported before any start
        self._config, self._store_config, self._tls = config, store_config, tls
        self._steady_clock = SteadyClock()
        self._now_ms = now_ms or self._steady_clock
        self._around, self._around_express = around, around_express
        self._home = Path(store_config.root).absolute()
        self._background = Background()
        self._undo = AsyncExitStack()  # stop actions, run in reverse order
        self._stop_seconds = STOP_SECONDS
        self.servers: list[RemotingServer] = []  # one for each port
        self.bound = ("", 0)  # listening address
        self.address = ""  # HOST:PORT as advertised to clients
        self.fast_path_counts: list[Counts] = []  # empty without compiled functions

    async def start(self, host: str, port: int | None = None) -> tuple[str, int]:
        """Open the store, accept connections, and return the address that was bound.

        *port* is the file's listenPort if it is not given, and any free one if it is 0.
        """
        try:
            return await self._start(host, self._config.listen_port if port is None else port)
        except BaseException:
            await self.stop()
            raise

    async def stop(self, deadline_seconds: float = STOP_SECONDS) -> None:
        """Unregister from the name servers, answer pending requests, save the tables, close the store."""
        self._stop_seconds = deadline_seconds
        await self._undo.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # Starting

    async def _start(self, host: str, port: int) -> tuple[str, int]:
        own_host = advertised_host(self._config.advertised_host, await _first_address(host))
        config = msgspec.structs.replace(self._config, advertised_host=own_host, broker_id=MASTER_ID)  # as Apache's
        own_figures = await asyncio.to_thread(in_figures, own_host)
        await self._open_store(config)
        handlers: dict[int, Handler] = {}
        self.bound = bound = await self._listen(handlers, host, port)
        # No connection is read before the next await, so the handlers, which need the port, are built in time.
        own_port = config.advertised_port or bound[1]
        self.settings.broker = msgspec.structs.replace(
            self.settings.broker,
            listen_port=bound[1],
            ha_listen_port=bound[1] + 1,  # as Apache: always the next port
        )
        self.address = format_address((own_host, own_port))
        self._prepare_registration()
        handlers.update(
            broker_handlers(
                self.tables,
                self.store,
                self.services,
                store_host=encode_host(own_figures, own_port),
                address=self.address,
                registered=self.registration.settled,
                now_ms=self._now_ms,
            )
        )
        fast = fast_path(handlers)
        self.fast_path_counts = fast.counts if fast is not None else []
        express: Express | None = fast
        if self._around is not None:
            handlers.update({code: self._around(code, handler) for code, handler in handlers.items()})
        if self._around_express is not None and express is not None:
            express = self._around_express(express)
        for server in self.servers:
            server.use_express(express)
        self._start_background()
        await asyncio.sleep(0)  # lets background work start its threads before the broker reports ready
        return bound

    async def _open_store(self, config: BrokerConfig) -> None:
        tables = self._home / "config"
        try:
            tables.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"home {self._home} cannot be written: {error.strerror or error}") from error
        self.settings = Settings(config, self._store_config, tables / "broker.properties")
        self.tables = Tables(self.settings, tables, self._now_ms)
        # Recovery may take long; other tasks on this loop (a name server, say) must go on.
        self.store = await asyncio.to_thread(
            MessageStore.open,
            self.settings.store,
            now_ms=self._now_ms,
            is_clock_settled=lambda: self._steady_clock.is_settled,
            hooks=self.tables.store_hooks(),
        )
        self._undo.push_async_callback(asyncio.to_thread, self.store.close)
        await asyncio.to_thread(remember_name, self._home, config.broker_name)  # the home is ours from here on
        self.tables.topics.restore(self.store.queues())
        self._undo.callback(PROCESS.keep_for_files(lambda: self.store.descriptors_max))
        await asyncio.to_thread(
            self.tables.offsets.attach, self.store.reader.max_offset, lambda: self.store.flush(log_only=True)
        )
        self._doubt_clock()
        self.services = Services(self.tables, self.store, self._home, self._now_ms)
        self._undo.push_async_callback(asyncio.to_thread, self.services.queries.stop)
        self._undo.callback(self._save)
        self.store.start()
        self.settings.on_change.append(lambda: self.store.use(self.settings.store))

    def _doubt_clock(self) -> None:
        """Suspend deletion by age if all messages would expire at once: the machine may have started with a wrong
        clock."""
        reserved_ms = self.settings.store.file_reserved_hours * 3_600_000
        age_ms = self._now_ms() - self.store.latest_store_ms
        if self.store.latest_store_ms and age_ms > reserved_ms:
            self._steady_clock.unsettle(f"the newest message is {age_ms // 3_600_000} hours old")

    async def _listen(self, handlers: Mapping[int, Handler], host: str, port: int) -> tuple[str, int]:
        self._undo.push_async_callback(self._background.stop)
        limits = self.settings.broker.remoting()
        bound = await self._listen_on(handlers, host, port, limits)
        # A lower system limit was reported for the first port.
        limits = msgspec.structs.replace(limits, connections_max=PROCESS.connections_within(limits.connections_max))
        fast = self.settings.broker.fast_port_enabled
        fast_port = bound[1] - FAST_PORT_DISTANCE
        if fast or (fast is None and port > FAST_PORT_DISTANCE):
            try:
                await self._listen_on(handlers, host, fast_port, limits)
            except ConfigError as error:
                if fast:
                    raise ConfigError(
                        f"{error} (the fast port; set fastListenPortEnable=false to start without it)"
                    ) from error
                logger.info("no fast port for old clients: %s", error)
        self._undo.callback(self.tables.held_pulls.release)
        return bound

    async def _listen_on(
        self, handlers: Mapping[int, Handler], host: str, port: int, limits: RemotingConfig
    ) -> tuple[str, int]:
        server = RemotingServer(handlers, limits, tls=self._tls, on_close=self.tables.clients.closed)
        where = format_address((host, port))
        try:
            bound = await server.start(host, port)
        except OSError as error:
            raise ConfigError(f"cannot listen on {where}: {error.strerror or error}") from error
        except UnicodeError as error:  # an invalid name: an empty label, or one of more than 63 letters
            raise ConfigError(f"cannot listen on {where}: not a host name") from error
        self.servers.append(server)
        self._undo.push_async_callback(self._stop_server, server)
        return bound

    async def _stop_server(self, server: RemotingServer) -> None:
        await server.stop(self._stop_seconds)

    def _prepare_registration(self) -> None:
        broker = self.settings.broker
        connector = Connector(tls=self._tls, on_close=lambda connection: self.registration.lost(connection.peer))
        identity = Identity(
            cluster_name=broker.cluster_name,
            broker_name=broker.broker_name,
            broker_id=broker.broker_id,
            address=self.address,
            ha_address=format_address((broker.ha_advertised_host or broker.advertised_host, broker.ha_listen_port)),
        )
        self.registration = Registration(identity, self.tables.topics, self.settings, connector)
        self.tables.topics.on_change.append(self.registration.changed)
        self.settings.on_change.append(PermissionWatch(self.settings, self.tables).look)
        self._undo.push_async_callback(connector.close)
        self._undo.push_async_callback(self.registration.unregister)

    def _start_background(self) -> None:
        background, tables, services, settings = self._background, self.tables, self.services, self.settings
        background.run("registration", self.registration.run)
        background.run("flow control", services.flow.run)
        background.run("delayed delivery", services.delivery.run)
        background.run("timer", services.timer.run)
        background.run("transactions", services.transactions.run)
        background.run("saving topics", tables.topics.keep_saving)
        background.run("saving groups", tables.groups.keep_saving)
        background.every(
            "saving consumer offsets",
            lambda: settings.broker.flush_offsets_interval_ms / 1000,
            lambda: asyncio.to_thread(tables.offsets.save),
        )
        background.every("forgetting filters", lambda: FILTERS_SECONDS, tables.filters.tick)
        background.every("saving filters", lambda: FILTERS_SECONDS, lambda: asyncio.to_thread(tables.filters.save))
        background.every("looking for silent clients", lambda: CLIENTS_SECONDS, tables.clients.expire)
        background.every("statistics", lambda: STATS_SECONDS, tables.stats.tick)
        background.every("protection from slow consumers", lambda: PROTECTION_SECONDS, self._stop_slow_consumers)

    # Running and stopping

    def _stop_slow_consumers(self) -> None:
        broker = self.settings.broker
        if broker.disable_slow_consumers:
            for group, behind in self.tables.stats.fallen_behind(broker.consumer_fall_behind_bytes).items():
                logger.warning("group %s lags by %d bytes: its consumption is disabled", group, behind)
                self.tables.groups.disable_consume(group)

    def _save(self) -> None:
        """Write all tables to disk; a failure to write one does not prevent the rest."""
        tables, services = self.tables, self.services
        for save in (
            tables.topics.save_changes,
            tables.groups.save_changes,
            tables.offsets.save,
            tables.filters.save,
            services.delivery.save,
            services.timer.save,
        ):
            try:
                save()
            except (MQError, OSError) as error:
                logger.error("a table could not be saved at the stop: %s", error)


class PermissionWatch:
    """Publishes a change of the broker's permission: it limits that of all topics, so their table gets a new
    version."""

    def __init__(self, settings: Settings, tables: Tables) -> None:
        self._settings, self._topics = settings, tables.topics
        self._known = settings.broker.permission

    def look(self) -> None:
        if self._settings.broker.permission != self._known:
            self._known = self._settings.broker.permission
            self._topics.touch()


async def _first_address(host: str) -> str:
    """Return the address that *host* will be bound as; *host* itself if it is unknown, which the listener then
    reports."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError):
        return host
    return str(found[0][4][0])
