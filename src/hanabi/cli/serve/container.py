"""`hanabi serve container` once the command line is parsed: a supervisor and its brokers, until a signal."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hanabi.cli.logs.server_logs import RelayedLines
from hanabi.cli.serve import open_doors
from hanabi.cli.serve.process import announce, stop_signal
from hanabi.errors import ConfigError
from hanabi.remoting.address import format_address, listen_problem
from hanabi.supervision.child import Outlet
from hanabi.supervision.lines import named

if TYPE_CHECKING:
    from hanabi.container.config import ContainerConfig
    from hanabi.container.container import Container
    from hanabi.container.member import Member
    from hanabi.remoting.transport.tls import TlsConfig

HANABI = (sys.executable, "-m", "hanabi")
PORT_MAX = 65_535


class ContainerToStart(msgspec.Struct, frozen=True, kw_only=True):
    """A container that is to be started."""

    config: "ContainerConfig"
    host: str
    port: int
    namesrv: str  # for brokers whose file has none
    broker_options: tuple[str, ...]  # for each broker's command line
    metrics_offset: int | None
    metrics_options: tuple[str, ...] = ()  # of a broker with a port for metrics
    tls: "TlsConfig | None"


async def serve_container(wanted: ContainerToStart, *, with_stdin: bool = False) -> None:
    """Start the container and its brokers, and stop them when a signal comes."""
    from hanabi.container.container import Container, Launch

    stopped = stop_signal(with_stdin=with_stdin)
    launch = Launch(
        command=lambda member: broker_command(wanted, member),
        environment={"NAMESRV_ADDR": wanted.namesrv} if wanted.namesrv else {},
    )
    with closing(RelayedLines()) as relayed:
        outlet = Outlet(announce, lambda name, line: relayed.write(named(name, line)))
        await _run(wanted, Container(wanted.config, launch, outlet, tls=wanted.tls), stopped)


async def _run(wanted: ContainerToStart, made: "Container", stopped: asyncio.Event) -> None:
    async with made as container:
        where = format_address((wanted.host, wanted.port))
        try:
            address = await container.start(wanted.host, wanted.port)
        except (OSError, UnicodeError) as error:
            raise ConfigError(f"cannot listen on {where}: {listen_problem(error)}") from error
        open_doors.warn([open_doors.Door(wanted.host, wanted.config.write_protection_enable, wanted.tls)])
        announce(f"ready container {format_address(address)}")
        container.add_configured()
        await stopped.wait()


def broker_command(wanted: ContainerToStart, member: "Member") -> Sequence[str]:
    """Return the command line of one broker."""
    command = [*HANABI, "serve", "broker", "-c", str(member.file), "--with-stdin", "--host", wanted.host]
    if wanted.metrics_offset is not None and 0 < member.listen_port <= PORT_MAX - wanted.metrics_offset:
        command += ["--metrics-port", str(member.listen_port + wanted.metrics_offset), *wanted.metrics_options]
    return [*command, *wanted.broker_options]


def broker_options(tls_file: Path | None, log_level: str, log_json: bool, log_file: bool) -> tuple[str, ...]:
    """Return the options of the container that hold for its brokers, too."""
    options = ["--log-level", log_level]
    if tls_file is not None:
        options += ["--tls-config", str(tls_file)]
    if log_json:
        options.append("--log-json")
    if not log_file:
        options.append("--no-log-file")
    return tuple(options)


def metrics_options(allowed: str | None, token_file: Path | None) -> tuple[str, ...]:
    """Return the options that protect the port for metrics of each broker; raise ConfigError if one is wrong."""
    from hanabi.metrics.protection import read_protection

    read_protection(allowed, token_file)
    options: list[str] = []
    if allowed is not None:
        options += ["--metrics-allow", allowed]
    if token_file is not None:
        options += ["--metrics-token-file", str(token_file)]
    return tuple(options)
