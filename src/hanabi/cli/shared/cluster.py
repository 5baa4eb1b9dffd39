"""The options by which every command that talks to a cluster finds it and is let in, and how trouble there ends it."""

import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from hanabi.cli.shared.profiles import Profile, current_profile
from hanabi.cli.shared.tls_file import read_tls
from hanabi.errors import ConfigError, InvalidMessage, MQError

if TYPE_CHECKING:
    from hanabi.client.config import ClientConfig, Credentials

FAILED = 1  # the command was understood, but the cluster did not do it
DEFAULT_PORT: Final = 9876
DEFAULT_NAMESRV = f"127.0.0.1:{DEFAULT_PORT}"  # where `hanabi serve` is
_WITHOUT_PORT: Final = re.compile(r"[^:\s]+|\[[^\]]+\]")
REQUEST_SECONDS = 3.0
TIMEOUT_VARIABLE = "HANABI_TIMEOUT_SECONDS"  # for one request, where the default is too short or too long
SECRET_VARIABLE = "HANABI_SECRET_KEY"  # noqa: S105 - the name of a variable; a secret in a command line is none

Namesrv = Annotated[
    str | None,
    typer.Option(
        "-n",
        "--namesrv",
        metavar="ADDR[;ADDR]",
        show_default=f"$NAMESRV_ADDR, or the profile's, or {DEFAULT_NAMESRV}",
        help=f"The name servers of the cluster, each HOST or HOST:PORT; the port is {DEFAULT_PORT} by default.",
    ),
]
Namespace = Annotated[str, typer.Option("--namespace", help="The namespace of topic and group.")]
AccessKey = Annotated[
    str | None,
    typer.Option(
        "--access-key",
        envvar="HANABI_ACCESS_KEY",
        metavar="KEY|file:PATH",
        show_default="the file in $HANABI_CREDENTIALS, or the profile's",
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
    """Return how to reach the cluster that the options describe, or else the environment, or else the profile.

    A profile is for one cluster: its credentials and its TLS never go to name servers that were given otherwise.
    """
    from hanabi.client.config import NAMESRV_VARIABLE, ClientConfig
    from hanabi.client.credentials import find_credentials

    given = namesrv or os.environ.get(NAMESRV_VARIABLE)
    profile = None if given else _profile()
    access = find_credentials(access_key, f"--access-key {access_key}")
    if tls_file is None and profile is not None and profile.tls_config is not None:
        tls_file = Path(profile.tls_config)
    return ClientConfig(
        namesrv=with_ports(given or (profile.namesrv if profile else DEFAULT_NAMESRV)),
        namespace=namespace,
        access=access or _credentials(profile),
        tls=None if tls_file is None else read_tls(tls_file),
        request_timeout_s=request_seconds(seconds),
    )


def _profile() -> Profile | None:
    found = current_profile()
    return None if found is None else found[1]


def _credentials(profile: Profile | None) -> "Credentials | None":
    from hanabi.client.config import Credentials

    if profile is None or profile.access_key is None or profile.secret_key is None:
        return None
    return Credentials(profile.access_key, profile.secret_key)


def with_ports(addresses: str) -> str:
    """Return *addresses* with the default port for those that have none. Pure."""
    parts = [part.strip() for part in addresses.replace(",", ";").split(";") if part.strip()]
    return ";".join(f"{part}:{DEFAULT_PORT}" if _WITHOUT_PORT.fullmatch(part) else part for part in parts)


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
