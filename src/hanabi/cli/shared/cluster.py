"""The options by which every command that talks to a cluster finds it and is let in, and how trouble there ends it."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hanabi.cli.shared.tls_file import read_tls
from hanabi.errors import ConfigError, InvalidMessage, MQError

if TYPE_CHECKING:
    from hanabi.client.config import ClientConfig

FAILED = 1  # the command was understood, but the cluster did not do it
DEFAULT_NAMESRV = "127.0.0.1:9876"  # where `hanabi serve` is
REQUEST_SECONDS = 3.0
TIMEOUT_VARIABLE = "HANABI_TIMEOUT_SECONDS"  # for one request, where the default is too short or too long
SECRET_VARIABLE = "HANABI_SECRET_KEY"  # noqa: S105 - the name of a variable; a secret in a command line is none

Namesrv = Annotated[
    str | None,
    typer.Option(
        "-n",
        "--namesrv",
        metavar="ADDR[;ADDR]",
        show_default=f"$NAMESRV_ADDR, or {DEFAULT_NAMESRV}",
        help="The name servers of the cluster, each HOST:PORT.",
    ),
]
Namespace = Annotated[str, typer.Option("--namespace", help="The namespace of topic and group.")]
AccessKey = Annotated[
    str | None,
    typer.Option(
        "--access-key",
        envvar="HANABI_ACCESS_KEY",
        metavar="KEY|file:PATH",
        show_default="the file in $HANABI_CREDENTIALS",
        help=f"Sign requests with this key; its secret is in the variable {SECRET_VARIABLE}, or both are in a file.",
    ),
]
TlsFile = Annotated[
    Path | None,
    typer.Option("--tls-config", metavar="FILE", help="RocketMQ's tls.properties: talk TLS, with what it says."),
]


def client_config(
    namesrv: str | None,
    namespace: str,
    access_key: str | None,
    tls_file: Path | None,
    seconds: float = REQUEST_SECONDS,
) -> "ClientConfig":
    """Return how to reach the cluster that the options describe."""
    from hanabi.client.config import NAMESRV_VARIABLE, ClientConfig
    from hanabi.client.credentials import find_credentials

    return ClientConfig(
        namesrv=namesrv or os.environ.get(NAMESRV_VARIABLE) or DEFAULT_NAMESRV,
        namespace=namespace,
        access=find_credentials(access_key, f"--access-key {access_key}"),
        tls=None if tls_file is None else read_tls(tls_file),
        request_timeout_s=request_seconds(seconds),
    )


def request_seconds(default: float) -> float:
    """Return how long a server may take for its answer: as the environment says, or *default*."""
    text = os.environ.get(TIMEOUT_VARIABLE, "")
    try:
        seconds = float(text or default)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise ConfigError(f"{TIMEOUT_VARIABLE}={text}: it must be a number of seconds, and more than 0")
    return seconds


@contextmanager
def errors_as_exit_code() -> Iterator[None]:
    """Turn refusals of the cluster and failed connections into exit code 1; usage errors stay 2."""
    try:
        yield
    except (ConfigError, InvalidMessage):
        raise
    except MQError as error:
        typer.echo(f"hanabi: {error}", err=True)
        raise typer.Exit(FAILED) from error
