"""`hanabi serve`: run servers until a signal stops them. Here are the options; see `serving` for what follows.

The servers are imported when they are started, so that the other commands stay quick.
"""

import faulthandler
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from hanabi.cli.logs.log_output import LogLevel
from hanabi.cli.logs.server_logs import ServerLogs, server_logs
from hanabi.cli.serve import options
from hanabi.cli.serve.settings_in_force import (
    Setting,
    Source,
    as_json,
    as_table,
    broker_settings,
    namesrv_settings,
    process_settings,
    struct_settings,
    tls_settings,
)
from hanabi.cli.serve.threads import enough_threads
from hanabi.cli.shared.output import output
from hanabi.cli.shared.tls_file import read_tls
from hanabi.errors import ConfigError, MQError

if TYPE_CHECKING:
    from hanabi.broker.config import BrokerConfig
    from hanabi.cli.serve.container import ContainerToStart
    from hanabi.cli.serve.proxy import ProxyToStart
    from hanabi.cli.serve.serving import BrokerToStart, ControllerToStart, DashboardStart, Grpc, Metrics, Namesrv
    from hanabi.controller.config import ControllerConfig
    from hanabi.namesrv.config import NamesrvConfig
    from hanabi.remoting.transport.tls import TlsConfig

app = typer.Typer(
    help=(
        "Run servers until SIGTERM or SIGINT.\n\n"
        "Without a command: a name server and a broker in one process, which is all that an application needs to begin "
        "with.\n\n"
        "Without a command, the file of the broker may have the name server's writeProtectionEnable, writeAllowedPeers "
        "and writeAllowedCertificates.\n\n"
        'Prints "ready namesrv HOST:PORT" and "ready broker NAME HOST:PORT" on stdout once they accept connections. '
        "Stops cleanly on SIGTERM and SIGINT. What is wrong (a taken port, a bad setting, a data directory that is in "
        "use or cannot be written) is told in one sentence, and the exit code is 2."
    ),
    invoke_without_command=True,
)

DEFAULT_HOME = options.DEFAULT_HOME
EMBEDDED_BROKER_NAME = "broker-a"  # not the host's, which in a container is another at each start
NAMESRV_PORT = 9876
GRPC_PORT = 8081
SHOW_ONLY_OPTIONS = frozenset({"config", "json"})  # options that are about the settings, and none of them


@app.callback()
def both(
    context: typer.Context,
    config_file: options.BrokerFile = None,
    config: options.ShowConfig = False,
    json: options.AsJson = False,
    home: options.StoreHome = None,
    host: options.Host = "127.0.0.1",
    namesrv_port: Annotated[int, options.port_option("--namesrv-port")] = NAMESRV_PORT,
    broker_port: Annotated[int | None, options.port_option("--broker-port", "listenPort of the file, or 10911")] = None,
    namesrv: options.FurtherNamesrvs = None,
    advertise: options.Advertise = None,
    tls_config: options.TlsFile = None,
    log_level: options.LogLevelOption = LogLevel.INFO,
    log_json: options.LogJson = False,
    log_dir: options.LogDir = None,
    log_file: options.LogToFile = True,
    log_file_mib: options.LogFileMib = options.LOG_FILE_MIB,
    log_files: options.LogFiles = options.LOG_FILES,
    with_stdin: options.WithStdin = False,
    metrics_port: options.MetricsPort = None,
    metrics_host: options.MetricsHost = None,
    metrics_series_max: options.MetricsSeriesMax = options.SERIES_MAX,
    metrics_allow: options.MetricsAllow = None,
    metrics_token_file: options.MetricsTokenFile = None,
    dashboard_port: options.DashboardPort = None,
    grpc_port: options.GrpcPort = None,
) -> None:
    if context.invoked_subcommand is not None:
        _refuse_options_before(context, context.invoked_subcommand)
        return
    with _started(context, "hanabi") as start:
        from hanabi.namesrv.config import PROTECTION, embedded_config

        places = home, host, broker_port, namesrv, advertise
        broker = _broker(start, config_file, *places, name=EMBEDDED_BROKER_NAME, other_keys=PROTECTION)
        in_file = _properties(config_file) if config_file is not None else {}
        protection = {key: in_file[key] for key in in_file if key in PROTECTION}
        _namesrv(
            start,
            embedded_config(protection, host, namesrv_port),
            Path(broker.store.root),
            host,
            namesrv_port,
            protection,
        )


@app.command("namesrv")
def namesrv_alone(
    context: typer.Context,
    config_file: options.NamesrvFile = None,
    config: options.ShowConfig = False,
    json: options.AsJson = False,
    home: options.Home = Path(DEFAULT_HOME),
    host: options.Host = "0.0.0.0",  # noqa: S104 - one server alone is reached from other machines
    port: Annotated[int | None, options.port_option("--port", "listenPort of the file, or 9876")] = None,
    controller: options.WithController = False,
    controller_port: Annotated[int | None, options.port_option("--controller-port", "19876")] = None,
    state: options.StateAt = None,
    advertise: options.Advertise = None,
    tls_config: options.TlsFile = None,
    log_level: options.LogLevelOption = LogLevel.INFO,
    log_json: options.LogJson = False,
    log_dir: options.LogDir = None,
    log_file: options.LogToFile = True,
    log_file_mib: options.LogFileMib = options.LOG_FILE_MIB,
    log_files: options.LogFiles = options.LOG_FILES,
    with_stdin: options.WithStdin = False,
    metrics_port: options.MetricsPort = None,
    metrics_host: options.MetricsHost = None,
    metrics_series_max: options.MetricsSeriesMax = options.SERIES_MAX,
    metrics_allow: options.MetricsAllow = None,
    metrics_token_file: options.MetricsTokenFile = None,
) -> None:
    """Run a name server: brokers register with it, clients ask it for routes.

    Prints "ready namesrv HOST:PORT" on stdout once it accepts connections. Stops cleanly on SIGTERM and SIGINT. With
    --controller, or enableControllerInNamesrv=true in the file, a controller runs in the same process on its own port
    (`hanabi serve controller --help`), with its settings in the same file.
    """
    with _started(context, "namesrv") as start:
        from hanabi.controller.config import KEYS as CONTROLLER_KEYS
        from hanabi.controller.config import ControllerConfig
        from hanabi.controller.config import read_config as read_controller_config
        from hanabi.namesrv.config import NamesrvConfig, read_config

        settings = read_config(config_file, also=CONTROLLER_KEYS) if config_file else NamesrvConfig()
        in_file = _properties(config_file) if config_file else {}
        _namesrv(start, settings, home, host, settings.listen_port if port is None else port, in_file)
        if controller or settings.enable_controller_in_namesrv:
            own = read_controller_config(config_file, of_namesrv=True) if config_file else ControllerConfig()
            sources = {key: Source.FILE for key in in_file if key in CONTROLLER_KEYS and key != "listenPort"}
            where = settings.controller_listen_port if controller_port is None else controller_port
            _controller(start, own, sources, home, host, where, state, advertise)
        else:
            _refuse_without_controller(context)


@app.command("broker")
def broker_alone(
    context: typer.Context,
    config_file: options.BrokerFile = None,
    config: options.ShowConfig = False,
    json: options.AsJson = False,
    home: options.StoreHome = None,
    host: options.Host = "0.0.0.0",  # noqa: S104 - one server alone is reached from other machines
    port: Annotated[int | None, options.port_option("--port", "listenPort of the file, or 10911")] = None,
    namesrv: options.Namesrvs = None,
    advertise: options.Advertise = None,
    tls_config: options.TlsFile = None,
    log_level: options.LogLevelOption = LogLevel.INFO,
    log_json: options.LogJson = False,
    log_dir: options.LogDir = None,
    log_file: options.LogToFile = True,
    log_file_mib: options.LogFileMib = options.LOG_FILE_MIB,
    log_files: options.LogFiles = options.LOG_FILES,
    with_stdin: options.WithStdin = False,
    metrics_port: options.MetricsPort = None,
    metrics_host: options.MetricsHost = None,
    metrics_series_max: options.MetricsSeriesMax = options.SERIES_MAX,
    metrics_allow: options.MetricsAllow = None,
    metrics_token_file: options.MetricsTokenFile = None,
    grpc_port: options.GrpcPort = None,
) -> None:
    """Run a broker: it keeps messages, and gives them to consumers.

    Prints "ready broker NAME HOST:PORT" on stdout once it accepts connections. Stops cleanly on SIGTERM and SIGINT. A
    slave (brokerRole=SLAVE in the file) also says which master it follows: "ready broker NAME (slave 1 of HOST:PORT)
    HOST:PORT".

    A name server that cannot be reached is tried again and again; meanwhile the broker serves.
    """
    with _started(context, "broker") as start:
        environment = os.environ.get("NAMESRV_ADDR")
        _broker(start, config_file, home, host, port, namesrv, advertise, default_namesrv=environment)


@app.command("controller")
def controller_alone(
    context: typer.Context,
    config_file: options.ControllerFile = None,
    config: options.ShowConfig = False,
    json: options.AsJson = False,
    home: options.Home = Path(DEFAULT_HOME),
    host: options.Host = "0.0.0.0",  # noqa: S104 - one server alone is reached from other machines
    port: Annotated[int | None, options.port_option("--port", "listenPort of the file, or 19876")] = None,
    state: options.StateAt = None,
    advertise: options.Advertise = None,
    tls_config: options.TlsFile = None,
    log_level: options.LogLevelOption = LogLevel.INFO,
    log_json: options.LogJson = False,
    log_dir: options.LogDir = None,
    log_file: options.LogToFile = True,
    log_file_mib: options.LogFileMib = options.LOG_FILE_MIB,
    log_files: options.LogFiles = options.LOG_FILES,
    with_stdin: options.WithStdin = False,
    metrics_port: options.MetricsPort = None,
    metrics_host: options.MetricsHost = None,
    metrics_series_max: options.MetricsSeriesMax = options.SERIES_MAX,
    metrics_allow: options.MetricsAllow = None,
    metrics_token_file: options.MetricsTokenFile = None,
) -> None:
    """Run a controller: it elects the master of each broker name, for brokers with enableControllerMode=true.

    Prints "ready controller HOST:PORT" on stdout once it accepts connections. Stops cleanly on SIGTERM and SIGINT.
    """
    with _started(context, "controller") as start:
        from hanabi.controller.config import ControllerConfig, read_config

        settings = read_config(config_file) if config_file is not None else ControllerConfig()
        sources = dict.fromkeys(_properties(config_file) if config_file is not None else {}, Source.FILE)
        _controller(start, settings, sources, home, host, port, state, advertise)


@app.command("container")
def container_alone(
    context: typer.Context,
    config_file: options.ContainerFile = None,
    broker_files: options.BrokerFiles = None,
    config: options.ShowConfig = False,
    json: options.AsJson = False,
    home: options.Home = Path(DEFAULT_HOME),
    host: options.Host = "0.0.0.0",  # noqa: S104 - one server alone is reached from other machines
    port: Annotated[int | None, options.port_option("--port", "listenPort of the file, or 10811")] = None,
    namesrv: options.Namesrvs = None,
    metrics_offset: options.MetricsOffset = None,
    metrics_allow: options.MetricsAllow = None,
    metrics_token_file: options.MetricsTokenFile = None,
    tls_config: options.TlsFile = None,
    log_level: options.LogLevelOption = LogLevel.INFO,
    log_json: options.LogJson = False,
    log_dir: options.LogDir = None,
    log_file: options.LogToFile = True,
    log_file_mib: options.LogFileMib = options.LOG_FILE_MIB,
    log_files: options.LogFiles = options.LOG_FILES,
    with_stdin: options.WithStdin = False,
) -> None:
    """Run a container: several brokers on this machine, one process each, so that two machines carry each other's
    slaves.

    Prints "ready container HOST:PORT" on stdout, and "ready broker NAME HOST:PORT" for each broker once it accepts
    connections. A broker that ends is started again, after a pause that grows from 0.5 to 30 s. `mqadmin addBroker` and
    `removeBroker` start and stop a broker. Stops its brokers cleanly on SIGTERM and SIGINT, slaves first.

    Each broker has its own configuration file with its own listenPort and storePathRootDir, and writes its log there;
    --home has only the log of the container. --host, --tls-config and --log-level hold for the brokers, too.
    """
    with _started(context, "container") as start:
        _container(start, config_file, broker_files, home, host, port, namesrv, metrics_offset, tls_config)


@app.command("proxy")
def proxy_alone(
    context: typer.Context,
    config: options.ShowConfig = False,
    json: options.AsJson = False,
    home: options.ProxyHome = Path(DEFAULT_HOME),
    host: options.Host = "0.0.0.0",  # noqa: S104 - one server alone is reached from other machines
    port: Annotated[int, options.port_option("--port")] = GRPC_PORT,
    namesrv: options.ProxyNamesrvs = None,
    advertise: options.ProxyAdvertise = None,
    tls_config: options.ProxyTlsFile = None,
    log_level: options.LogLevelOption = LogLevel.INFO,
    log_json: options.LogJson = False,
    log_dir: options.LogDir = None,
    log_file: options.LogToFile = True,
    log_file_mib: options.LogFileMib = options.LOG_FILE_MIB,
    log_files: options.LogFiles = options.LOG_FILES,
) -> None:
    """Run a proxy: the gRPC API for clients of RocketMQ 5, before the brokers of a cluster, ours or Apache's 5.x.

    It keeps nothing, so several can run side by side. It checks no access: brokers with access control refuse it; use
    --grpc-port of such brokers. Prints "ready proxy HOST:PORT" on stdout once it accepts connections. Stops cleanly on
    SIGTERM and SIGINT.
    """
    with _started(context, "proxy") as start:
        _proxy(start, home, host, port, namesrv or os.environ.get("NAMESRV_ADDR") or "", advertise)


class Start:
    """The servers that one command starts: filled in by the functions below, and then shown or started."""

    def __init__(self, context: typer.Context) -> None:
        self.options = options.ProcessOptions(
            **{
                name: given
                for name, given in context.params.items()
                if name in options.ProcessOptions.__struct_fields__
            }
        )
        given = (name for name in context.params if _is_given(context, name))
        self.given = frozenset(given)
        self.host: str = context.params["host"]
        self.home = Path()
        self.namesrv: Namesrv | None = None
        self.broker: BrokerToStart | None = None
        self.controller: ControllerToStart | None = None
        self.container: ContainerToStart | None = None
        self.proxy: ProxyToStart | None = None
        self.sections: dict[str, Callable[[], list[Setting]]] = {}  # made when they are to be shown
        path: Path | None = context.params["tls_config"]
        self.tls: TlsConfig | None = read_tls(path) if path else None
        if path is not None and self.tls is not None:
            self.sections["tls"] = partial(tls_settings, self.tls, _properties(path))

    @property
    def log_folder(self) -> Path:
        return self.options.log_dir or self.home / "logs"

    def metrics(self) -> "Metrics | None":
        from hanabi.cli.serve.serving import Metrics

        port = self.options.metrics_port
        if port is None:
            return None
        from hanabi.metrics.protection import read_protection

        return Metrics(
            host=self.options.metrics_host or self.host,
            port=port,
            series_max=self.options.metrics_series_max,
            protection=read_protection(self.options.metrics_allow, self.options.metrics_token_file),
        )

    def grpc(self) -> "Grpc | None":
        """Return the gRPC port that is to be opened."""
        from hanabi.cli.serve.serving import Grpc

        port = self.options.grpc_port
        if port is None or self.broker is None:
            return None
        own = self.broker.config.advertised_host if "advertise" in self.given else ""
        return Grpc(host=self.host, port=port, tls=self.tls, advertised_host=own)

    def dashboard(self) -> "DashboardStart | None":
        """Return how to start the dashboard of the servers in this process, if it is wanted."""
        if self.options.dashboard_port is None:
            return None
        from hanabi.cli.serve.dashboard import REQUEST_SECONDS, dashboard_config, running
        from hanabi.cli.shared.cluster import request_seconds
        from hanabi.client.config import ClientConfig

        config = dashboard_config(home=self.home / "dashboard", port=self.options.dashboard_port)
        seconds, tls = request_seconds(REQUEST_SECONDS), self.tls
        return lambda namesrv: running(config, ClientConfig(namesrv=namesrv or "", tls=tls, request_timeout_s=seconds))


@contextmanager
def _started(context: typer.Context, name: str) -> Iterator[Start]:
    """Let the block say what to start; then show it, if that was asked for, or start it. *name* is that of the log."""
    show, json = context.params["config"], context.params["json"]
    if json and not show:
        raise ConfigError("--json goes with --config")
    with enough_threads(), server_logs(context.params["log_level"], as_json=context.params["log_json"]) as logs:
        try:
            start = Start(context)
            yield start
            if show:
                _show(start, json)
            else:
                _open_log_file(logs, start, name)
                _report_fatal_signals()
                _run(start)
        except MQError as error:
            logs.note_failure(str(error))
            raise


def _report_fatal_signals() -> None:
    """Let a signal that ends the process leave a stack on stderr: SIGBUS, where a mapped file cannot be read."""
    if not faulthandler.is_enabled():
        with suppress(OSError, ValueError):  # stderr is no stream of the system: a program embeds us
            faulthandler.enable(sys.stderr)


def _show(start: Start, json: bool) -> None:
    given = start.given - SHOW_ONLY_OPTIONS
    values = {
        "home": start.home.absolute(),
        "host": start.host,
        **msgspec.structs.asdict(start.options),
        "log_dir": start.log_folder.absolute() if start.options.log_file else None,
        "metrics_host": start.options.metrics_host or start.host,
    }
    own = process_settings(
        {f"--{name.replace('_', '-')}": value for name, value in values.items()},
        [f"--{name.replace('_', '-')}" for name in given],
    )
    sections = {**{name: settings() for name, settings in start.sections.items()}, "process": own}
    with output() as write:
        write(as_json(sections) if json else as_table(sections))


def _open_log_file(logs: ServerLogs, start: Start, name: str) -> None:
    wanted = start.options
    if not wanted.log_file:
        logs.without_file()
        return
    path = start.log_folder / f"{name}.log"
    try:
        logs.open_file(path, bytes_max=wanted.log_file_mib * options.MIB, files_max=wanted.log_files)
    except OSError as error:
        reason = error.strerror or str(error)
        if wanted.log_dir is None:  # then the data cannot be written either
            raise ConfigError(f"home {start.home} cannot be written: {path}: {reason}") from error
        raise ConfigError(f"--log-dir {wanted.log_dir} cannot be written: {path}: {reason}") from error


def _run(start: Start) -> None:
    from hanabi.cli.serve.serving import serve
    from hanabi.remoting.loop import run
    from hanabi.remoting.transport.descriptors import raise_descriptor_limit

    raise_descriptor_limit()
    until = start.options.with_stdin
    if start.container is not None:
        from hanabi.cli.serve.container import serve_container

        run(serve_container(start.container, with_stdin=until))
        return
    if start.proxy is not None:
        from hanabi.cli.serve.proxy import serve_proxy

        run(serve_proxy(start.proxy))
        return
    servers = start.namesrv, start.broker, start.metrics(), start.controller, start.dashboard(), start.grpc()
    run(serve(*servers, with_stdin=until))


def _refuse_without_controller(context: typer.Context) -> None:
    for name in ("controller_port", "state", "advertise"):
        if _is_given(context, name):
            raise ConfigError(f"--{name.replace('_', '-')} of a name server goes with --controller")


def _namesrv(
    start: Start, config: "NamesrvConfig", home: Path, host: str, port: int, in_file: Mapping[str, str]
) -> "Namesrv":
    """*in_file*: keys of the file that are the name server's."""
    from hanabi.cli.serve.serving import Namesrv

    sources = dict.fromkeys(in_file, Source.FILE)
    if start.given & {"port", "namesrv_port"}:
        sources["listenPort"] = Source.COMMAND_LINE
    in_force = msgspec.structs.replace(config, listen_port=port)
    start.home = home
    start.sections["namesrv"] = partial(namesrv_settings, in_force, home.absolute(), sources, in_file)
    start.namesrv = Namesrv(config=config, home=home, host=host, port=port, tls=start.tls)
    return start.namesrv


def _proxy(start: Start, home: Path, host: str, port: int, namesrv: str, advertise: str | None) -> None:
    from hanabi.cli.serve.proxy import ProxyToStart
    from hanabi.remoting.address import parse_address

    names = tuple(part.strip() for part in namesrv.split(";") if part.strip())
    if not names:
        raise ConfigError("a proxy needs name servers: --namesrv HOST:PORT, or the variable NAMESRV_ADDR")
    for name in names:
        try:
            parse_address(name)
        except ValueError as error:
            raise ConfigError(f"name server {error}") from error
    start.home = home
    advertised = _parse_advertise(advertise) if advertise is not None else None
    start.proxy = ProxyToStart(host=host, port=port, name_servers=names, advertised=advertised, tls=start.tls)


def _controller(
    start: Start,
    config: "ControllerConfig",
    sources: dict[str, Source],
    home: Path,
    host: str,
    port: int | None,
    state: str | None,
    advertise: str | None,
) -> None:
    from hanabi.cli.serve.serving import ControllerToStart
    from hanabi.controller.storage.etcd_access import etcd_access
    from hanabi.controller.storage.etcd_client import parse_endpoints

    if port is not None:
        sources["listenPort"] = Source.COMMAND_LINE
        config = msgspec.structs.replace(config, listen_port=port)
    access = None
    if state is not None:
        parse_endpoints(state)
        access = etcd_access(
            state,
            ca_cert=config.etcd_ca_cert,
            cert=config.etcd_cert,
            key=config.etcd_key,
            user=config.etcd_user,
            password_file=config.etcd_password_file,
        )
    advertised = _parse_advertise(advertise)[0] if advertise is not None else ""
    start.home = home
    start.sections["controller"] = partial(struct_settings, config, sources)
    start.controller = ControllerToStart(
        config=config,
        home=home,
        host=host,
        port=config.listen_port,
        state=state,
        access=access,
        advertised_host=advertised,
        tls=start.tls,
    )


def _container(
    start: Start,
    file: Path | None,
    broker_files: str | None,
    home: Path,
    host: str,
    port: int | None,
    namesrv: str | None,
    metrics_offset: int | None,
    tls_file: Path | None,
) -> None:
    from hanabi.cli.serve.container import ContainerToStart, broker_options, metrics_options
    from hanabi.container.config import ContainerConfig, read_config

    config = read_config(file) if file is not None else ContainerConfig()
    sources = dict.fromkeys(_properties(file) if file is not None else {}, Source.FILE)
    given = {"listenPort": port, "brokerConfigPaths": broker_files, "namesrvAddr": namesrv}
    sources |= {key: Source.COMMAND_LINE for key, value in given.items() if value is not None}
    if namesrv is None and not config.namesrv_addr and (environment := os.environ.get("NAMESRV_ADDR")):
        namesrv, sources["namesrvAddr"] = environment, Source.ENVIRONMENT
    config = msgspec.structs.replace(
        config,
        listen_port=config.listen_port if port is None else port,
        broker_config_paths=config.broker_config_paths if broker_files is None else broker_files,
        namesrv_addr=namesrv or config.namesrv_addr,
    )
    start.home = home
    start.sections["container"] = partial(struct_settings, config, sources)
    process = start.options
    if metrics_offset is None and start.given & {"metrics_allow", "metrics_token_file"}:
        raise ConfigError("--metrics-allow and --metrics-token-file of a container go with --metrics-offset")
    start.container = ContainerToStart(
        config=config,
        host=host,
        port=config.listen_port,
        namesrv=config.namesrv_addr,
        broker_options=broker_options(tls_file, process.log_level.value, process.log_json, process.log_file),
        metrics_offset=metrics_offset,
        metrics_options=metrics_options(process.metrics_allow, process.metrics_token_file),
        tls=start.tls,
    )


def _broker(
    start: Start,
    file: Path | None,
    home: Path | None,
    host: str,
    port: int | None,
    namesrv: str | None,
    advertise: str | None,
    *,
    name: str | None = None,
    default_namesrv: str | None = None,
    other_keys: Collection[str] = (),
) -> "BrokerToStart":
    """Return what the file says, and over it what the command line says. *name* is for a new broker that no file
    describes, *default_namesrv* for one without name servers in its settings. *other_keys* are another server's."""
    from hanabi.broker.config import BROKER_KEYS, BrokerConfig, read_broker_config
    from hanabi.broker.tables.home_name import remembered_name
    from hanabi.cli.serve.serving import BrokerToStart
    from hanabi.store.config import StoreConfig

    in_file: Mapping[str, str] = {}
    if file is not None:
        config, store = read_broker_config(file, also=other_keys)
        in_file = {
            key: value for key, value in _properties(file).items() if key in BROKER_KEYS or key not in other_keys
        }
    else:
        config, store = (BrokerConfig(broker_name=name) if name else BrokerConfig()), StoreConfig(root=DEFAULT_HOME)
    sources = dict.fromkeys(in_file, Source.FILE)
    if home is not None:
        store = msgspec.structs.replace(store, root=str(home))
        sources["storePathRootDir"] = Source.COMMAND_LINE
    if "brokerName" not in in_file and (known := remembered_name(Path(store.root))):
        config = msgspec.structs.replace(config, broker_name=known)
        sources["brokerName"] = Source.HOME
    if namesrv is not None or not config.namesrv_addr:
        config = msgspec.structs.replace(config, namesrv_addr=namesrv or default_namesrv or "")
        if namesrv is not None:
            sources["namesrvAddr"] = Source.COMMAND_LINE
        elif default_namesrv:
            sources["namesrvAddr"] = Source.ENVIRONMENT
    if advertise is not None:
        advertised, advertised_port = _parse_advertise(advertise)
        config = msgspec.structs.replace(config, advertised_host=advertised, advertised_port=advertised_port)
        sources["brokerIP1"] = sources["advertisedPort"] = Source.COMMAND_LINE
    if port is not None:
        sources["listenPort"] = Source.COMMAND_LINE
    _check_addresses(config)
    listen_port = config.listen_port if port is None else port
    in_force = msgspec.structs.replace(config, listen_port=listen_port)
    start.home = Path(store.root)
    start.sections["broker"] = partial(broker_settings, in_force, store, sources, in_file)
    start.broker = BrokerToStart(config=config, store=store, host=host, port=listen_port, tls=start.tls)
    return start.broker


def _properties(path: Path) -> dict[str, str]:
    """Return a file that was read before, as it is."""
    from hanabi.wire.java_properties import decode_properties

    return decode_properties(path.read_bytes())


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
    """Refuse an address that cannot be one: it would be retried for ever."""
    from hanabi.remoting.address import parse_address

    for address in config.namesrv_addresses:
        try:
            parse_address(address)
        except ValueError as error:
            raise ConfigError(f"name server {error}") from error


def _refuse_options_before(context: typer.Context, command: str) -> None:
    """Refuse options of `hanabi serve` itself before one of its commands: they would have no effect."""
    for name in context.params:
        if _is_given(context, name):
            raise ConfigError(
                f"options stand behind the command: hanabi serve {command} --{name.replace('_', '-')} ..."
            )


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
