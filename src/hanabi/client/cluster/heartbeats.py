"""Telling the brokers that we are here, and with whom: at once when that changes, then every 30 s.

A broker forgets a client whose connection ended, so it hears from us again as soon as the connection is back, and one
that does not answer is tried again after a second, then every three. Agrees with
MQClientInstance.sendHeartbeatToAllBroker in who is told: masters hear of producers, every broker of consumers.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from hanabi.client.cluster.api import Api
from hanabi.client.cluster.members import Members
from hanabi.client.cluster.routes import MASTER_ID
from hanabi.errors import BrokerError, MQError

RETRY_SECONDS: Final = 1.0  # after the first failure; then twice as long each time
# As often as it is pulled from: until it hears from us, a broker that is back has nothing for us.
RETRY_SECONDS_MAX: Final = 3.0

logger = logging.getLogger(__name__)

Brokers = Mapping[str, Mapping[int, str]]


def listeners(brokers: Brokers, *, has_consumers: bool) -> set[str]:
    """The addresses that must hear from us."""
    return {
        address
        for addresses in brokers.values()
        for number, address in addresses.items()
        if has_consumers or number == MASTER_ID
    }


def retry_pause(failures: int) -> float:
    """How long to wait for the next after so many that failed."""
    return min(RETRY_SECONDS * 2.0 ** min(failures - 1, 10), RETRY_SECONDS_MAX)


class Heartbeats:
    """The heartbeats of one client. `run` until cancelled, then `stop`."""

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
        """*on_heard* is called when a broker knows us that did not before."""
        self._api, self._members, self._brokers = api, members, brokers
        self._interval_s, self._timeout_s = interval_s, timeout_s
        self._due: dict[str, float] = {}  # address -> the loop's time of its next heartbeat
        self._failures: dict[str, int] = {}
        self._known_by: set[str] = set()
        self._on_heard = on_heard
        self._beating: dict[str, asyncio.Task[None]] = {}  # the newest of each address
        self._tasks: dict[asyncio.Task[None], str] = {}  # all that are under way, and where to
        self._wake = asyncio.Event()
        self.versions: dict[str, int] = {}  # address -> the version that the broker claims

    def soon(self) -> None:
        """Brokers, or what to tell them, may have changed: those that have not heard are told now."""
        self._wake.set()

    def lost(self, address: str) -> None:
        """The connection to *address* ended, and with it what the broker knew of us."""
        self._known_by.discard(address)
        if address in self._due:
            self._due[address] = 0.0
            self._wake.set()

    async def everybody_now(self) -> None:
        """Tell all brokers, and wait for their answers. One that refuses us is raised; one that is down is not."""
        await _heard([self._begin(address) for address in self._listeners()])

    async def now(self, address: str) -> None:
        """Tell the broker at *address*, or wait for the heartbeat that is on its way to it. As `everybody_now`."""
        await _heard([self._beating.get(address) or self._begin(address)])

    @property
    def told(self) -> set[str]:
        """The addresses that have heard from us, or are about to."""
        return {*self._known_by, *self._tasks.values()}

    async def settled(self, address: str) -> None:
        """Wait until no heartbeat that was begun before is on its way to *address*: answered, or given up."""
        if under_way := [task for task, target in self._tasks.items() if target == address]:
            await asyncio.wait(under_way)

    async def run(self) -> None:
        """Keep every broker informed, until cancelled."""
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
        """End what is under way."""
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
            level = logging.WARNING if failures == 1 else logging.DEBUG  # once an outage
            logger.log(level, "a broker does not hear from us: %s", error)
        else:
            logger.error("heartbeat to %s failed", address, exc_info=error)


async def _heard(tasks: "list[asyncio.Task[None]]") -> None:
    """Wait for heartbeats. One that a broker refuses is raised; one that does not reach it is not."""
    if not tasks:
        return
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled() and isinstance(error := task.exception(), BrokerError):
            raise error
