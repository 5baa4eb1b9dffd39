"""Shared core of all producers and consumers of one event loop and cluster.

One set of connections, one client id, one heartbeat, one table of routes, one timer for saving offsets and for
rebalance. The first user creates it, the last one closes it. Connects the parts, with little logic of its own; same
timing as Java's MQClientInstance.
"""

import asyncio
import ipaddress
import logging
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ClassVar, Final
from weakref import WeakKeyDictionary

import msgspec

from hanabi.client.cluster.api import Api
from hanabi.client.cluster.broker_requests import BrokerRequests
from hanabi.client.cluster.heartbeats import Heartbeats
from hanabi.client.cluster.members import ConsumerMember, Members, ProducerMember
from hanabi.client.cluster.name_servers import NameServers
from hanabi.client.cluster.routes import Route, Routes
from hanabi.client.config import DEFAULT_INSTANCE, ClientConfig
from hanabi.client.for_each import for_each
from hanabi.client.local_address import local_address
from hanabi.errors import ConfigError, MQError
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.transport.connector import Connector

LEAVING_ID: Final = "leaving"  # used by no client: see `remove_producer`

logger = logging.getLogger(__name__)


class Core:
    """Create it with `acquire`, and `release` it once for each `acquire`.

    `config`, `client_id`, `api` (requests), `routes` (topics to brokers), `connector` (connections).
    """

    # One core per process, loop and cluster: this registry, keyed by loop, is the only global state.
    _shared: ClassVar["WeakKeyDictionary[asyncio.AbstractEventLoop, list[Core]]"] = WeakKeyDictionary()

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self.client_id = config.make_client_id(os.getpid(), time.monotonic_ns())
        self._process_id = os.getpid()
        self._identity = config.identity
        self._users = 0
        self._claims: set[str] = set()  # groups whose consumers have acquired this and not released it
        self._loops: list[asyncio.Task[None]] = []
        self._background: set[asyncio.Task[object]] = set()
        self._unsaved: set[str] = set()  # groups whose offsets could not be saved the last time
        self._losses: Counter[str] = Counter()  # lost connections, by broker name
        self.on_loss: list[Callable[[str], None]] = []  # called with the name of a broker whose connection ended
        self._members = Members(self.client_id)
        answers = BrokerRequests(self._members, self._spawn, namesrv=config.namesrv_addresses)
        tls = None if config.tls is None else msgspec.structs.replace(config.tls, client_enable=True)
        self.connector = Connector(answers.handlers(), tls=tls, on_close=self._disconnected)
        self.api = Api(self.connector, config.access)
        self._name_servers = NameServers(config.namesrv_addresses, self.api)
        self.routes = Routes(self._name_servers, mapped=config.mapped, request_timeout_s=config.request_timeout_s)
        self.routes.on_change.append(self._route_changed)
        self._heartbeats = Heartbeats(
            self.api,
            self._members,
            lambda: self.routes.brokers,
            interval_s=config.heartbeat_s,
            timeout_s=config.request_timeout_s,
            on_heard=self._rebalance_soon,
        )

    @property
    def own_ip(self) -> bytes:
        """Return the address of this machine in 4 or 16 bytes, for message ids."""
        return ipaddress.ip_address(local_address()).packed

    # Join and leave

    @classmethod
    async def acquire(cls, config: ClientConfig, *, consumer_group: str = "") -> "Core":
        """Return the core of this event loop for *config*. A consumer passes its group: two consumers of one group need
        two client ids, so the second gets a core of its own.
        """
        cores = cls._shared.setdefault(asyncio.get_running_loop(), [])
        candidates = [core for core in cores if core._is_for(config)]
        core = next((core for core in candidates if not core._has_consumer(consumer_group)), None)
        if core is None:
            if candidates and (config.client_id is not None or config.instance != DEFAULT_INSTANCE):
                raise ConfigError(
                    f"there is a consumer of group {consumer_group} with client id {candidates[0].client_id} in this"
                    " process already: give each its own client_id or instance, or leave both out"
                )
            core = cls(config)
            cores.append(core)
            core._start()
        core._users += 1
        if consumer_group:
            core._claims.add(consumer_group)
        return core

    def _is_for(self, config: ClientConfig) -> bool:
        return self._identity == config.identity and self._process_id == os.getpid()

    def _has_consumer(self, group: str) -> bool:
        return group in self._claims or group in self._members.consumers

    def _start(self) -> None:
        config = self.config
        for name, work in (
            ("heartbeats", self._heartbeats.run()),
            ("routes", self.routes.keep_fresh(config.route_refresh_s)),
            ("offsets", _every(config.persist_offsets_s, self._persist_offsets)),
            ("rebalance", _every(config.rebalance_s, self._rebalance)),
        ):
            self._loops.append(asyncio.create_task(work, name=f"hanabi {name} of {self.client_id}"))

    async def release(self, *, consumer_group: str = "") -> None:
        """Release it for one user, with the group passed to `acquire`; the last release closes all connections and
        tasks.
        """
        self._claims.discard(consumer_group)
        self._users -= 1
        if self._users:
            return
        loop = asyncio.get_running_loop()
        cores = self._shared.get(loop, [])
        if self in cores:
            cores.remove(self)
        if not cores:
            self._shared.pop(loop, None)
        await self._close()

    async def _close(self) -> None:
        tasks: list[asyncio.Task[Any]] = [*self._loops, *self._background]
        for task in tasks:
            task.cancel()
        try:
            await asyncio.wait(tasks)
            await self._heartbeats.stop()
            await self.routes.close()
        finally:
            await self.connector.close()

    async def add_producer(self, group: str, member: ProducerMember) -> None:
        """Add *member* as a producer of *group*; the known brokers get a heartbeat before this returns."""
        self._members.add_producer(group, member)
        await self._announce(lambda: self.remove_producer(group, member))

    async def add_consumer(self, group: str, member: ConsumerMember) -> None:
        """Add a consumer, as `add_producer`. Find the routes of its topics first, so that all its brokers get the
        heartbeat.
        """
        self._members.add_consumer(group, member)
        await self._announce(lambda: self.remove_consumer(group))

    async def _announce(self, undo: Callable[[], Awaitable[None]]) -> None:
        try:
            await self._heartbeats.send_to_all()
        except BaseException:
            await undo()  # some brokers may have got the heartbeat
            raise

    async def remove_producer(self, group: str, member: ProducerMember) -> None:
        """Remove *member*; if it was the last of its group here, unregister from the brokers."""
        if self._members.remove_producer(group, member):
            # Apache's brokers close the connection of an unregister request, and drop the client id in it. While other
            # producers of this client wait for replies, neither may be ours.
            leaving = LEAVING_ID if self._members.has_producers else self.client_id
            await self._unregister(leaving, producer_group=group)

    async def remove_consumer(self, group: str) -> None:
        """Remove the consumer of *group*: the remaining members can have its queues."""
        if self._members.remove_consumer(group):
            await self._unregister(self.client_id, consumer_group=group)

    async def heartbeat_now(self) -> None:
        """Send heartbeats now, because subscriptions changed. As when a member joins."""
        await self._heartbeats.send_to_all()

    async def heartbeat_to(self, address: str) -> None:
        """Send a heartbeat to one broker, which has forgotten us."""
        await self._heartbeats.send_to(address)

    async def _unregister(
        self, client_id: str, *, producer_group: str | None = None, consumer_group: str | None = None
    ) -> None:
        async def tell(address: str) -> None:
            # Brokers handle requests concurrently: wait for a heartbeat in flight that still names the group.
            await self._heartbeats.settled(address)
            await self.api.unregister(
                address,
                client_id,
                producer_group=producer_group,
                consumer_group=consumer_group,
                timeout=self.config.request_timeout_s,
            )

        served_by = {address for broker in self.routes.brokers.values() for address in broker.values()}
        addresses = served_by | self._heartbeats.reached  # also brokers that are in no route any more
        answers = await asyncio.gather(*map(tell, addresses), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, MQError):
                logger.info("unregistering from a broker failed; it will expire this client: %s", answer)
            elif isinstance(answer, BaseException):
                raise answer

    @classmethod
    def _forked(cls) -> None:
        """Drop all cores in a child of os.fork(): they belong to the parent."""
        for cores in list(cls._shared.values()):
            for core in cores:
                core.connector.detach()

    # Background work

    def broker_version(self, address: str) -> int:
        """Return the version of the broker at *address*; 0 if it has not answered a heartbeat yet."""
        return self._heartbeats.versions.get(address, 0)

    def _route_changed(self, topic: str, route: Route | None) -> None:
        if route is not None:
            for name, addresses in route.brokers.items():
                for address in addresses.values():
                    self.api.broker_names[address] = name
        self._heartbeats.send_soon()
        self._rebalance_soon()

    def losses_of(self, broker_name: str) -> int:
        """Return how often the connection to a broker of this name ended: each time the broker forgets us."""
        return self._losses[broker_name]

    def _disconnected(self, connection: Connection) -> None:
        name = self.api.broker_names.get(connection.peer, "")
        self._losses[name] += 1
        self._heartbeats.lost(connection.peer)
        self.routes.broker_lost(name)
        for callback in list(self.on_loss):
            callback(name)

    async def _persist_offsets(self) -> None:
        await for_each(self._persist_offsets_of, list(self._members.consumers.items()))

    async def _persist_offsets_of(self, member: tuple[str, ConsumerMember]) -> None:
        group, consumer = member
        try:
            await consumer.persist_offsets()
        except MQError as error:
            level = logging.DEBUG if group in self._unsaved else logging.WARNING  # once per outage
            self._unsaved.add(group)
            logger.log(level, "offsets of group %s could not be saved, retrying: %s", group, error)
        else:
            self._unsaved.discard(group)

    async def _rebalance(self) -> None:
        self._rebalance_soon()

    def _rebalance_soon(self) -> None:
        for consumer in self._members.consumers.values():
            consumer.rebalance_soon()

    def _spawn(self, work: Coroutine[Any, Any, object], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._background.add(task)
        task.add_done_callback(self._spawned_ended)

    def _spawned_ended(self, task: "asyncio.Task[object]") -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s failed", task.get_name(), exc_info=error)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=Core._forked)


async def _every(seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    """Run *work* at this interval, until cancelled. A failure is logged, and does not stop it."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await work()
        except Exception:
            logger.exception("%s failed", work)
