"""The work of `hanabi serve` once the command line is parsed: servers on one loop, until a signal.

Each server says "ready" on stdout when it and the other one accept connections. The modules of the servers are
imported here and not at the top, so that every other command stays quick.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hanabi.cli.serve import open_doors
from hanabi.cli.serve.garbage import collect_when_idle
from hanabi.cli.serve.process import announce, stop_signal
from hanabi.cli.serve.threads import start_pool
from hanabi.errors import ConfigError
from hanabi.remoting.address import format_address, listen_problem

if TYPE_CHECKING:
    from hanabi.broker.broker import Broker
    from hanabi.broker.config import BrokerConfig
    from hanabi.controller.config import ControllerConfig
    from hanabi.controller.storage.etcd_client import EtcdAccess
    from hanabi.metrics.port import MetricsPort
    from hanabi.metrics.protection import Protection
    from hanabi.namesrv.config import NamesrvConfig
    from hanabi.remoting.transport.tls import TlsConfig
    from hanabi.store.config import StoreConfig

logger = logging.getLogger(__name__)

_ANY_TO_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where a listener on all of them is reached
_REGISTRATION_SECONDS = 1.0


class Namesrv(msgspec.Struct, frozen=True, kw_only=True):
    """A name server that is to be started."""

    config: "NamesrvConfig"
    home: Path
    host: str
    port: int
    tls: "TlsConfig | None"


class BrokerToStart(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that is to be started."""

    config: "BrokerConfig"
    store: "StoreConfig"
    host: str
    port: int
    tls: "TlsConfig | None"


class ControllerToStart(msgspec.Struct, frozen=True, kw_only=True):
    """A controller that is to be started."""

    config: "ControllerConfig"
    home: Path
    host: str
    port: int
    state: str | None  # etcd://HOST:PORT[,HOST:PORT]; None: a file of the home
    access: "EtcdAccess | None"  # to etcd
    advertised_host: str  # empty: where it listens, or the machine's address
    tls: "TlsConfig | None"


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """A port for operators that is to be opened."""

    host: str
    port: int
    series_max: int
    protection: "Protection"


class Grpc(msgspec.Struct, frozen=True, kw_only=True):
    """A port of the gRPC API that is to be opened."""

    host: str
    port: int
    tls: "TlsConfig | None"
    advertised_host: str = ""  # empty: clients are told the address that they used


# From the address of the name server in this process, if there is one, to a running dashboard and its ready lines.
DashboardStart = Callable[[str | None], AbstractAsyncContextManager[list[str]]]


async def serve(
    namesrv: Namesrv | None,
    broker: BrokerToStart | None,
    metrics: Metrics | None = None,
    controller: ControllerToStart | None = None,
    dashboard: DashboardStart | None = None,
    grpc: Grpc | None = None,
    *,
    with_stdin: bool = False,
) -> None:
    """Start what there is, the name server first, and stop in the opposite order when a signal comes.

    No server is reported ready before all are: a reader of the first line may take it for a successful start.
    The operators' port opens first and closes last, so that they can see what a server waits for.
    """
    stopped = stop_signal(with_stdin=with_stdin)
    start_pool(asyncio.get_running_loop())
    if broker is not None:
        _check(broker)
    ready: list[str] = []
    own_namesrv: str | None = None
    async with AsyncExitStack() as servers:
        port: MetricsPort | None = None
        if metrics is not None:
            port, metrics_address = await _open_metrics(metrics, namesrv, broker, controller, servers)
        if namesrv is not None:
            address = await _start_namesrv(namesrv, servers, port)
            ready.append(f"ready namesrv {format_address(address)}")
            own_namesrv = _reachable(address)
            if broker is not None:
                broker = _registered_with(broker, own_namesrv)
        if controller is not None:
            address = await _start_controller(controller, servers, port)
            ready.append(f"ready controller {format_address(address)}")
        if broker is not None:
            ready += await _start_broker(broker, servers, port, grpc)
        if dashboard is not None:
            ready += await servers.enter_async_context(dashboard(own_namesrv))
        if port is not None:
            ready.append(f"ready metrics {format_address(metrics_address)}")
            servers.callback(port.stopping)
            open_doors.warn_metrics(metrics_address[0], port.is_protected)
        open_doors.warn(_doors(namesrv, broker, controller))
        async with collecting():
            for line in ready:
                announce(line)
            await stopped.wait()


def _doors(
    namesrv: Namesrv | None, broker: BrokerToStart | None, controller: ControllerToStart | None
) -> Iterator[open_doors.Door]:
    if namesrv is not None:
        yield open_doors.Door(namesrv.host, namesrv.config.write_protection_enable, namesrv.tls)
    if broker is not None:
        yield open_doors.Door(broker.host, broker.config.checks_access, broker.tls)
    if controller is not None:
        yield open_doors.Door(controller.host, controller.config.write_protection_enable, controller.tls)


@asynccontextmanager
async def collecting() -> AsyncIterator[None]:
    """Collect garbage when the loop is idle."""
    task = asyncio.create_task(collect_when_idle())
    await asyncio.sleep(0)  # the first collection is over before anybody is served
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _open_metrics(
    wanted: Metrics,
    namesrv: Namesrv | None,
    broker: BrokerToStart | None,
    controller: ControllerToStart | None,
    servers: AsyncExitStack,
) -> "tuple[MetricsPort, tuple[str, int]]":
    from hanabi.metrics.port import MetricsPort

    all_servers = (("namesrv", namesrv), ("controller", controller), ("broker", broker))
    expected = [name for name, server in all_servers if server is not None]
    port = MetricsPort(expects=expected, series_max=wanted.series_max, protection=wanted.protection)
    address = await port.start(wanted.host, wanted.port)
    servers.push_async_callback(port.stop)
    return port, address


async def _start_namesrv(wanted: Namesrv, servers: AsyncExitStack, port: "MetricsPort | None") -> tuple[str, int]:
    from hanabi.namesrv.name_server import NameServer

    around = port.namesrv_times.around if port is not None else None
    server = await servers.enter_async_context(NameServer(wanted.config, wanted.home, tls=wanted.tls, around=around))
    where = format_address((wanted.host, wanted.port))
    try:
        address = await server.start(wanted.host, wanted.port)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"cannot listen on {where}: {listen_problem(error)}") from error
    if port is not None:
        port.namesrv_started(server)
    return address


async def _start_controller(
    wanted: ControllerToStart, servers: AsyncExitStack, port: "MetricsPort | None"
) -> tuple[str, int]:
    from hanabi.broker.addresses import advertised_host
    from hanabi.controller.controller import Controller

    store = None
    if wanted.state is not None:
        from hanabi.controller.storage.etcd_client import EtcdClient, parse_endpoints
        from hanabi.controller.storage.etcd_store import EtcdStore

        client = EtcdClient(parse_endpoints(wanted.state), access=wanted.access)
        store = EtcdStore(client, wanted.home.absolute() / "controller")
    around = port.controller_times.around if port is not None else None
    server = await servers.enter_async_context(
        Controller(wanted.config, wanted.home, store, tls=wanted.tls, around=around)
    )
    told = advertised_host(wanted.advertised_host, wanted.host)
    try:
        address = await server.start(wanted.host, wanted.port, told)
    except (OSError, UnicodeError) as error:
        where = format_address((wanted.host, wanted.port))
        raise ConfigError(f"cannot listen on {where}: {listen_problem(error)}") from error
    if port is not None:
        port.controller_started(server)
    return address


async def _start_grpc(wanted: Grpc, broker: "Broker", servers: AsyncExitStack) -> str:
    """Open the gRPC port of *broker*; return its ready line."""
    try:
        from hanabi.grpc.serving.port import BrokerPort
    except ImportError as error:
        raise ConfigError(f"--grpc-port needs the extra grpc: pip install 'hanabi-mq[grpc]' ({error})") from error

    advertised = (wanted.advertised_host, 0) if wanted.advertised_host else None
    port = BrokerPort(broker, tls=wanted.tls, advertised=advertised)
    servers.push_async_callback(port.stop)
    return f"ready grpc {format_address(await port.start(wanted.host, wanted.port))}"


async def _start_broker(
    wanted: BrokerToStart, servers: AsyncExitStack, port: "MetricsPort | None", grpc: Grpc | None
) -> list[str]:
    """Start the broker; return its ready lines."""
    from hanabi.broker.broker import Broker

    times = port.broker_times if port is not None else None
    around, around_fast_path = (times.around, times.around_fast_path) if times is not None else (None, None)
    broker = await servers.enter_async_context(
        Broker(wanted.config, wanted.store, tls=wanted.tls, around=around, around_fast_path=around_fast_path)
    )
    address = await broker.start(wanted.host, wanted.port)
    if port is not None:
        port.broker_started(broker)
    if not wanted.config.namesrv_addresses:
        logger.warning(
            "no name server is set, so only clients that know this broker's address find it: --namesrv HOST:PORT,"
            " namesrvAddr in the file or the variable NAMESRV_ADDR sets one"
        )
    # A reader of the line may ask for a route at once. A name server that does not answer is no reason to wait long.
    with suppress(TimeoutError):
        async with asyncio.timeout(_REGISTRATION_SECONDS):
            await broker.registration.until_registered()
    ready = f"ready broker {wanted.config.broker_name} {_role(broker)}{format_address(address)}"
    return [ready] if grpc is None else [ready, await _start_grpc(grpc, broker, servers)]


def _role(broker: "Broker") -> str:
    """Return the part of the ready line about the role; a controller may change role and id at any time."""
    if broker.settings.broker.controller_mode_enabled:
        return "(controller mode) "
    return f"({broker.slave_side.summary()}) " if broker.slave_side is not None else ""


def _check(wanted: BrokerToStart) -> None:
    """Raise what is wrong with the settings, before anything runs and says that it is ready."""
    from hanabi.broker.broker import Broker

    Broker(wanted.config, wanted.store, tls=wanted.tls)


def _reachable(address: tuple[str, int]) -> str:
    """Return the address by which this process reaches its own listener."""
    return format_address((_ANY_TO_LOOPBACK.get(address[0], address[0]), address[1]))


def _registered_with(broker: BrokerToStart, own: str) -> BrokerToStart:
    """*broker*, which is also to register with the name server at *own*, in this process."""
    addresses = ";".join(dict.fromkeys((own, *broker.config.namesrv_addresses)))
    config = msgspec.structs.replace(broker.config, namesrv_addr=addresses)
    return msgspec.structs.replace(broker, config=config)
