"""The port for operators: /metrics, /health and /ready of all servers in this process.

    port = MetricsPort()
    await port.start("127.0.0.1", 9464)              before the servers, which may take a while to start
    NameServer(..., around=port.namesrv_times.around)   then `port.namesrv_started(server)`
    Broker(..., around=port.broker_times.around)        then `port.broker_started(broker)`; `around_fast_path`, too

A scrape is made in slices of a millisecond with longer pauses between them, so that tens of thousands of samples do not
stall the event loop. Concurrent scrapes share one result.
"""

import asyncio
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from itertools import chain
from time import perf_counter
from typing import Final

import msgspec

from hanabi.broker.broker import Broker
from hanabi.broker.pull.long_polling import HeldPull
from hanabi.controller.controller import Controller
from hanabi.metrics.broker_metrics import SERIES_MAX, DiskFacts, broker_lines, disk_facts
from hanabi.metrics.controller_metrics import controller_lines
from hanabi.metrics.exposition import CONTENT_TYPE, histogram
from hanabi.metrics.http_server import HttpServer, Page
from hanabi.metrics.loop_delay import BOUNDS, LoopDelay
from hanabi.metrics.namesrv_metrics import namesrv_lines
from hanabi.metrics.process import ProcessFacts, process_facts, process_lines
from hanabi.metrics.protection import OPEN, Protection
from hanabi.metrics.readiness import OK, STARTING, STOPPING, broker_checks, controller_checks
from hanabi.metrics.request_times import RequestTimes
from hanabi.metrics.server_metrics import server_lines, together
from hanabi.namesrv.name_server import NameServer
from hanabi.remoting.transport.server import ServerStatistics

TURN_SECONDS: Final = 0.001
PAUSE_SECONDS: Final = 0.002
_LINES_A_LOOK: Final = 32  # at the clock
_INDEX: Final = b"""\
/metrics  figures, as Prometheus reads them
/health   whether the process answers
/ready    whether it should be given work
"""


class _State(msgspec.Struct):
    """The answer of /ready."""

    ready: bool
    checks: dict[str, str]


class MetricsPort:
    """Holds its port from `start` to `stop`."""

    def __init__(
        self,
        *,
        expects: Iterable[str] = (),
        series_max: int = SERIES_MAX,
        protection: Protection = OPEN,
    ) -> None:
        """*expects*: the servers, by name, without which this process is not ready."""
        self.namesrv_times = RequestTimes()
        self.controller_times = RequestTimes()
        self.broker_times = RequestTimes(is_held=lambda answer: isinstance(answer, HeldPull))
        self._series_max = series_max
        self._waits_for = dict.fromkeys(expects, STARTING)
        self._namesrv: NameServer | None = None
        self._broker: Broker | None = None
        self._controller: Controller | None = None
        self._loop_delay = LoopDelay()
        self._scrape: asyncio.Task[list[bytes]] | None = None
        pages = {"/metrics": self._metrics, "/health": self._health, "/ready": self._ready, "/": self._index}
        self._http = HttpServer(pages, protection=protection)
        self.is_protected = protection.is_on

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen, and return the address that was bound; a taken port is a ConfigError."""
        bound = await self._http.start(host, port)
        self._loop_delay.start()
        return bound

    async def stop(self) -> None:
        self._loop_delay.stop()
        if self._scrape is not None:
            self._scrape.cancel()
        await self._http.stop()

    def namesrv_started(self, server: NameServer) -> None:
        self._namesrv = server
        self._waits_for.pop("namesrv", None)

    def broker_started(self, broker: Broker) -> None:
        self._broker = broker
        self._waits_for.pop("broker", None)

    def controller_started(self, controller: Controller) -> None:
        self._controller = controller
        self._waits_for.pop("controller", None)

    def stopping(self) -> None:
        """Stop showing the servers' metrics and report not ready, as the servers are about to stop."""
        self._waits_for["servers"] = STOPPING
        self._namesrv = self._broker = self._controller = None
        if self._scrape is not None:
            self._scrape.cancel()

    # Pages

    async def _index(self) -> Page:
        return Page(_INDEX)

    async def _health(self) -> Page:
        return Page(b"ok\n")  # an answer proves that the event loop runs

    async def _ready(self) -> Page:
        checks = dict(self._waits_for)
        if self._namesrv is not None:
            checks["namesrv"] = OK
        if self._controller is not None:
            checks |= controller_checks(self._controller)
        if self._broker is not None:
            checks |= broker_checks(self._broker)
        state = _State(all(said == OK for said in checks.values()), checks)
        status = HTTPStatus.OK if state.ready else HTTPStatus.SERVICE_UNAVAILABLE
        return Page(msgspec.json.encode(state) + b"\n", "application/json", status)

    async def _metrics(self) -> Page:
        if self._scrape is None:
            self._scrape = asyncio.create_task(self._in_slices())
            self._scrape.add_done_callback(self._scraped)
        return Page(await asyncio.shield(self._scrape), CONTENT_TYPE)

    def _scraped(self, _: object) -> None:
        self._scrape = None

    async def _in_slices(self) -> list[bytes]:
        broker = self._broker
        process, disk = await asyncio.to_thread(_outside, broker)
        pieces: list[bytes] = []
        lines: list[str] = []
        turn_ends = perf_counter() + TURN_SECONDS
        for number, line in enumerate(self._lines(process, disk)):
            lines.append(line)
            if number % _LINES_A_LOOK == 0 and perf_counter() > turn_ends:
                pieces.append("".join(lines).encode())
                lines.clear()
                await asyncio.sleep(PAUSE_SECONDS)
                turn_ends = perf_counter() + TURN_SECONDS
        pieces.append("".join(lines).encode())
        return pieces

    def _lines(self, process: ProcessFacts, disk: DiskFacts | None) -> Iterator[str]:
        servers, times = self._servers()
        delay = self._loop_delay.times
        return chain(
            process_lines(process),
            histogram(
                "hanabi_loop_delay_seconds",
                "Delay of the event loop, sampled ten times a second.",
                BOUNDS,
                [({}, delay.counts.copy(), delay.seconds)],
            ),
            server_lines(servers, times),
            namesrv_lines(self._namesrv) if self._namesrv is not None else (),
            controller_lines(self._controller, self._series_max) if self._controller is not None else (),
            broker_lines(self._broker, disk, self._series_max) if self._broker is not None and disk is not None else (),
        )

    def _servers(self) -> tuple[dict[str, ServerStatistics], dict[str, RequestTimes]]:
        servers: dict[str, ServerStatistics] = {}
        times: dict[str, RequestTimes] = {}
        if self._namesrv is not None and (statistics := self._namesrv.statistics()) is not None:
            servers["namesrv"], times["namesrv"] = statistics, self.namesrv_times
        if self._controller is not None and (statistics := self._controller.statistics()) is not None:
            servers["controller"], times["controller"] = statistics, self.controller_times
        if self._broker is not None:
            servers["broker"] = together([server.statistics() for server in self._broker.servers])
            times["broker"] = self.broker_times
        return servers, times


def _outside(broker: Broker | None) -> tuple[ProcessFacts, DiskFacts | None]:
    """Return the figures that need system calls."""
    return process_facts(), disk_facts(broker) if broker is not None else None
