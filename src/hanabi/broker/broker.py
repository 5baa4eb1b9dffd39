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

from hanabi.access.inner import InnerCredentials
from hanabi.access.plain.files import REFRESH_SECONDS
from hanabi.access.policies.keys import read_inner_credentials
from hanabi.broker.access_control import AccessControl
from hanabi.broker.acting.acting_side import ActingMaster, ActingSlave
from hanabi.broker.addresses import advertised_host, in_figures
from hanabi.broker.audited import previous_values
from hanabi.broker.background import Background
from hanabi.broker.config import BrokerConfig, check_identities
from hanabi.broker.fast_path.building import build_fast_path
from hanabi.broker.fast_path.counts import Counts
from hanabi.broker.handler_table import broker_handlers
from hanabi.broker.parts import Services, Tables
from hanabi.broker.pop.revive_log import SECONDS as REVIVE_LOG_SECONDS
from hanabi.broker.pop.routes import TopicRoutes
from hanabi.broker.registration import Identity, Registration
from hanabi.broker.replica.broker_identity import IdentityFiles
from hanabi.broker.replica.controller_handlers import controller_mode_handlers
from hanabi.broker.replica.controller_requests import ControllerRequests, check_controllers
from hanabi.broker.replica.controller_side import ControllerSide
from hanabi.broker.replica.master_side import MasterSide
from hanabi.broker.replica.queue_ends import continue_queues
from hanabi.broker.replica.roles import MASTER_ID, BrokerRole, checked_broker_id, ha_port
from hanabi.broker.replica.slave_side import SlaveSide, check_master_address
from hanabi.broker.role_switch import Limit, RoleSwitch
from hanabi.broker.settings import Settings
from hanabi.broker.steady_clock import SteadyClock
from hanabi.broker.tables.home_name import remember_name
from hanabi.errors import ConfigError, MQError
from hanabi.remoting.address import format_address, listen_problem
from hanabi.remoting.config import RemotingConfig
from hanabi.remoting.connection.dispatch import FastPath, Handler
from hanabi.remoting.transport.connector import Connector
from hanabi.remoting.transport.descriptors import PROCESS
from hanabi.remoting.transport.server import RemotingServer
from hanabi.remoting.transport.tls import TlsConfig
from hanabi.replication.autoswitch.epochs import EpochFile
from hanabi.replication.autoswitch.follower import AutoSwitchFollower, Replica
from hanabi.replication.autoswitch.master import AutoSwitchMaster
from hanabi.replication.autoswitch.wire import Hello
from hanabi.replication.follower import Follower
from hanabi.replication.log_access import StoreLog
from hanabi.store.config import StoreConfig
from hanabi.store.message_store import MessageStore
from hanabi.store.read.queue_reader import NO_LIMIT
from hanabi.wire.bodies.ha_status import HAStatus
from hanabi.wire.delay_levels import parse_delay_levels
from hanabi.wire.message.hosts import encode_host

FAST_PORT_DISTANCE: Final = 2  # the port of old clients' "VIP channel" lies this far below
STOP_SECONDS: Final = 5.0
SLAVES_SECONDS: Final = 2.0  # at the stop, for slaves that lag behind
STATS_SECONDS: Final = 1.0
CLIENTS_SECONDS: Final = 10.0
FILTERS_SECONDS: Final = 10.0
PROTECTION_SECONDS: Final = 180.0
ORDERS_SECONDS: Final = 3_600.0

logger = logging.getLogger(__name__)


class Broker:
    """One broker. Holds the lock on its store from `start` to `stop`; the parts are there between the two."""

    settings: Settings
    tables: Tables
    store: MessageStore
    services: Services
    registration: Registration
    _routes: TopicRoutes
    master_side: MasterSide

    def __init__(
        self,
        config: BrokerConfig,
        store_config: StoreConfig,
        *,
        tls: TlsConfig | None = None,
        now_ms: Callable[[], int] | None = None,
        around: Callable[[int, Handler], Handler] | None = None,
        around_fast_path: Callable[[FastPath], FastPath] | None = None,
    ) -> None:
        """*now_ms*: time of day that messages carry; None: the machine's clock, without leaps.

        *around* wraps the handler of each request code, *around_fast_path* the fast path of some codes: for measuring
        latency.
        """
        if config.controller_mode_enabled:  # the controller gives role and id
            check_controllers(config.controller_addresses)
            if config.acting_master_enabled:
                logger.warning("enableSlaveActingMaster has no effect in controller mode: a slave is elected master")
            start = {"broker_role": BrokerRole.SLAVE, "broker_id": MASTER_ID + 1, "acting_master_enabled": False}
            config = msgspec.structs.replace(config, **start)
        config = msgspec.structs.replace(config, broker_id=checked_broker_id(config.broker_role, config.broker_id))
        check_master_address(config.ha_master_address)
        check_identities(config)
        parse_delay_levels(config.message_delay_levels)  # so that bad levels are reported before any start
        self._config, self._store_config, self._tls = config, store_config, tls
        self._steady_clock = SteadyClock()
        self._now_ms = now_ms or self._steady_clock
        self._around, self._around_fast_path = around, around_fast_path
        self._home = Path(store_config.root).absolute()
        self._background = Background()
        self._undo = AsyncExitStack()  # stop actions, run in reverse order
        self._stop_seconds = STOP_SECONDS
        self.servers: list[RemotingServer] = []  # one for each port
        self.bound = ("", 0)  # listening address
        self.address = ""  # HOST:PORT as advertised to clients
        self.slave_side: SlaveSide | None = None  # of a slave, and in controller mode
        self.controller_side: ControllerSide | None = None  # in controller mode
        self._role_switch: RoleSwitch | None = None
        self._epochs: EpochFile | None = None
        self.access_control: AccessControl | None = None  # with aclEnable or authenticationEnabled
        self._inner: InnerCredentials | None = None  # for requests to other servers
        self.acting: ActingSlave | None = None  # of a slave with enableSlaveActingMaster
        self.returning: ActingMaster | None = None  # of a master with enableSlaveActingMaster
        self.fast_path_counts: list[Counts] = []  # empty without compiled functions
        self.open_handlers: Mapping[int, Handler] = {}  # without gates: for callers in this process that check first

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
        config = msgspec.structs.replace(self._config, advertised_host=own_host)
        own_figures = await asyncio.to_thread(in_figures, own_host)
        await self._open_store(config)
        handlers: dict[int, Handler] = {}
        self.bound = bound = await self._listen(handlers, host, port)
        # No connection is read before the next await, so the handlers, which need the port, are built in time.
        own_port = config.advertised_port or bound[1]
        self.settings.broker = msgspec.structs.replace(
            self.settings.broker,
            listen_port=bound[1],
            ha_listen_port=self.master_side.listen(bound[0], ha_port(config.ha_listen_port, port)),
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
                ha_address=self._ha_address(),
                ha_status=self._ha_status,
                first_end_offset=self.master_side.first_end_offset,
                registered=self.registration.settled,
                routes=self._routes.queues,
                now_ms=self._now_ms,
            )
        )
        if self.acting is not None:
            handlers.update(self.acting.handlers())
        if self.controller_side is not None and self._epochs is not None:
            handlers.update(
                controller_mode_handlers(
                    self.settings, self._epochs, lambda: self.store.max_log_offset, self.controller_side.notified
                )
            )
        self.open_handlers = self._measured(handlers)
        if self.access_control is not None:
            handlers.update(self.access_control.guarded(handlers, self.address, previous_values(self.tables)))
        fast = build_fast_path(handlers)
        self.fast_path_counts = fast.counts if fast is not None else []
        fast_path: FastPath | None = fast
        handlers.update(self._measured(handlers))
        if self._around_fast_path is not None and fast_path is not None:
            fast_path = self._around_fast_path(fast_path)
        for server in self.servers:
            server.use_fast_path(fast_path)
        await self.master_side.start()
        self._start_background()
        await asyncio.sleep(0)  # lets background work start its threads before the broker reports ready
        return bound

    def _measured(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """Return *handlers*, with what measures them around each."""
        around = self._around
        return {code: handler if around is None else around(code, handler) for code, handler in handlers.items()}

    def now_ms(self) -> int:
        """Return the time of day that messages carry."""
        return self._now_ms()

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
        self.store.is_copy = self.settings.is_slave
        self._use_settings()
        await asyncio.to_thread(remember_name, self._home, config.broker_name)  # the home is ours from here on
        await asyncio.to_thread(self._take_up_queues, tables)
        self.tables.topics.restore(self.store.queues())
        self._undo.callback(PROCESS.keep_for_files(lambda: self.store.descriptors_max))
        await asyncio.to_thread(
            self.tables.offsets.attach, self.store.reader.max_offset, lambda: self.store.flush(log_only=True)
        )
        self._doubt_clock()
        limit = Limit(self.store, self.tables)
        self._epochs = EpochFile(self._home) if config.controller_mode_enabled else None
        self.master_side = MasterSide(self.store, self.settings, self._tls, epochs=self._epochs, on_confirmed=limit.use)
        self._undo.push_async_callback(self._stop_master_side)
        self.services = Services(self.tables, self.store, self._home, self._now_ms, self.master_side.acks)
        self._undo.push_async_callback(asyncio.to_thread, self.services.queries.stop)
        self._undo.callback(self._save)
        if not self.settings.is_slave:
            await asyncio.to_thread(self.services.pop.restore)
        self._undo.callback(self.services.pop.stop)
        self._inner = await asyncio.to_thread(read_inner_credentials, config.inner_credentials)
        if config.checks_access:
            self.access_control = AccessControl(
                *(self.settings, self.store, self._home, self._now_ms),
                has_topic=lambda topic: self.tables.topics.newest(topic) is not None,
                inner=self._inner,
            )
            self._undo.push_async_callback(asyncio.to_thread, self.access_control.stop)
            await self.access_control.load()
        self.store.start()
        self.settings.on_change.append(self._use_settings)

    def _take_up_queues(self, tables: Path) -> None:
        if self.settings.is_slave or self.settings.broker.controller_mode_enabled:  # where every broker starts as one
            self.tables.queue_ends.begin(self.store)
        else:
            continue_queues(self.store, frozenset(self.tables.topics.names()), tables)

    def _use_settings(self) -> None:
        self.store.use(self.settings.store)
        self.store.reader.corrects_offsets = not self.settings.is_slave or self.settings.broker.offset_check_in_slave

    def _doubt_clock(self) -> None:
        """Suspend deletion by age if all messages would expire at once: the machine may have started with a wrong
        clock."""
        reserved_ms = self.settings.store.file_reserved_hours * 3_600_000
        age_ms = self._now_ms() - self.store.latest_store_ms
        if self.store.latest_store_ms and age_ms > reserved_ms:
            self._steady_clock.unsettle(f"the newest message is {age_ms // 3_600_000} hours old")

    async def _listen(self, handlers: Mapping[int, Handler], host: str, port: int) -> tuple[str, int]:
        self._undo.push_async_callback(self._stop_slave)  # after the background, which asks its master
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
        self._undo.callback(self.tables.held_pops.release)
        return bound

    async def _listen_on(
        self, handlers: Mapping[int, Handler], host: str, port: int, limits: RemotingConfig
    ) -> tuple[str, int]:
        server = RemotingServer(handlers, limits, tls=self._tls, on_close=self.tables.clients.closed)
        where = format_address((host, port))
        try:
            bound = await server.start(host, port)
        except (OSError, UnicodeError) as error:
            raise ConfigError(f"cannot listen on {where}: {listen_problem(error)}") from error
        self.servers.append(server)
        self._undo.push_async_callback(self._stop_server, server)
        return bound

    async def _stop_master_side(self) -> None:
        await self.master_side.stop(min(self._stop_seconds, SLAVES_SECONDS))

    async def _stop_server(self, server: RemotingServer) -> None:
        await server.stop(self._stop_seconds)

    def _ha_address(self) -> str:
        broker = self.settings.broker
        return format_address((broker.ha_advertised_host or broker.advertised_host, broker.ha_listen_port))

    def _prepare_registration(self) -> None:
        broker = self.settings.broker
        connector = Connector(
            tls=self._tls,
            on_close=lambda connection: self.registration.lost(connection.peer),
            signs=self._inner.sign if self._inner is not None else None,
        )
        identity = Identity(
            cluster_name=broker.cluster_name,
            broker_name=broker.broker_name,
            broker_id=broker.broker_id,
            address=self.address,
            ha_address=self._ha_address(),
            not_active_timeout_ms=broker.not_active_timeout_ms if broker.acting_master_enabled else None,
        )
        self._routes = TopicRoutes(self.settings, self.tables.topics, connector)
        slave = self._prepare_slave()
        self.registration = Registration(
            *(identity, self.tables.topics, self.settings, connector),
            masters=slave.masters if slave is not None and not broker.controller_mode_enabled else None,
            is_urgent=lambda: self.settings.is_slave and slave is not None and not slave.is_connected,
        )
        if slave is not None and self.master_side.switching is not None:
            self._prepare_controller(slave, self.master_side.switching)
        self.tables.topics.on_change.append(self.registration.changed)
        self.settings.on_change.append(PermissionWatch(self.settings, self.tables).look)
        self._undo.push_async_callback(connector.close)
        self._undo.push_async_callback(self.registration.unregister)
        if broker.acting_master_enabled:
            parts = identity, self.settings, connector, self.services
            if slave is not None:
                self.acting = ActingSlave(*parts, slave, self.registration)
            else:
                self.returning = ActingMaster(*parts, self.tables.offsets, self.master_side)

    def _prepare_controller(self, slave: SlaveSide, master: AutoSwitchMaster) -> None:
        broker = self.settings.broker
        connector = Connector(tls=self._tls, signs=self._inner.sign if self._inner is not None else None)
        self._undo.push_async_callback(connector.close)
        switch = self._role_switch = RoleSwitch(
            *(self.store, self.tables, self.services, master, slave, self.registration, connector),
            Limit(self.store, self.tables),
            run_as_master=self._run_as_master,
            run_registration=lambda: self._background.run("registration", self.registration.run),
        )
        switch.begin()
        self.controller_side = ControllerSide(
            ControllerRequests(connector, broker.controller_addresses, broker.cluster_name, broker.broker_name),
            IdentityFiles(self._home, broker.cluster_name, broker.broker_name),
            *(self.settings, switch, master.in_sync, master.epochs),
            address=self.address,
            end_offset=lambda: self.store.max_log_offset,
        )
        master.on_progress = self.controller_side.progress
        self._undo.push_async_callback(switch.stop)

    def _new_follower(self, epochs: EpochFile) -> Follower:
        """Return a connection to a master in controller mode."""
        broker = self.settings.broker
        number = self.controller_side.broker_id if self.controller_side is not None else -1
        limit = Limit(self.store, self.tables)
        replica = Replica(
            Hello(broker.sync_from_last_file, broker.async_learner, number), epochs, self._log_was_cut, limit.use
        )
        return AutoSwitchFollower(StoreLog(self.store), broker, replica)

    def _log_was_cut(self) -> None:
        """Set consumer offsets behind the ends of the queues back to them."""
        self.tables.arrivals.cut(self.store.max_log_offset)
        limit, self.store.reader.confirmed = self.store.reader.confirmed, NO_LIMIT
        self.tables.offsets.attach(self.store.reader.max_offset, lambda: self.store.flush(log_only=True))
        self.store.reader.confirmed = min(limit, self.store.max_log_offset)

    def _prepare_slave(self) -> SlaveSide | None:
        if self.services.copied is None:
            return None
        epochs = self._epochs
        self.slave_side = SlaveSide(
            self.store,
            self.services.copied,
            self.settings,
            own_address=self.address,
            tls=self._tls,
            signs=self._inner.sign if self._inner is not None else None,
            on_lost=lambda: self.registration.ask_again(),
            new_follower=None if epochs is None else lambda: self._new_follower(epochs),
        )
        return self.slave_side

    async def _stop_slave(self) -> None:
        if self.slave_side is not None:
            await self.slave_side.stop()

    def _ha_status(self) -> HAStatus:
        slave = self.slave_side
        return (
            self.master_side.status() if slave is None or not self.settings.is_slave else slave.status(self._now_ms())
        )

    def _start_background(self) -> None:
        background, tables, services, settings = self._background, self.tables, self.services, self.settings
        background.run("flow control", services.flow.run)
        if self.slave_side is not None:
            self.slave_side.start()
        if self.controller_side is not None:
            background.run("controller mode", self.controller_side.run)
        elif self.slave_side is not None:
            background.run("registration", self.registration.run)
            background.run("copying the master's tables", self.slave_side.run)
            if self.acting is not None:
                background.run("members of this broker name", self.acting.group.run)
                background.run("acting as master", self.acting.stand_in.run)
        elif self.returning is not None and not settings.broker.skip_pre_online:
            background.run("coming online", self._come_online)
        else:
            self._begin_as_master()
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
        if self.access_control is not None:
            background.every("reading access rules", lambda: REFRESH_SECONDS, self.access_control.refresh)
        background.every("statistics", lambda: STATS_SECONDS, tables.stats.tick)

    async def _come_online(self) -> None:
        """Take over the work of slaves that acted for this master, and begin."""
        if self.returning is not None:
            await self.returning.pre_online.run()
            await asyncio.to_thread(self.returning.begin)
        self._begin_as_master()

    def _begin_as_master(self) -> None:
        """Register and deliver."""
        self._background.run("registration", self.registration.run)
        self._run_as_master(self._background)
        if self.returning is not None:
            self._background.run("members of this broker name", self.returning.group.run)

    def _run_as_master(self, background: Background) -> None:
        """Start the work that only a master does."""
        services = self.services
        background.run("delayed delivery", services.delivery.run)
        background.run("timer", services.timer.run)
        background.run("transactions", services.transactions.run)
        services.pop.start()  # an acting slave revives nothing: see acting/escape.py
        background.every(
            "saving the order of POP",
            lambda: self.settings.broker.flush_offsets_interval_ms / 1000,
            lambda: asyncio.to_thread(services.pop.orders.save),
        )
        background.every(
            "revival of what Apache's broker handed out", lambda: REVIVE_LOG_SECONDS, services.revive_log.tick
        )
        background.every("forgetting the order of POP", lambda: ORDERS_SECONDS, services.pop.orders.tick)
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
        saves = [tables.topics.save_changes, tables.groups.save_changes, tables.offsets.save, tables.filters.save]
        if not self.settings.is_slave:  # a slave's delivery files are its master's word
            saves += [services.delivery.save, services.timer.save, services.pop.orders.save]
        for save in saves:
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
