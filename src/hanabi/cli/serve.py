"""`hanabi serve`: run servers until a signal stops them.

The servers are imported when they are started, so that the other commands stay quick.
"""

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hanabi.cli.log_output import LogLevel, configure_logging
from hanabi.errors import ConfigError

if TYPE_CHECKING:
    from hanabi.namesrv.config import NamesrvConfig
    from hanabi.remoting.tls import TlsConfig

logger = logging.getLogger(__name__)

app = typer.Typer(help="Run a server until SIGTERM or SIGINT.", no_args_is_help=True)

ConfigFile = Annotated[
    Path | None,
    typer.Option("-c", "--config", metavar="FILE", help="RocketMQ's configuration file, for example namesrv.conf."),
]
Home = Annotated[Path, typer.Option("--home", metavar="DIR", help="Where data is kept; made if it is not there.")]
Host = Annotated[str, typer.Option("--host", metavar="ADDR", help="Address or host name to listen on.")]
Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        min=0,
        max=65535,
        show_default="listenPort of the file, or 9876",
        help="Port to listen on, 0 for any free one.",
    ),
]
TlsFile = Annotated[
    Path | None, typer.Option("--tls-config", metavar="FILE", help="RocketMQ's tls.properties. Without it, no TLS.")
]
LogLevelOption = Annotated[LogLevel, typer.Option("--log-level", help="How much is logged, on stderr.")]
LogJson = Annotated[bool, typer.Option("--log-json", help="Log one JSON object a line.")]


@app.callback()
def _serve() -> None:
    pass


@app.command()
def namesrv(
    config: ConfigFile = None,
    home: Home = Path("hanabi-data"),
    host: Host = "0.0.0.0",  # noqa: S104 - one server alone is for others to reach
    port: Port = None,
    tls_config: TlsFile = None,
    log_level: LogLevelOption = LogLevel.INFO,
    log_json: LogJson = False,
) -> None:
    """Run a name server: brokers register with it, clients ask it for routes.

    Prints "ready namesrv HOST:PORT" on stdout once it accepts connections. Stops cleanly on SIGTERM and SIGINT.
    """
    configure_logging(log_level, as_json=log_json)
    from hanabi.namesrv.config import NamesrvConfig, read_config
    from hanabi.remoting.descriptors import raise_descriptor_limit
    from hanabi.remoting.loop import run

    raise_descriptor_limit()
    settings = read_config(config) if config else NamesrvConfig()
    tls = _read_tls(tls_config) if tls_config else None
    run(_serve_namesrv(settings, home, host, settings.listen_port if port is None else port, tls))


async def _serve_namesrv(config: "NamesrvConfig", home: Path, host: str, port: int, tls: "TlsConfig | None") -> None:
    from hanabi.namesrv.name_server import NameServer
    from hanabi.remoting.address import format_address

    stopped = _stop_signal()
    async with NameServer(config, home, tls=tls) as server:
        try:
            address = await server.start(host, port)
        except OSError as error:
            raise ConfigError(f"cannot listen on {format_address((host, port))}: {error.strerror or error}") from error
        except UnicodeError as error:  # a name that cannot be one: an empty label, or one of more than 63 letters
            raise ConfigError(f"cannot listen on {format_address((host, port))}: not a host name") from error
        _announce(f"ready namesrv {format_address(address)}")
        await stopped.wait()


def _read_tls(path: Path) -> "TlsConfig":
    from hanabi.remoting.tls import tls_config
    from hanabi.wire.java_properties import decode_properties

    try:
        return tls_config(decode_properties(path.read_bytes()))
    except OSError as error:
        raise ConfigError(f"--tls-config {path}: {error.strerror or error}") from error
    except ConfigError as error:
        raise ConfigError(f"--tls-config {path}: {error}") from error


def _announce(line: str) -> None:
    """Tell whoever started us; at once, also through a pipe. That nobody can hear it is no reason not to serve."""
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except OSError as error:
        logger.warning("%s (stdout cannot be written: %s)", line, error.strerror or error)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())  # what the stream still holds goes there, and not to an error at the exit
        os.close(null)


def _stop_signal() -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, stopped.set)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stopped.set))
    return stopped
