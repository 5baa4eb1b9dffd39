"""The container: brokers as supervised processes, and the port where an operator adds and removes them.

async with Container(ContainerConfig(), launch, outlet) as container:
    host, port = await container.start("127.0.0.1", 10811)
    container.add_configured()
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from hanabi.clock import wall_ms
from hanabi.container.config import ContainerConfig
from hanabi.container.handlers import container_handlers
from hanabi.container.member import Identity, Member, check_beside, read_member
from hanabi.errors import ConfigError
from hanabi.remoting.config import RemotingConfig
from hanabi.remoting.transport.server import RemotingServer
from hanabi.remoting.transport.tls import TlsConfig
from hanabi.supervision.child import Child, Outlet

ADD_SECONDS: Final = 15.0  # mqadmin waits 20 s for the answer
MEMBERS_MAX: Final = 64

logger = logging.getLogger(__name__)


class Launch(NamedTuple):
    """How the process of a broker is started: its command, and what its environment has over ours."""

    command: Callable[[Member], Sequence[str]]
    environment: Mapping[str, str]


class _Running(NamedTuple):
    member: Member
    child: Child


class Container:
    """Brokers of one host, from `start` to `stop`."""

    def __init__(
        self, config: ContainerConfig, launch: Launch, outlet: Outlet, *, tls: TlsConfig | None = None
    ) -> None:
        """Read the files of all configured brokers. Raise ConfigError if one is wrong, or two cannot run together."""
        self._config, self._launch, self._outlet, self._tls = config, launch, outlet, tls
        self._configured: list[Member] = []
        for file in config.files:
            member = read_member(file)
            check_beside(member, self._configured)
            self._configured.append(member)
        self._running: dict[Identity, _Running] = {}
        self._one_at_a_time = asyncio.Lock()
        self._protection = config.write_protection(wall_ms)
        self._server: RemotingServer | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Accept requests, and return the address that was bound."""
        handlers = container_handlers(self, self._config)
        if self._protection is not None:
            handlers = await self._protection.guard(handlers)
        self._server = RemotingServer(handlers, RemotingConfig(), tls=self._tls)
        return await self._server.start(host, port)

    def add_configured(self) -> None:
        """Start the brokers of the settings. One that does not start is tried again; the others serve."""
        for member in self._configured:
            self._supervise(member)

    async def stop(self) -> None:
        """Refuse further requests, stop slaves and then masters, as Java does."""
        if self._protection is not None:
            self._protection.stop()
        if self._server is not None:
            await self._server.stop(1.0)
            self._server = None
        async with self._one_at_a_time:
            for slaves in (True, False):
                some = [each for each in self._running.values() if (each.member.identity.broker_id > 0) == slaves]
                await asyncio.gather(*(each.child.stop() for each in some))
            self._running.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def add(self, file: Path) -> None:
        """Start the broker of *file*. Raise ConfigError if it cannot run here, or ends before it is ready."""
        async with self._one_at_a_time:
            member = await asyncio.to_thread(read_member, file)
            check_beside(member, (each.member for each in self._running.values()))
            if len(self._running) >= MEMBERS_MAX:
                raise ConfigError(f"this container has {MEMBERS_MAX} brokers already: start another container")
            child = self._supervise(member)
            try:
                async with asyncio.timeout(ADD_SECONDS):
                    await child.until_ready()
            except TimeoutError:
                logger.warning("%s is still starting after %g s: it recovers its store", member.label, ADD_SECONDS)
            except ConfigError as error:
                del self._running[member.identity]
                await child.stop()
                raise ConfigError(f"start broker failed: {error}") from error

    async def remove(self, identity: Identity) -> bool:
        """Stop a broker; return False if there is none of that identity."""
        async with self._one_at_a_time:
            found = self._running.pop(identity, None)
            if found is None:
                return False
            await found.child.stop()
            logger.info("%s is removed; its files stay in %s", found.member.label, found.member.home)
            return True

    def _supervise(self, member: Member) -> Child:
        if member.waits_for_its_master:
            logger.warning(
                "%s acts as master without enableRemoteEscape=true in %s: delayed and transactional messages wait for"
                " its master, also if another master runs beside it",
                member.label,
                member.file,
            )
        command, environment = self._launch.command(member), self._launch.environment
        child = Child(f"broker {member.label}", command, self._outlet, environment=environment)
        self._running[member.identity] = _Running(member, child)
        child.start()
        return child
