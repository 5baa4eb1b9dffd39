"""The options of `hanabi serve` and its commands: names, help, defaults. What they do is in `serve`."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from hanabi.cli.logs.log_file import FILE_BYTES_MAX, FILES_MAX
from hanabi.cli.logs.log_output import LogLevel

DEFAULT_HOME = "hanabi-data"
MIB = 1 << 20
LOG_FILE_MIB = FILE_BYTES_MAX // MIB
SERIES_MAX = 20_000  # samples of one family; as `hanabi.metrics` has it, which is not imported before it is wanted

_IN_FILES, _METRICS = "Log files", "Metrics, health and dashboard"


class ProcessOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the process, not of a server in it."""

    log_level: LogLevel
    log_json: bool
    log_dir: Path | None
    log_file: bool
    log_file_mib: int
    log_files: int
    metrics_port: int | None = None  # this and what follows: not of every server
    metrics_host: str | None = None
    metrics_series_max: int = SERIES_MAX
    metrics_allow: str | None = None
    metrics_token_file: Path | None = None
    dashboard_port: int | None = None
    grpc_port: int | None = None
    with_stdin: bool = False


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
    typer.Option(
        "-c", "--config-file", metavar="FILE", help="RocketMQ's configuration file, for example namesrv.conf."
    ),
]
BrokerFile = Annotated[
    Path | None,
    typer.Option("-c", "--config-file", metavar="FILE", help="RocketMQ's configuration file, for example broker.conf."),
]
ControllerFile = Annotated[
    Path | None,
    typer.Option(
        "-c", "--config-file", metavar="FILE", help="RocketMQ's configuration file, for example controller.conf."
    ),
]
ContainerFile = Annotated[
    Path | None,
    typer.Option(
        "-c", "--config-file", metavar="FILE", help="RocketMQ's configuration file, for example container.conf."
    ),
]
BrokerFiles = Annotated[
    str | None,
    typer.Option(
        "-b",
        "--broker-files",
        metavar="FILE[:FILE]",
        show_default="brokerConfigPaths of the file",
        help="Configuration files of the brokers, for example a.conf:b.conf.",
    ),
]
MetricsOffset = Annotated[
    int | None,
    typer.Option(
        "--metrics-offset",
        metavar="N",
        min=2,
        max=10_000,
        show_default="none",
        help="Give each broker a port for /metrics, /health and /ready: its listenPort plus N.",
        rich_help_panel=_METRICS,
    ),
]
WithStdin = Annotated[
    bool,
    typer.Option("--with-stdin", help="Stop at the end of stdin, too: with the program that started it."),
]
WithController = Annotated[bool, typer.Option("--controller", help="Run a controller in this process, too.")]
StateAt = Annotated[
    str | None,
    typer.Option(
        "--state",
        metavar="URL",
        show_default="a file below --home",
        help="Where elections are kept, for several controllers: etcd://HOST:PORT,HOST:PORT, with TLS etcds://...",
    ),
]
ShowConfig = Annotated[
    bool, typer.Option("--config", help="Show the settings in force and where each comes from, and exit.")
]
AsJson = Annotated[bool, typer.Option("--json", help="With --config: as JSON.")]
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
ProxyNamesrvs = Annotated[
    str | None,
    typer.Option(
        "-n",
        "--namesrv",
        metavar="ADDR[;ADDR]",
        show_default="$NAMESRV_ADDR",
        help="Name servers of the cluster, each HOST:PORT.",
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
ProxyAdvertise = Annotated[
    str | None,
    typer.Option(
        "--advertise",
        metavar="HOST[:PORT]",
        show_default="the endpoint that a client has asked with",
        help="Address or host name that clients are told to use.",
    ),
]
ProxyHome = Annotated[
    Path, typer.Option("--home", metavar="DIR", help="Where log files are kept, in logs; a proxy keeps nothing else.")
]
ProxyTlsFile = Annotated[
    Path | None,
    typer.Option(
        "--tls-config",
        metavar="FILE",
        show_default="plain, and TLS with a certificate made at the start",
        help="RocketMQ's tls.properties.",
    ),
]
TlsFile = Annotated[
    Path | None, typer.Option("--tls-config", metavar="FILE", help="RocketMQ's tls.properties. Without it, no TLS.")
]
LogLevelOption = Annotated[
    LogLevel, typer.Option("--log-level", metavar="LEVEL", help="How much is logged: debug, info, warning or error.")
]
LogJson = Annotated[bool, typer.Option("--log-json", help="Log one JSON object a line.")]
LogDir = Annotated[
    Path | None,
    typer.Option(
        "--log-dir",
        metavar="DIR",
        show_default="logs in the home",
        help="Where log files are kept.",
        rich_help_panel=_IN_FILES,
    ),
]
LogToFile = Annotated[
    bool,
    typer.Option("--log-file/--no-log-file", help="Log into files too, not only on stderr.", rich_help_panel=_IN_FILES),
]
LogFileMib = Annotated[
    int,
    typer.Option(
        "--log-file-mib",
        metavar="N",
        min=1,
        max=10_240,
        help="Begin a new file after so many MiB.",
        rich_help_panel=_IN_FILES,
    ),
]
LogFiles = Annotated[
    int,
    typer.Option("--log-files", metavar="N", min=1, max=1_000, help="Keep so many files.", rich_help_panel=_IN_FILES),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        metavar="PORT",
        min=0,
        max=65535,
        show_default="none",
        help="Port for /metrics (Prometheus), /health and /ready, 0 for any free one.",
        rich_help_panel=_METRICS,
    ),
]
MetricsHost = Annotated[
    str | None,
    typer.Option(
        "--metrics-host",
        metavar="ADDR",
        show_default="as --host",
        help="Address or host name to listen on for them.",
        rich_help_panel=_METRICS,
    ),
]
MetricsSeriesMax = Annotated[
    int,
    typer.Option(
        "--metrics-series-max",
        metavar="N",
        min=0,
        help="How many topics, groups and queues each metric may show.",
        rich_help_panel=_METRICS,
    ),
]
MetricsAllow = Annotated[
    str | None,
    typer.Option(
        "--metrics-allow",
        metavar="ADDR,...",
        show_default="all",
        help="Addresses and networks that may read them.",
        rich_help_panel=_METRICS,
    ),
]
MetricsTokenFile = Annotated[
    Path | None,
    typer.Option(
        "--metrics-token-file",
        metavar="FILE",
        show_default="$HANABI_METRICS_TOKEN, or none",
        help="The first line is a token; readers that show it (Authorization: Bearer) may read them.",
        rich_help_panel=_METRICS,
    ),
]

DashboardPort = Annotated[
    int | None,
    typer.Option(
        "--dashboard-port",
        metavar="PORT",
        min=0,
        max=65535,
        show_default="none",
        help="Port of the dashboard on 127.0.0.1, 0 for any free one. `hanabi dashboard` has more options.",
        rich_help_panel=_METRICS,
    ),
]

GrpcPort = Annotated[
    int | None,
    typer.Option(
        "--grpc-port",
        metavar="PORT",
        min=0,
        max=65535,
        show_default="none",
        help="Port of the gRPC API for RocketMQ 5.x clients, usually 8081, 0 for any free one; plain and TLS.",
    ),
]

LOG_FILES = FILES_MAX


def port_option(option: str, default: str | bool = True) -> Any:
    return typer.Option(
        option, metavar="PORT", min=0, max=65535, show_default=default, help="Port to listen on, 0 for any free one."
    )
