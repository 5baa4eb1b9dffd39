"""Heartbeats to the brokers, listing our producers and consumers: at once on a change, then every 30 s.

A broker forgets a client when its connection ends, so it gets a heartbeat as soon as the connection is back. A broker
that does not answer is retried after a second, then every three. Same targets as
MQClientInstance.sendHeartbeatToAllBroker: producers go to masters, consumers to every broker.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from hanabi.client.cluster.api import Api
from hanabi.client.cluster.members import Members
from hanabi.client.cluster.routes import MASTER_ID
from hanabi.errors import BrokerError, MQError

RETRY_SECONDS: Final = 1.0  # after the first failure; doubles each time
# Same interval as pulls: a restarted broker delivers nothing to us before our heartbeat.
RETRY_SECONDS_MAX: Final = 3.0

logger = logging.getLogger(__name__)

Brokers = Mapping[str, Mapping[int, str]]


def listeners(brokers: Brokers, *, has_consumers: bool) -> set[str]:
    """Return the addresses that need heartbeats."""
    return {
        address
        for addresses in brokers.values()
        for number, address in addresses.items()
        if has_consumers or number == MASTER_ID
    }


def retry_pause(failures: int) -> float:
    """Return the pause before the next heartbeat after this many failures."""
    return min(RETRY_SECONDS * 2.0 ** min(failures - 1, 10), RETRY_SECONDS_MAX)


class Heartbeats:
    """Heartbeats of one client. `run` until cancelled, then `stop`."""

    def __init__(
        self,
        api: Api,
        members: Members,
        brokers: Callable[[], Brokers],
        *,
        interval_s: float,
        timeout_s: float,
        on_heard: Callable[[], None],
    ) -> None:
        """Make them. *on_heard* is called when a broker has got our first heartbeat."""
        self._api, self._members, self._brokers = api, members, brokers
        self._interval_s, self._timeout_s = interval_s, timeout_s
        self._due: dict[str, float] = {}  # address -> the loop's time of its next heartbeat
        self._failures: dict[str, int] = {}
        self._known_by: set[str] = set()
        self._on_heard = on_heard
        self._beating: dict[str, asyncio.Task[None]] = {}  # the newest of each address
        self._tasks: dict[asyncio.Task[None], str] = {}  # all in flight, and their addresses
        self._wake = asyncio.Event()
        self.versions: dict[str, int] = {}  # address -> version of the broker

    def send_soon(self) -> None:
        """Send heartbeats to brokers that need one: brokers or members may have changed."""
        self._wake.set()

    def lost(self, address: str) -> None:
        """Forget the broker's state: the connection to *address* ended, and the broker has forgotten us."""
        self._known_by.discard(address)
        if address in self._due:
            self._due[address] = 0.0
            self._wake.set()

    async def send_to_all(self) -> None:
        """Send heartbeats to all brokers, and wait for the answers. Raise if one refuses us, but not if one is down."""
        await _heard([self._begin(address) for address in self._listeners()])

    async def send_to(self, address: str) -> None:
        """Send a heartbeat to *address*, or wait for the one in flight. Otherwise as `send_to_all`."""
        await _heard([self._beating.get(address) or self._begin(address)])

    @property
    def reached(self) -> set[str]:
        """Return the addresses that have got our heartbeat, or are about to."""
        return {*self._known_by, *self._tasks.values()}

    async def settled(self, address: str) -> None:
        """Wait until no heartbeat that was started before is in flight to *address*."""
        if under_way := [task for task, target in self._tasks.items() if target == address]:
            await asyncio.wait(under_way)

    async def run(self) -> None:
        """Send heartbeats to every broker, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            now, addresses = loop.time(), self._listeners()
            for gone in self._due.keys() - addresses:
                del self._due[gone]
                self._failures.pop(gone, None)
            for address in addresses:
                if self._due.get(address, 0.0) <= now and address not in self._beating:
                    self._begin(address)
            due = [self._due[address] for address in addresses if address not in self._beating]
            try:
                async with asyncio.timeout_at(min(due, default=now + self._interval_s)):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def stop(self) -> None:
        """Cancel heartbeats in flight."""
        if tasks := list(self._tasks):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def _listeners(self) -> set[str]:
        if not self._members:
            return set()
        return listeners(self._brokers(), has_consumers=bool(self._members.consumers))

    def _begin(self, address: str) -> "asyncio.Task[None]":
        task = asyncio.ensure_future(self._beat(address))
        self._beating[address] = task
        self._tasks[task] = address
        task.add_done_callback(lambda done: self._ended(address, done))
        return task

    async def _beat(self, address: str) -> None:
        self.versions[address] = await self._api.heartbeat(address, self._members.heartbeat_data(), self._timeout_s)

    def _ended(self, address: str, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(task, None)
        if self._beating.get(address) is task:
            del self._beating[address]
        self._wake.set()
        if task.cancelled():
            return
        now = asyncio.get_running_loop().time()
        error = task.exception()
        if error is None:
            self._failures.pop(address, None)
            self._due[address] = now + self._interval_s
            if address not in self._known_by:
                self._known_by.add(address)
                self._on_heard()
            return
        failures = self._failures[address] = self._failures.get(address, 0) + 1
        self._due[address] = now + min(self._interval_s, retry_pause(failures))
        if isinstance(error, MQError):
            level = logging.WARNING if failures == 1 else logging.DEBUG  # once per outage
            logger.log(level, "a broker does not hear from us: %s", error)
        else:
            logger.error("heartbeat to %s failed", address, exc_info=error)


async def _heard(tasks: "list[asyncio.Task[None]]") -> None:
    """Wait for heartbeats. Raise if a broker refuses one, but not if a broker is unreachable."""
    if not tasks:
        return
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled() and isinstance(error := task.exception(), BrokerError):
            raise error
