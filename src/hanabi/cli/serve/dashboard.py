"""`hanabi dashboard`: run the dashboard until a signal stops it; and the part of it that `hanabi serve` needs.

The dashboard is an extra: without its packages, the command says which extra installs them.
"""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hanabi.cli.logs.log_output import LogLevel, configure_logging
from hanabi.cli.serve import options
from hanabi.cli.shared import cluster
from hanabi.errors import ConfigError

if TYPE_CHECKING:
    from hanabi.client.config import ClientConfig
    from hanabi.dashboard.config import DashboardConfig

REQUEST_SECONDS = 2.5  # a page waits 3 s
EXTRA = "the dashboard needs packages that are not installed: pip install 'hanabi-mq[dashboard]'"

AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host",
        metavar="NAME",
        show_default="localhost and addresses",
        help="A host name by which browsers may reach it; may be given several times.",
    ),
]
TrustedProxy = Annotated[
    list[str] | None,
    typer.Option(
        "--trusted-proxy",
        metavar="ADDR",
        show_default="none",
        help="Address of a proxy in front of it, whose X-Forwarded-For and X-Forwarded-Proto count.",
    ),
]


def dashboard(
    namesrv: cluster.Namesrv = None,
    access_key: cluster.AccessKey = None,
    tls_config: cluster.TlsFile = None,
    host: options.Host = "127.0.0.1",
    port: Annotated[int, options.port_option("--port")] = 8080,
    home: Annotated[Path, typer.Option("--home", metavar="DIR", help="Where users and the audit log are kept.")] = Path(
        "hanabi-dashboard"
    ),
    password_file: Annotated[
        Path | None,
        typer.Option(
            "--password-file",
            metavar="FILE",
            show_default="made at the first start, and printed once",
            help="File with the password of the first administrator.",
        ),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse everything that changes the cluster.")] = False,
    allow_host: AllowHost = None,
    trusted_proxy: TrustedProxy = None,
    certificate: Annotated[
        Path | None, typer.Option("--certificate", metavar="FILE", show_default="no TLS", help="PEM file: talk HTTPS.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option("--key", metavar="FILE", help="PEM file of the certificate's key.")
    ] = None,
    pipelines: Annotated[
        Path | None,
        typer.Option(
            "--pipelines",
            metavar="DIR",
            show_default="none",
            help="Folder with reports of `hanabi pipeline run --report DIR`, to show them.",
        ),
    ] = None,
    broker_login: Annotated[
        bool,
        typer.Option(
            "--broker-login",
            help="Let accounts of the brokers log in, too: the brokers then decide what they may.",
        ),
    ] = False,
    alerts: Annotated[
        Path | None,
        typer.Option(
            "--alerts",
            metavar="FILE",
            show_default="the default limits, no webhook",
            help="YAML file with the limits of alerts and a webhook.",
        ),
    ] = None,
    log_level: options.LogLevelOption = LogLevel.INFO,
    log_json: options.LogJson = False,
) -> None:
    """Run the dashboard: see and operate a cluster, Hanabi's or Apache's, in a browser.

    Prints "ready dashboard URL" on stdout once it accepts connections; at its first start also the password of the
    user admin. Stops cleanly on SIGTERM and SIGINT.
    """
    from hanabi.cli.serve.serving import serve
    from hanabi.remoting.loop import run

    configure_logging(log_level, as_json=log_json)
    config = dashboard_config(
        home=home,
        host=host,
        port=port,
        read_only=read_only,
        allowed_hosts=tuple(allow_host or ()),
        trusted_proxies=tuple(trusted_proxy or ()),
        password_file=password_file,
        certificate=certificate,
        key=key,
        alerts_file=alerts,
        broker_login=broker_login,
        pipelines=pipelines,
    )
    client = cluster.client_config(namesrv, "", access_key, tls_config, seconds=REQUEST_SECONDS)
    run(serve(None, None, dashboard=lambda _: running(config, client)))


def dashboard_config(**settings: object) -> "DashboardConfig":
    """Make the settings of a dashboard; raise if its packages are missing."""
    try:
        import jinja2  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ConfigError(EXTRA) from error
    from hanabi.dashboard.config import DashboardConfig

    return DashboardConfig(**settings)  # type: ignore[arg-type]


def running(config: "DashboardConfig", client: "ClientConfig") -> AbstractAsyncContextManager[list[str]]:
    """Run a dashboard; yield the lines to announce it with."""
    from hanabi.dashboard.server import running as run_dashboard

    return run_dashboard(config, client)
