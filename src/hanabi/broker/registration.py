"""Registration with the name servers: the broker's addresses and topics.

Each name server has its own task, so that one that is down, slow or unreachable delays neither the rest nor the start.
It is updated at once, then every 30 s, and when a topic has changed. A name server whose connection ended may have
restarted with an empty table: it is updated as soon as it is back. (Java waits for the next round.) Its reply tells a
slave where its master is; a slave without a connection to its master asks more often. Agrees with BrokerController
(registerBrokerAll, needRegister, unregisterBrokerAll) and BrokerOuterAPI (4.9.8).
"""

import asyncio
import logging
import zlib
from collections.abc import Callable
from typing import Final

import msgspec

from hanabi.broker.replica.master_addresses import MasterAddresses
from hanabi.broker.settings import Settings
from hanabi.broker.tables.topics import PERM_READ, PERM_WRITE, Topics
from hanabi.errors import BrokerError, MQError
from hanabi.remoting.transport.connector import Connector
from hanabi.wire.bodies.route import ClusterInfo, KVTable
from hanabi.wire.bodies.topics import DataVersion, RegisterBrokerBody, TopicConfigTable, encode_register_body
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.header import NoHeader
from hanabi.wire.headers.namesrv import (
    QueryDataVersionHeader,
    QueryDataVersionReplyHeader,
    RegisterBrokerHeader,
    RegisterBrokerReplyHeader,
    UnregisterBrokerHeader,
)

INTERVAL_MS_MIN: Final = 10_000
INTERVAL_MS_MAX: Final = 60_000
RETRY_SECONDS: Final = 1.0  # after the first failure; doubled each time, up to this:
RETRY_SECONDS_MAX: Final = 5.0  # clients cannot find us through a restarted name server until we register
UNREGISTER_SECONDS: Final = 3.0
REST_PARTS: Final = 4  # pause after a registration, as a multiple of its duration: a thousand new topics in a
REST_SECONDS_MAX: Final = 1.0  # second cause few registrations, as each sends the whole table of topics
FEW_TOPICS: Final = 1_000  # encoding fewer is quicker than a switch to a thread
_READ_WRITE: Final = PERM_READ | PERM_WRITE

logger = logging.getLogger(__name__)


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Identity and addresses of the registering broker."""

    cluster_name: str
    broker_name: str
    broker_id: int
    address: str  # HOST:PORT for clients
    ha_address: str  # HOST:PORT for slaves
    not_active_timeout_ms: int | None = None  # with enableSlaveActingMaster: after such a silence it is gone


class Registration:
    """One broker and its name servers. `run` until cancelled, then `unregister`."""

    def __init__(
        self,
        identity: Identity,
        topics: Topics,
        settings: Settings,
        connector: Connector,
        *,
        retry_seconds: float = RETRY_SECONDS,
        masters: MasterAddresses | None = None,
        is_urgent: Callable[[], bool] = lambda: False,
    ) -> None:
        """*masters* gets the answers of the name servers about the master of a slave; *is_urgent* returns whether they
        are asked every few seconds."""
        self._masters, self._is_urgent = masters, is_urgent
        self._identity, self._topics, self._settings, self._connector = identity, topics, settings, connector
        self._retry_seconds = retry_seconds
        self._servers = [_Server(address) for address in settings.broker.namesrv_addresses]
        self._request: _Request | None = None
        self._encoding = asyncio.Lock()  # one name server's task encodes, the other tasks reuse it
        self._changes = 0
        self._leaving = False

    @property
    def identity(self) -> Identity:
        """Identity that is registered."""
        return self._identity

    @property
    def registered(self) -> list[str]:
        """Name servers that know this broker now."""
        return [server.address for server in self._servers if server.known_version is not None]

    def changed(self) -> None:
        """Update all name servers now: topics or permissions have changed."""
        self._changes += 1
        for server in self._servers:
            server.wake.set()

    def use(self, identity: Identity) -> None:
        """Register with another id from now on: the role has changed."""
        self._identity = identity
        self.changed()

    def ask_again(self) -> None:
        """Ask the name servers now where the master is."""
        for server in self._servers:
            server.wake.set()

    def lost(self, address: str) -> None:
        """Note the end of a connection to a name server: if it restarted, it has no brokers."""
        for server in self._servers:
            if server.address == address and server.known_version is not None:
                server.hung_up = True
                server.wake.set()

    async def run(self) -> None:
        """Keep every name server up to date, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for server in self._servers:
                tasks.create_task(self._keep_informed(server), name=f"register with {server.address}")

    async def settled(self) -> None:
        """Wait until all reachable name servers know every change until now, at most as long as a registration may
        take."""
        waiting = [asyncio.ensure_future(server.heard_of(self._changes)) for server in self._servers]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=self._settings.broker.register_timeout_ms / 1000)
            for future in late:
                future.cancel()

    async def until_registered(self) -> None:
        """Wait until the first registration with every name server has succeeded or failed."""
        await asyncio.gather(*(server.first_round() for server in self._servers))

    async def unregister(self) -> None:
        """Unregister from the name servers that know this broker. One that does not answer delays the stop only
        briefly."""
        self._leaving = True
        for server in self._servers:
            server.wake.set()
        await asyncio.gather(*(self._unregister(server) for server in self._servers if server.knows_us))

    async def _keep_informed(self, server: "_Server") -> None:
        failures, now = 0, asyncio.get_running_loop().time
        while not self._leaving:
            server.wake.clear()
            began = now()
            changes, was_known = self._changes, server.known_version is not None
            try:
                await self._inform(server)
            except MQError as error:
                if not failures:  # once per outage
                    logger.warning("not registered with name server %s, retrying: %s", server.address, error)
                server.known_version, server.knows_us = None, False
                failures += 1
                if self._masters is not None:
                    self._masters.unreachable(server.address)
            else:
                if not was_known:
                    logger.info("registered with name server %s", server.address)
                failures = 0
            server.end_round(changes)
            await asyncio.sleep(min((now() - began) * REST_PARTS, REST_SECONDS_MAX))
            pause = self._interval_seconds()
            if failures:
                pause = min(self._retry_seconds * 2 ** min(failures - 1, 10), RETRY_SECONDS_MAX, pause)
            await server.woken_within(pause)
            if server.hung_up:
                server.hung_up = False
                await asyncio.sleep(self._retry_seconds)  # lets it come back; spares one that always hangs up

    def _interval_seconds(self) -> float:
        if self._is_urgent():
            return RETRY_SECONDS_MAX
        return max(INTERVAL_MS_MIN, min(self._settings.broker.register_interval_ms, INTERVAL_MS_MAX)) / 1000

    async def _inform(self, server: "_Server") -> None:
        if not self._settings.broker.controller_mode_enabled:  # there the controller gives the ids
            await self._look_for_another(server)
        request = await self._current_request()
        if (
            server.known_version is not None
            and not self._settings.broker.force_register
            and self._masters is None
            and await self._has_newest(server, request)
        ):
            server.known_version = request.version
            return
        server.knows_us = True
        reply = await self._ask(server, RequestCode.REGISTER_BROKER, request.header, request.body)
        server.known_version = request.version
        if self._masters is not None:
            master = reply.header(RegisterBrokerReplyHeader)
            self._masters.answered(server.address, master.ha_server_addr, master.master_addr)
        elif reply.body and server is self._first_known():
            self._topics.set_order_topics(decode_body(bytes(reply.body), KVTable).table)

    async def _look_for_another(self, server: "_Server") -> None:
        """Warn if the name server has another broker of our name and id: it alternates with us, and clients reach only
        the one that registered last."""
        me = self._identity
        try:
            reply = await self._ask(server, RequestCode.GET_BROKER_CLUSTER_INFO, NoHeader())
        except BrokerError as error:
            logger.debug("name server %s does not list its brokers: %s", server.address, error)
            return
        listed = decode_body(bytes(reply.body), ClusterInfo).broker_addr_table.get(me.broker_name)
        other = None if listed is None else listed.broker_addrs.get(me.broker_id)
        if other not in (None, me.address, server.other):
            logger.warning(
                "another broker named %s with id %d is registered with name server %s: it is at %s, this one at %s. If"
                " both run, clients reach only the one that registered last, and messages of the other stay unread:"
                " give one of them a brokerName or brokerId of its own",
                me.broker_name,
                me.broker_id,
                server.address,
                other,
                me.address,
            )
        server.other = None if other == me.address else other

    def _first_known(self) -> "_Server | None":
        """Return the name server whose order topics count: only one, so that two that differ do not cause constant
        changes."""
        return next((server for server in self._servers if server.known_version is not None), None)

    async def _has_newest(self, server: "_Server", request: "_Request") -> bool:
        identity = self._identity
        header = QueryDataVersionHeader(
            broker_name=identity.broker_name,
            broker_addr=identity.address,
            cluster_name=identity.cluster_name,
            broker_id=identity.broker_id,
        )
        reply = await self._ask(server, RequestCode.QUERY_DATA_VERSION, header, encode_body(request.version))
        if reply.header(QueryDataVersionReplyHeader).changed:
            return False
        return not reply.body or decode_body(bytes(reply.body), DataVersion) == request.version

    async def _unregister(self, server: "_Server") -> None:
        identity = self._identity
        header = UnregisterBrokerHeader(
            broker_name=identity.broker_name,
            broker_addr=identity.address,
            cluster_name=identity.cluster_name,
            broker_id=identity.broker_id,
        )
        try:
            await self._ask(server, RequestCode.UNREGISTER_BROKER, header, seconds=UNREGISTER_SECONDS)
        except MQError as error:
            logger.warning("not unregistered at name server %s: %s", server.address, error)
        server.known_version, server.knows_us = None, False

    async def _ask(
        self,
        server: "_Server",
        code: RequestCode,
        header: RegisterBrokerHeader | UnregisterBrokerHeader | QueryDataVersionHeader | NoHeader,
        body: bytes = b"",
        *,
        seconds: float | None = None,
    ) -> Command:
        seconds = seconds or self._settings.broker.register_timeout_ms / 1000
        reply = await self._connector.request(server.address, code, header, body, timeout=seconds)
        if reply.code != ResponseCode.SUCCESS:
            raise BrokerError.from_reply(reply.code, reply.remark, asked=f"{code.name} at {server.address}")
        return reply

    async def _current_request(self) -> "_Request":
        """Return the current registration request, encoded again only if it changed; in a thread if there are many
        topics: 40,000, compressed, take 80 ms."""
        broker = self._settings.broker
        async with self._encoding:
            version, identity = self._topics.data_version, self._identity
            state = (identity, version, broker.permission, broker.compressed_register)
            request = self._request
            if request is None or request.state != state:
                table = self._topics.table()
                if len(table.topic_config_table) <= FEW_TOPICS:
                    request = _Request(state, table)
                else:
                    request = await asyncio.to_thread(_Request, state, table)
                self._request = request
            return request


class _Server:
    """State of one name server."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.known_version: DataVersion | None = None  # the version it has from us; None: none, or it is down
        self.knows_us = False  # it knows this broker, or is being updated
        self.hung_up = False
        self.other: str | None = None  # address of another broker of our name and id, as it reports
        self.wake = asyncio.Event()
        self._changes = -1  # number of changes that it knows
        self._round = asyncio.Event()

    def end_round(self, changes: int) -> None:
        """Note that it knows all changes up to this number of *changes*, or could not be reached."""
        self._changes = changes
        self._round.set()
        self._round = asyncio.Event()

    async def heard_of(self, changes: int) -> None:
        """Wait until it knows this number of changes; return at once if it cannot be reached."""
        while self.known_version is not None and self._changes < changes:
            await self._round.wait()

    async def first_round(self) -> None:
        while self._changes < 0:
            await self._round.wait()

    async def woken_within(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.wake.wait()
        except TimeoutError:
            pass


class _Request:
    """A registration, ready for any number of name servers."""

    def __init__(self, state: tuple[Identity, DataVersion, int, bool], table: TopicConfigTable) -> None:
        self.state = state
        identity, self.version, permission, compressed = state
        topics = table.topic_config_table
        if permission & _READ_WRITE != _READ_WRITE:  # then no topic can have more than the broker
            topics = {name: msgspec.structs.replace(topic, perm=permission) for name, topic in topics.items()}
        wrapper = TopicConfigTable(data_version=table.data_version, topic_config_table=topics)
        self.body = encode_register_body(RegisterBrokerBody(topic_config_serialize_wrapper=wrapper), compressed)
        self.header = RegisterBrokerHeader(
            broker_name=identity.broker_name,
            broker_addr=identity.address,
            cluster_name=identity.cluster_name,
            ha_server_addr=identity.ha_address,
            broker_id=identity.broker_id,
            compressed=compressed,
            heartbeat_timeout_millis=identity.not_active_timeout_ms,
            enable_acting_master=True if identity.not_active_timeout_ms is not None else None,
            body_crc32=zlib.crc32(self.body) & 0x7FFF_FFFF,
        )
