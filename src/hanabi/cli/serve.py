"""`hanabi serve`: run servers until a signal stops them. Here are the options; see `serving` for what follows.

The servers are imported when they are started, so that the other commands stay quick.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from hanabi.cli.log_output import LogLevel, configure_logging
from hanabi.cli.tls_file import read_tls
from hanabi.errors import ConfigError

if TYPE_CHECKING:
    from hanabi.broker.config import BrokerConfig
    from hanabi.cli.serving import BrokerToStart, Namesrv
    from hanabi.namesrv.config import NamesrvConfig
    from hanabi.remoting.tls import TlsConfig

app = typer.Typer(
    help=(
        "Run servers until SIGTERM or SIGINT.\n\n"
        "Without a command: a name server and a broker in one process, which is all that an application needs to begin "
        "with.\n\n"
        'Prints "ready namesrv HOST:PORT" and "ready broker NAME HOST:PORT" on stdout once they accept connections. '
        "Stops cleanly on SIGTERM and SIGINT. What is wrong (a taken port, a bad setting, a data directory that is in "
        "use or cannot be written) is told in one sentence, and the exit code is 2."
    ),
    invoke_without_command=True,
)

DEFAULT_HOME = "hanabi-data"
EMBEDDED_BROKER_NAME = "broker-a"  # not the host's, which in a container is another at each start
NAMESRV_PORT = 9876

Home = Annotated[Path, typer.Option("--home", metavar="DIR", help="Where data is kept; made if it is not there.")]
StoreHome = Annotated[
    Path | None,
    typer.Option(
        "--home",
        metavar="DIR",
        show_default=f"storePathRootDir of the file, or {DEFAULT_HOME}",
        help="Where messages and tables are kept (RocketMQ's store directory); made if it is not there.",
    ),
]
Host = Annotated[str, typer.Option("--host", metavar="ADDR", help="Address or host name to listen on.")]
NamesrvFile = Annotated[
    Path | None,
    typer.Option("-c", "--config", metavar="FILE", help="RocketMQ's configuration file, for example namesrv.conf."),
]
BrokerFile = Annotated[
    Path | None,
    typer.Option("-c", "--config", metavar="FILE", help="RocketMQ's configuration file, for example broker.conf."),
]
Namesrvs = Annotated[
    str | None,
    typer.Option(
        "-n",
        "--namesrv",
        metavar="ADDR[;ADDR]",
        show_default="namesrvAddr of the file, or $NAMESRV_ADDR",
        help="Name servers to register with, each HOST:PORT.",
    ),
]
FurtherNamesrvs = Annotated[
    str | None,
    typer.Option(
        "-n",
        "--namesrv",
        metavar="ADDR[;ADDR]",
        show_default="namesrvAddr of the file",
        help="Further name servers to register with, each HOST:PORT.",
    ),
]
Advertise = Annotated[
    str | None,
    typer.Option(
        "--advertise",
        metavar="HOST[:PORT]",
        show_default="brokerIP1 of the file, or where it listens",
        help="Address or host name that clients are told to use.",
    ),
]
TlsFile = Annotated[
    Path | None, typer.Option("--tls-config", metavar="FILE", help="RocketMQ's tls.properties. Without it, no TLS.")
]
LogLevelOption = Annotated[LogLevel, typer.Option("--log-level", help="How much is logged, on stderr.")]
LogJson = Annotated[bool, typer.Option("--log-json", help="Log one JSON object a line.")]


def _port(option: str, default: str | bool = True) -> Any:
    return typer.Option(option, min=0, max=65535, show_default=default, help="Port to listen on, 0 for any free one.")


@app.callback()
def both(
    context: typer.Context,
    config: BrokerFile = None,
    home: StoreHome = None,
    host: Host = "127.0.0.1",
    namesrv_port: Annotated[int, _port("--namesrv-port")] = NAMESRV_PORT,
    broker_port: Annotated[int | None, _port("--broker-port", "listenPort of the file, or 10911")] = None,
    namesrv: FurtherNamesrvs = None,
    advertise: Advertise = None,
    tls_config: TlsFile = None,
    log_level: LogLevelOption = LogLevel.INFO,
    log_json: LogJson = False,
) -> None:
    if context.invoked_subcommand is not None:
        _refuse_options_before(context, context.invoked_subcommand)
        return
    configure_logging(log_level, as_json=log_json)
    from hanabi.namesrv.config import NamesrvConfig

    tls = read_tls(tls_config) if tls_config else None
    broker = _broker(config, home, host, broker_port, namesrv, advertise, tls, name=EMBEDDED_BROKER_NAME)
    _run(_namesrv(NamesrvConfig(), Path(broker.store.root), host, namesrv_port, tls), broker)


@app.command("namesrv")
def namesrv_alone(
    config: NamesrvFile = None,
    home: Home = Path(DEFAULT_HOME),
    host: Host = "0.0.0.0",  # noqa: S104 - one server alone is for others to reach
    port: Annotated[int | None, _port("--port", "listenPort of the file, or 9876")] = None,
    tls_config: TlsFile = None,
    log_level: LogLevelOption = LogLevel.INFO,
    log_json: LogJson = False,
) -> None:
    """Run a name server: brokers register with it, clients ask it for routes.

    Prints "ready namesrv HOST:PORT" on stdout once it accepts connections. Stops cleanly on SIGTERM and SIGINT.
    """
    configure_logging(log_level, as_json=log_json)
    from hanabi.namesrv.config import NamesrvConfig, read_config

    settings = read_config(config) if config else NamesrvConfig()
    tls = read_tls(tls_config) if tls_config else None
    _run(_namesrv(settings, home, host, settings.listen_port if port is None else port, tls), None)


@app.command("broker")
def broker_alone(
    config: BrokerFile = None,
    home: StoreHome = None,
    host: Host = "0.0.0.0",  # noqa: S104 - one server alone is for others to reach
    port: Annotated[int | None, _port("--port", "listenPort of the file, or 10911")] = None,
    namesrv: Namesrvs = None,
    advertise: Advertise = None,
    tls_config: TlsFile = None,
    log_level: LogLevelOption = LogLevel.INFO,
    log_json: LogJson = False,
) -> None:
    """Run a broker: it keeps messages, and gives them to consumers.

    Prints "ready broker NAME HOST:PORT" on stdout once it accepts connections. Stops cleanly on SIGTERM and SIGINT.

    A name server that cannot be reached is tried again and again; meanwhile the broker serves.
    """
    configure_logging(log_level, as_json=log_json)
    tls = read_tls(tls_config) if tls_config else None
    broker = _broker(config, home, host, port, namesrv, advertise, tls, default_namesrv=os.environ.get("NAMESRV_ADDR"))
    _run(None, broker)


def _run(namesrv: "Namesrv | None", broker: "BrokerToStart | None") -> None:
    from hanabi.cli.serving import serve
    from hanabi.remoting.descriptors import raise_descriptor_limit
    from hanabi.remoting.loop import run

    raise_descriptor_limit()
    run(serve(namesrv, broker))


def _namesrv(config: "NamesrvConfig", home: Path, host: str, port: int, tls: "TlsConfig | None") -> "Namesrv":
    from hanabi.cli.serving import Namesrv

    return Namesrv(config=config, home=home, host=host, port=port, tls=tls)


def _broker(
    file: Path | None,
    home: Path | None,
    host: str,
    port: int | None,
    namesrv: str | None,
    advertise: str | None,
    tls: "TlsConfig | None",
    *,
    name: str | None = None,
    default_namesrv: str | None = None,
) -> "BrokerToStart":
    """What the file says, and over it what the command line says. *name* is for a broker that no file describes,
    *default_namesrv* for one that nobody has told its name servers."""
    from hanabi.broker.config import BrokerConfig, read_broker_config
    from hanabi.cli.serving import BrokerToStart
    from hanabi.store.config import StoreConfig

    if file is not None:
        config, store = read_broker_config(file)
    else:
        config, store = (BrokerConfig(broker_name=name) if name else BrokerConfig()), StoreConfig(root=DEFAULT_HOME)
    if home is not None:
        store = msgspec.structs.replace(store, root=str(home))
    if namesrv is not None or not config.namesrv_addr:
        config = msgspec.structs.replace(config, namesrv_addr=namesrv or default_namesrv or "")
    if advertise is not None:
        advertised, advertised_port = _parse_advertise(advertise)
        config = msgspec.structs.replace(config, advertised_host=advertised, advertised_port=advertised_port)
    _check_addresses(config)
    return BrokerToStart(
        config=config, store=store, host=host, port=config.listen_port if port is None else port, tls=tls
    )


def _parse_advertise(text: str) -> tuple[str, int]:
    """Host and port of HOST[:PORT]; port 0 means the one that is listened on."""
    from hanabi.remoting.address import parse_address

    is_bare_v6 = text.count(":") > 1 and not text.startswith("[")
    if is_bare_v6 or ":" not in text.rpartition("]")[2]:
        host = text.strip().removeprefix("[").removesuffix("]")
        if not host:
            raise ConfigError("--advertise needs a host")
        return host, 0
    try:
        return parse_address(text)
    except ValueError as error:
        raise ConfigError(f"--advertise {error}") from error


def _check_addresses(config: "BrokerConfig") -> None:
    """An address that cannot be one would be tried for ever without success."""
    from hanabi.remoting.address import parse_address

    for address in config.namesrv_addresses:
        try:
            parse_address(address)
        except ValueError as error:
            raise ConfigError(f"name server {error}") from error


def _refuse_options_before(context: typer.Context, command: str) -> None:
    """Options of `hanabi serve` itself do nothing for its commands, and whoever wrote them thinks they do."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise ConfigError(
                f"options stand behind the command: hanabi serve {command} --{name.replace('_', '-')} ..."
            )
