"""The controller: joins the store, the decisions and the transport, and looks for masters that are gone.

async with Controller(ControllerConfig(), home=Path("data"), store=None) as server:
    host, port = await server.start("127.0.0.1", 19876)
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from hanabi.clock import monotonic_ms, wall_ms
from hanabi.controller.changes import Changes
from hanabi.controller.config import ControllerConfig, Settings
from hanabi.controller.handlers import controller_handlers
from hanabi.controller.notices import RoleNotices
from hanabi.controller.rules.election import needs_election
from hanabi.controller.rules.liveness import Liveness
from hanabi.controller.rules.state import BrokerSet
from hanabi.controller.standing import SetStanding, Standing
from hanabi.controller.storage.file_store import FileStore
from hanabi.controller.storage.store import StateStore
from hanabi.errors import MQError
from hanabi.home_lock import HomeLock
from hanabi.remoting.address import format_address
from hanabi.remoting.config import RemotingConfig
from hanabi.remoting.connection.dispatch import Handler
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.connection.turns import with_turns
from hanabi.remoting.transport.server import RemotingServer, ServerStatistics
from hanabi.remoting.transport.tls import TlsConfig
from hanabi.wire.codes import ResponseCode

LATE_MS: Final = 500  # more than a healthy loop is late

logger = logging.getLogger(__name__)


class Controller:
    """Holds the lock on its home from `start` to `stop`. Without *store* the state is a file of the home."""

    def __init__(
        self,
        config: ControllerConfig,
        home: Path,
        store: StateStore | None = None,
        *,
        tls: TlsConfig | None = None,
        now_ms: Callable[[], int] = monotonic_ms,
        around: Callable[[int, Handler], Handler] | None = None,
    ) -> None:
        """*around* wraps the handler of each request code, for measuring its time."""
        self._folder = home.absolute() / "controller"
        self._config, self._tls, self._now_ms = config, tls, now_ms
        self._store = store or FileStore(self._folder)
        self._liveness = Liveness()
        self._lost = asyncio.Event()  # a broker: set by the close of its connection
        self._lock: HomeLock | None = None
        self._server: RemotingServer | None = None
        self._protection = config.write_protection(wall_ms)
        self._notices: RoleNotices | None = None
        self._scanning: asyncio.Task[None] | None = None
        self._around = around
        self._elections = 0
        self._sets: list[BrokerSet] = []  # as the last scan saw them

    async def start(self, host: str, port: int, advertised_host: str | None = None) -> tuple[str, int]:
        """Accept connections, and return the address that was bound. Brokers are told *advertised_host*."""
        self._lock = HomeLock(self._folder)
        try:
            self._settings = Settings(self._config, self._folder / "controller.properties")
            self._changes = Changes(self._store, self._liveness, self._settings, self._now_ms)
            self._notices = RoleNotices(self._tls)
            handlers = controller_handlers(self._changes, self._settings, self._elected, self._now_ms)
            handlers = with_turns(handlers)
            if self._protection is not None:
                handlers = await self._protection.guard(handlers)
            if self._around is not None:
                handlers = {code: self._around(code, handler) for code, handler in handlers.items()}
            self._server = RemotingServer(handlers, RemotingConfig(), tls=self._tls, on_close=self._connection_closed)
            bound = await self._server.start(host, port)
            await self._store.open(format_address((advertised_host or bound[0], bound[1])))
        except BaseException:
            await self.stop()
            raise
        self._scanning = asyncio.create_task(self._scan_for_ever())
        return bound

    async def stop(self, deadline_seconds: float = 5.0) -> None:
        """Hand leadership over, answer what was asked, close all connections, let go of the home."""
        if self._scanning is not None:
            self._scanning.cancel()
            with suppress(asyncio.CancelledError):
                await self._scanning
            self._scanning = None
        if self._protection is not None:
            self._protection.stop()
        try:
            await self._store.close()
            if self._server is not None:
                await self._server.stop(deadline_seconds)
            if self._notices is not None:
                await self._notices.close()
        finally:
            self._server = self._notices = None
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def statistics(self) -> ServerStatistics | None:
        """Return the counters of its port; None while it does not listen."""
        return self._server.statistics() if self._server is not None else None

    def standing(self) -> Standing:
        """Return what an operator watches."""
        alive = {state.name: len(self._changes.alive(state)) for state in self._sets}
        return Standing(
            leads=self._store.leads,
            leader=self._store.leader.address if self._store.leader is not None else None,
            elections=self._elections,
            state_failures=self._store.failures,
            sets=[SetStanding.of(state, alive[state.name]) for state in self._sets],
        )

    async def scan(self) -> None:
        """Elect a successor of every master that is gone."""
        if not self._store.leads:
            self._sets = []  # its leader knows them
            return
        found = await self._store.read_all()
        self._sets = [stored.state for stored in found]
        if not self._changes.has_listened:
            return
        for stored in found:
            if needs_election(stored.state, self._changes.alive(stored.state)):
                await self._elect_successor(stored.state)

    async def _elect_successor(self, state: BrokerSet) -> None:
        decision = await self._changes.elect_successor(state)
        if decision.answer.code == ResponseCode.SUCCESS and decision.state is not None:
            self._elected(decision.state)
        elif decision.state is not state and decision.answer.code == ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE:
            members = ", ".join(map(str, sorted(state.in_sync)))
            logger.error(
                "broker %s has no master: %s is gone, and no replica in sync (%s) is alive; start one of them",
                state.name,
                state.master_id,
                members,
            )

    async def _scan_for_ever(self) -> None:
        """Scan at once when a connection closes or a broker falls silent, else every `scanInactiveMasterInterval`."""
        due_ms = self._now_ms()
        while True:
            lost = await self._next_turn()
            if lost or self._now_ms() >= due_ms:
                due_ms = self._now_ms() + self._config.scan_inactive_master_interval
                try:
                    await self.scan()
                except MQError as error:
                    logger.warning("masters are not checked, retrying: %s", error)

    async def _next_turn(self) -> bool:
        """Wait for a lost connection or the next look at heartbeats; return True if a broker is gone."""
        interval_ms = self._config.scan_not_active_broker_interval
        began_ms = self._now_ms()
        with suppress(TimeoutError):
            async with asyncio.timeout(interval_ms / 1000):
                await self._lost.wait()
        late_ms = self._now_ms() - began_ms - interval_ms
        if late_ms > LATE_MS:
            self._liveness.stalled(late_ms)
        lost = self._lost.is_set()
        self._lost.clear()
        silent = self._liveness.expire(self._now_ms())
        for key in silent:
            logger.warning("broker %s:%d is silent: no heartbeat in its timeout", key.name, key.broker_id)
        return lost or bool(silent)

    def _connection_closed(self, connection: Connection) -> None:
        for key in self._liveness.closed(connection):
            logger.info("broker %s:%d closed its connection", key.name, key.broker_id)
            self._lost.set()

    def _elected(self, state: BrokerSet) -> None:
        self._elections += 1
        logger.info("broker %s: master is %s since epoch %d", state.name, state.master_id, state.master_epoch)
        if self._notices is not None and self._settings.current.notify_broker_role_changed:
            self._notices.send(state, self._changes.alive(state))
