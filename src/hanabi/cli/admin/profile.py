"""`hanabi profile`: named clusters, so that commands need neither address nor key."""

import os
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from hanabi.cli.shared import cluster, completion
from hanabi.cli.shared.output import json_line, output
from hanabi.cli.shared.profiles import (
    PROFILE_VARIABLE,
    Profile,
    Profiles,
    check_name,
    no_such,
    profiles_path,
    read_profiles,
    write_profiles,
)
from hanabi.cli.shared.render import table
from hanabi.errors import ConfigError

app = typer.Typer(help="Keep clusters and their credentials under names.", no_args_is_help=True)

NewName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the profile.")]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of the profile.", autocompletion=completion.profiles)
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON, of a shape that stays.")]


class ProfileLine(msgspec.Struct, rename="camel", kw_only=True):
    """One profile in JSON. Its secret is never shown."""

    name: str
    in_use: bool
    namesrv: str
    access_key: str | None
    tls_config: str | None


@app.callback()
def _profile() -> None:
    pass


@app.command("add")
def add(
    name: NewName,
    namesrv: Annotated[
        str, typer.Option("-n", "--namesrv", metavar="ADDR[;ADDR]", help="The name servers, each HOST or HOST:PORT.")
    ],
    access_key: Annotated[
        str | None,
        typer.Option(
            "--access-key",
            metavar="KEY|file:PATH",
            help=f"Sign requests with this key. Its secret is in the variable {cluster.SECRET_VARIABLE}, in the file,"
            " or is asked for.",
        ),
    ] = None,
    tls_config: cluster.TlsFile = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the profile of this name.")] = False,
) -> None:
    """Keep a cluster under a name. The first profile is in use at once."""
    from hanabi.client.config import ClientConfig

    check_name(name)
    path, known = _known()
    if name in known.profiles and not replace:
        raise ConfigError(f"there is a profile {name} already: say --replace, or choose another name")
    addresses = cluster.with_ports(namesrv)
    ClientConfig(namesrv=addresses)  # raises for a wrong address
    key, secret = _credentials(access_key)
    profile = Profile(
        namesrv=addresses,
        access_key=key,
        secret_key=secret,
        tls_config=None if tls_config is None else str(tls_config.absolute()),
    )
    write_profiles(path, Profiles(known.current or name, {**known.profiles, name: profile}))
    typer.echo(f"profile {name} is kept in {path}{'' if known.current else ' and is in use'}")


def _credentials(access_key: str | None) -> tuple[str | None, str | None]:
    """Return key and secret: from a file, the environment, or the terminal."""
    from hanabi.client.credentials import FILE_PREFIX, find_credentials

    if access_key is None:
        return None, None
    given = bool(os.environ.get(cluster.SECRET_VARIABLE)) or access_key.startswith(FILE_PREFIX)
    if not given and sys.stdin.isatty():
        return access_key, typer.prompt(f"secret of {access_key}", hide_input=True, err=True)
    found = find_credentials(access_key, f"--access-key {access_key}")
    return (None, None) if found is None else (found.access_key, found.secret_key)


@app.command("use")
def use(name: Name) -> None:
    """Let commands use this profile, where neither options nor the environment say otherwise."""
    path, known = _known()
    _check_known(name, known)
    write_profiles(path, msgspec.structs.replace(known, current=name))
    typer.echo(f"profile {name} is in use: {known.profiles[name].namesrv}")


@app.command("delete")
def delete(name: Name) -> None:
    """Forget a profile. The cluster itself does not change."""
    path, known = _known()
    _check_known(name, known)
    rest = {each: profile for each, profile in known.profiles.items() if each != name}
    write_profiles(path, Profiles(None if known.current == name else known.current, rest))
    typer.echo(f"profile {name} is deleted")


@app.command("list")
def list_profiles(json: Json = False) -> None:
    """Show the profiles, without their secrets. A star marks the one in use."""
    _, known = _known()
    current = os.environ.get(PROFILE_VARIABLE) or known.current
    lines = [
        ProfileLine(
            name=name,
            in_use=name == current,
            namesrv=profile.namesrv,
            access_key=profile.access_key,
            tls_config=profile.tls_config,
        )
        for name, profile in sorted(known.profiles.items())
    ]
    with output() as write:
        write(json_line(lines) if json else _text(lines))


def _text(lines: list[ProfileLine]) -> str:
    return table(
        ("", "profile", "name servers", "access key", "tls"),
        [("*" if each.in_use else "", each.name, each.namesrv, each.access_key, each.tls_config) for each in lines],
    )


def _known() -> tuple[Path, Profiles]:
    path = profiles_path()
    return path, read_profiles(path)


def _check_known(name: str, known: Profiles) -> None:
    if name not in known.profiles:
        raise ConfigError(no_such(name, known))
