"""The name server: joins the table, the files and the transport, and looks for silent brokers.

    async with NameServer(NamesrvConfig(), home=Path("data")) as server:
        host, port = await server.start("127.0.0.1", 9876)

Nothing here is global: any number of them run in one process, each with a home of its own.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from hanabi.clock import monotonic_ms, wall_ms
from hanabi.home_lock import HomeLock
from hanabi.namesrv.broker_notices import BrokerNotices
from hanabi.namesrv.config import NamesrvConfig
from hanabi.namesrv.handlers import namesrv_handlers
from hanabi.namesrv.kv_config import KVConfig
from hanabi.namesrv.route_table import RouteTable
from hanabi.namesrv.scan_timer import ScanTimer
from hanabi.namesrv.settings import Settings
from hanabi.remoting.connection.dispatch import Handler
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.connection.turns import with_turns
from hanabi.remoting.transport.server import RemotingServer, ServerStatistics
from hanabi.remoting.transport.tls import TlsConfig
from hanabi.wire.codes import RequestCode

logger = logging.getLogger(__name__)


class NameServer:
    """Holds the lock on its home from `start` to `stop`."""

    def __init__(
        self,
        config: NamesrvConfig,
        home: Path,
        *,
        tls: TlsConfig | None = None,
        now_ms: Callable[[], int] = monotonic_ms,
        scan_seconds: float | None = None,
        around: Callable[[int, Handler], Handler] | None = None,
    ) -> None:
        """*scan_seconds*: interval of the scan for silent brokers, if not the configured one. *around* wraps the
        handler of each request code, for measuring its time."""
        self.routes = RouteTable(config.routes(), shows_acting_masters=config.support_acting_master)
        self._notices = BrokerNotices(tls) if config.notify_min_broker_id_changed else None
        if self._notices is not None:
            self.routes.on_smallest_changed = self._notices.smallest_changed
        self._folder = home.absolute() / "namesrv"
        self._config = _with_paths(config, home.absolute(), self._folder)
        self._tls = tls
        self._now_ms = now_ms
        self._timer = ScanTimer(self.scan, scan_seconds or config.scan_not_active_broker_interval / 1000)
        self._around = around
        self._protection = config.write_protection(wall_ms)
        self._lock: HomeLock | None = None
        self._server: RemotingServer | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Accept connections, and return the address that was bound. A taken port is an OSError."""
        self._lock = HomeLock(self._folder)
        try:
            kv = KVConfig(Path(self._config.kv_config_path))
            settings = Settings(self._config, Path(self._config.config_store_path))
            handlers = _in_turn(namesrv_handlers(self.routes, kv, settings, self._now_ms))
            if self._protection is not None:
                handlers = await self._protection.guard(handlers)
            if self._around is not None:
                handlers = {code: self._around(code, handler) for code, handler in handlers.items()}
            self._server = RemotingServer(
                handlers,
                self._config.remoting(),
                tls=self._tls,
                on_close=self._connection_closed,
            )
            bound = await self._server.start(host, port)
        except BaseException:
            self._release()
            raise
        self._timer.start()
        return bound

    async def stop(self, deadline_seconds: float = 5.0) -> None:
        """Answer what was asked, close all connections, let go of the home."""
        self._timer.cancel()
        if self._protection is not None:
            self._protection.stop()
        try:
            if self._notices is not None:
                await self._notices.stop()
            if self._server is not None:
                await self._server.stop(deadline_seconds)
        finally:
            self._release()

    def statistics(self) -> ServerStatistics | None:
        """Return the counters of its port; None while it does not listen."""
        return self._server.statistics() if self._server is not None else None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def scan(self) -> None:
        """Forget the brokers that were silent for too long, and close connections that no other broker uses."""
        for member in self.routes.expire(self._now_ms()):
            if isinstance(member.owner, Connection) and not self.routes.owns_brokers(member.owner):
                member.owner.close(f"broker {member} was silent for more than {member.silence_ms_max} ms")

    def _connection_closed(self, connection: Connection) -> None:
        self.routes.owner_gone(connection)

    def _release(self) -> None:
        self._server = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _with_paths(config: NamesrvConfig, home: Path, folder: Path) -> NamesrvConfig:
    """*config* with the paths that it leaves open. Changed settings are always kept below the home: RocketMQ's files
    name the configuration file itself there, and that is the operator's."""
    store = folder / "namesrv.properties"
    if config.config_store_path not in ("", str(store)):
        logger.info("settings changed at run time are kept in %s, not in configStorePath", store)
    return msgspec.structs.replace(
        config,
        rocketmq_home=config.rocketmq_home or str(home),
        kv_config_path=config.kv_config_path or str(folder / "kvConfig.json"),
        config_store_path=str(store),
    )


def _in_turn(handlers: dict[int, Handler]) -> dict[int, Handler]:
    """Return *table* with handlers that take turns, except the one for routes, which clients need at once."""
    route = RequestCode.GET_ROUTEINFO_BY_TOPIC
    return {**with_turns(handlers), route: handlers[route]}
