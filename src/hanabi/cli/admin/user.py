"""`hanabi user`: users of brokers with access control of 5.x, and accounts of those of 4.9.

A password is asked for, or read from a file or the variable HANABI_PASSWORD: in a command line each user of the machine
could read it.
"""

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hanabi.cli.shared.administration import Broker, Cluster, Site, Yes, command, where
from hanabi.cli.shared.done import UserChanged, UsersCopied
from hanabi.cli.shared.render import table
from hanabi.errors import ConfigError

if TYPE_CHECKING:
    from hanabi.admin.users import UserSummary

PASSWORD_VARIABLE = "HANABI_PASSWORD"  # noqa: S105 - the name of a variable
_FILE_BYTES_MAX = 4096

app = typer.Typer(help="Users of access control, Hanabi's and Apache's.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="USER", help="The user's name, or the account's access key.")]
Password = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        show_default=f"${PASSWORD_VARIABLE}, or asked for",
        help="The first line of this file is the password; - is standard input.",
    ),
]
Account = Annotated[bool, typer.Option("--account", help="An account of 4.9 (aclEnable) in place of a user.")]
Topics = Annotated[
    list[str] | None, typer.Option("--topic", metavar="NAME=PERM", help="With --account: PUB, SUB, PUB|SUB or DENY.")
]
Groups = Annotated[list[str] | None, typer.Option("--group", metavar="NAME=PERM", help="With --account.")]
Source = Annotated[str, typer.Option("--from", metavar="BROKER", help="The broker to copy from.")]
Target = Annotated[str, typer.Option("--to", metavar="BROKER", help="The broker to copy to.")]


class Type(StrEnum):
    """Types of users."""

    SUPER = "super"
    NORMAL = "normal"


class Status(StrEnum):
    """States of users."""

    ENABLE = "enable"
    DISABLE = "disable"


@app.callback()
def _user() -> None:
    pass


@command(app, "list")
def list_users(
    site: Site,
    part: Annotated[str, typer.Argument(metavar="TEXT", help="Only names with this text.")] = "",
    cluster: Cluster = None,
    broker: Broker = None,
) -> None:
    """List the users of a broker, the first master by default."""
    site.show(lambda admin: admin.users.find(part, where(cluster, broker)), _text)


@command(app, "show")
def show(site: Site, user: Name, cluster: Cluster = None, broker: Broker = None) -> None:
    """Show a user, without its password."""
    site.show(lambda admin: admin.users.show(user, where(cluster, broker)), lambda found: _text([found]))


@command(app, "create")
def create(
    site: Site,
    user: Name,
    password_file: Password = None,
    type: Annotated[Type, typer.Option("--type", help="Super users may do everything.")] = Type.NORMAL,
    account: Account = False,
    topic: Topics = None,
    group: Groups = None,
    cluster: Cluster = None,
    broker: Broker = None,
) -> None:
    """Create a user, on masters and slaves."""
    password = read_password(user, password_file)
    if account:
        _change_account(site, user, password, type, topic, group, cluster, broker)
        return
    _refuse_permissions(topic, group)
    from hanabi.wire.bodies.acl import UserInfo

    info = UserInfo(password=password, user_type=type.value.capitalize())
    brokers = site.run(lambda admin: admin.users.create(user, info, where(cluster, broker)))
    site.done(UserChanged(user=user, brokers=brokers), f"user {user} is created at {', '.join(brokers)}")


@command(app, "update")
def update(
    site: Site,
    user: Name,
    password: Annotated[bool, typer.Option("--password", help="Change the password.")] = False,
    password_file: Password = None,
    type: Annotated[Type | None, typer.Option("--type", help="The new type.")] = None,
    status: Annotated[Status | None, typer.Option("--status", help="A disabled user is refused.")] = None,
    keep_previous: Annotated[
        bool | None,
        typer.Option(
            "--keep-old/--drop-old",
            show_default=False,
            help="Keep the old password valid with the new one, until --drop-old. Hanabi's brokers only.",
        ),
    ] = None,
    account: Account = False,
    topic: Topics = None,
    group: Groups = None,
    cluster: Cluster = None,
    broker: Broker = None,
) -> None:
    """Change a user's password, type or status; an account is replaced."""
    secret = read_password(user, password_file) if password or password_file is not None or account else None
    if account:
        _change_account(site, user, secret, type, topic, group, cluster, broker)
        return
    _refuse_permissions(topic, group)
    if keep_previous and secret is None:
        raise ConfigError("--keep-old goes with a new password: --password or --password-file")
    if secret is None and type is None and status is None and keep_previous is None:
        raise ConfigError("nothing to change: give --password, --password-file, --type, --status or --drop-old")
    from hanabi.wire.bodies.acl import UserInfo

    info = UserInfo(
        password=secret,
        user_type=type.value.capitalize() if type is not None else None,
        user_status=status.value if status is not None else None,
        keep_previous=keep_previous,
    )
    brokers = site.run(lambda admin: admin.users.update(user, info, where(cluster, broker)))
    site.done(UserChanged(user=user, brokers=brokers), f"user {user} is changed at {', '.join(brokers)}")


@command(app, "delete")
def delete(
    site: Site, user: Name, account: Account = False, cluster: Cluster = None, broker: Broker = None, yes: Yes = False
) -> None:
    """Delete a user and its policies, on masters and slaves."""
    site.confirm(f"Delete user {user}?", yes)
    place = where(cluster, broker)
    if account:
        brokers = site.run(lambda admin: admin.users.delete_account(user, place))
    else:
        brokers = site.run(lambda admin: admin.users.delete(user, place))
    site.done(UserChanged(user=user, brokers=brokers), f"user {user} is deleted at {', '.join(brokers)}")


@command(app, "copy")
def copy(
    site: Site,
    source: Source,
    target: Target,
    users: Annotated[list[str] | None, typer.Argument(metavar="USER...", help="Without: all users.")] = None,
) -> None:
    """Copy users with their passwords from one broker to another."""
    copied = site.run(lambda admin: admin.users.copy(source, target, users or ()))
    done = UsersCopied(users=copied, source=source, target=target)
    site.done(done, f"copied from {source} to {target}: {', '.join(copied) or 'no users'}")


def read_password(user: str, path: Path | None) -> str:
    """Return a password from a file, the environment or the terminal; an error never shows it."""
    if path is not None:
        password = _first_line(path)
    elif password := os.environ.get(PASSWORD_VARIABLE, ""):
        pass
    elif sys.stdin.isatty():
        password = typer.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True, err=True)
    else:
        raise ConfigError(f"no password of {user}: give --password-file FILE, or the variable {PASSWORD_VARIABLE}")
    if not password.strip():
        raise ConfigError(f"the password of {user} is blank")
    return password


def _first_line(path: Path) -> str:
    try:
        if str(path) == "-":
            return sys.stdin.readline(_FILE_BYTES_MAX).rstrip("\r\n")
        with path.open(encoding="utf-8") as file:
            return file.readline(_FILE_BYTES_MAX).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text in UTF-8"
        raise ConfigError(f"the password in {path} cannot be read: {reason}") from None


def _refuse_permissions(topics: list[str] | None, groups: list[str] | None) -> None:
    if topics or groups:
        raise ConfigError("--topic and --group are for accounts (--account); a user's rights are `hanabi acl create`")


def _change_account(
    site: Site,
    access_key: str,
    secret: str | None,
    type: Type | None,
    topics: list[str] | None,
    groups: list[str] | None,
    cluster: str | None,
    broker: str | None,
) -> None:
    from hanabi.wire.headers.acl import CreateAccessConfigHeader

    header = CreateAccessConfigHeader(
        access_key=access_key,
        secret_key=secret,
        admin=type is Type.SUPER,
        topic_perms=",".join(topics) if topics else None,
        group_perms=",".join(groups) if groups else None,
    )
    brokers = site.run(lambda admin: admin.users.update_account(header, where(cluster, broker)))
    done = UserChanged(user=access_key, brokers=brokers)
    site.done(done, f"account {access_key} is created or changed at {', '.join(brokers)}")


def _text(found: "list[UserSummary]") -> str:
    rows = [(each.user, each.type or "", each.status or "") for each in found]
    return table(("user", "type", "status"), rows, empty="no users")
