"""A simulated controller: the real handlers and rules over a state in memory. A restart loses the heartbeats only."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from hanabi.controller.changes import Changes
from hanabi.controller.config import ControllerConfig, Settings
from hanabi.controller.handlers import controller_handlers
from hanabi.controller.rules.election import needs_election
from hanabi.controller.rules.liveness import Liveness
from hanabi.controller.rules.state import BrokerSet
from hanabi.controller.storage.store import ABSENT, Member, Stored
from hanabi.errors import ConnectError, MQError
from hanabi.remoting.connection.dispatch import Reply
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.header import Header, header_fields
from tests.simulation.network import Network

HOST = "10.0.0.100"
ADDRESS = f"{HOST}:19876"
SCAN_SECONDS = 0.2
_SELF = Member("n0", ADDRESS)


class MemoryStore:
    """States that survive restarts of the controller."""

    failures = 0

    def __init__(self, network: Network, note: Callable[[str], None]) -> None:
        self._network, self._note = network, note
        self._states: dict[str, Stored] = {}
        self._revision = 0
        self.leads, self.leader, self.members = True, _SELF, [_SELF]

    async def open(self, address: str) -> None: ...
    async def close(self) -> None: ...

    async def read(self, name: str) -> Stored | None:
        return self._states.get(name)

    async def read_all(self) -> list[Stored]:
        return list(self._states.values())

    async def write(self, name: str, revision: int, state: BrokerSet | None) -> bool:
        await asyncio.sleep(self._network.delay())
        present = self._states.get(name)
        if (present.revision if present is not None else ABSENT) != revision:
            return False
        self._revision += 1
        assert state is not None
        self._states[name] = Stored(state, self._revision)
        self._note(
            f"controller: master {state.master_id} of epoch {state.master_epoch}, in sync {sorted(state.in_sync)}"
            f" since {state.sync_epoch}"
        )
        return True


class SimController:
    """The controller. `elected` gets each new state with a new master."""

    def __init__(
        self,
        network: Network,
        config: ControllerConfig,
        elected: Callable[[BrokerSet], None],
        note: Callable[[str], None],
    ) -> None:
        self.store, self._config, self._on_elected = MemoryStore(network, note), config, elected
        self.is_up = False
        self._lost = asyncio.Event()
        self._scanning: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.is_up = True
        self._liveness = Liveness()
        settings = Settings(self._config, Path("/nonexistent/controller.properties"))
        self._changes = Changes(self.store, self._liveness, settings, self._now_ms)
        self._handlers = controller_handlers(self._changes, settings, self._on_elected, self._now_ms)
        self._scanning = asyncio.create_task(self._scan())

    def stop(self) -> None:
        self.is_up = False
        if self._scanning is not None:
            self._scanning.cancel()

    async def state(self) -> BrokerSet | None:
        stored = await self.store.read_all()
        return stored[0].state if stored else None

    async def hears(self, broker_ids: set[int]) -> bool:
        """Return whether all these brokers are alive for the controller."""
        state = await self.state()
        return state is not None and self.is_up and broker_ids <= self._changes.alive(state).keys()

    def closed(self, connection: object) -> None:
        """Notice that a broker's connection has ended."""
        if self.is_up and self._liveness.closed(connection):
            self._lost.set()

    async def handle(self, code: RequestCode, header: Header, body: bytes, connection: Any) -> Command:
        if not self.is_up:
            raise ConnectError("the controller is down")
        reply = self._handlers[code].handle(header, Command(code=code, body=body), connection)
        if not isinstance(reply, Reply):
            reply = await reply
        assert isinstance(reply.body, bytes)
        fields = header_fields(reply.header) if reply.header is not None else {}
        return Command(
            code=reply.code,
            remark=reply.remark,
            raw_fields=msgspec.Raw(msgspec.json.encode(fields)),
            body=reply.body,
        )

    @staticmethod
    def _now_ms() -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    async def _scan(self) -> None:
        """Elect successors, as `Controller` does: at once when a connection closes, else by silence."""
        while True:
            try:
                async with asyncio.timeout(SCAN_SECONDS):
                    await self._lost.wait()
            except TimeoutError:
                pass
            self._lost.clear()
            self._liveness.expire(self._now_ms())
            if not self._changes.has_listened:
                continue
            for stored in await self.store.read_all():
                if needs_election(stored.state, self._changes.alive(stored.state)):
                    try:
                        decision = await self._changes.elect_successor(stored.state)
                    except MQError:
                        continue
                    if decision.answer.code == ResponseCode.SUCCESS and decision.state is not None:
                        self._on_elected(decision.state)
