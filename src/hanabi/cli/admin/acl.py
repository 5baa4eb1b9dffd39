"""`hanabi acl`: policies of users, the rule that decides on a request, and checks of files."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hanabi.cli.admin.user import Name, Source, Target
from hanabi.cli.shared.administration import Broker, Cluster, Json, Site, Yes, command, where
from hanabi.cli.shared.done import FileChecked, UserChanged, UsersCopied
from hanabi.cli.shared.output import json_line, output
from hanabi.cli.shared.render import table
from hanabi.errors import ConfigError, NoPermission

if TYPE_CHECKING:
    from hanabi.access.policies.model import PolicyType
    from hanabi.admin.users import Explanation, PolicyLine

app = typer.Typer(help="Policies of users, Hanabi's and Apache's 5.x.", no_args_is_help=True)


class Action(StrEnum):
    """Actions on a resource."""

    ALL = "all"
    PUB = "pub"
    SUB = "sub"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    GET = "get"
    LIST = "list"


Resources = Annotated[
    list[str], typer.Argument(metavar="RESOURCE...", help="Topic:orders, Topic:ord*, Group:readers, Cluster:* or *.")
]
Actions = Annotated[
    list[Action],
    typer.Option(
        "--action",
        "-a",
        metavar="ACTION",
        help="pub, sub, create, update, delete, get, list or all. Repeat it for several.",
    ),
]
Deny = Annotated[bool, typer.Option("--deny", help="Refuse in place of allow.")]
Sources = Annotated[
    list[str] | None, typer.Option("--source", metavar="IP|CIDR", help="Only from here. Repeat it for several.")
]
Default = Annotated[bool, typer.Option("--default", help="Of the type Default: counts where no other entry matches.")]


@app.callback()
def _acl() -> None:
    pass


@command(app, "list")
def list_policies(
    site: Site,
    user: Annotated[str, typer.Option("--user", metavar="TEXT", help="Only users with this text.")] = "",
    resource: Annotated[str, typer.Option("--resource", metavar="TEXT", help="Only resources with this text.")] = "",
    cluster: Cluster = None,
    broker: Broker = None,
) -> None:
    """List the policies of a broker, the first master by default."""
    site.show(lambda admin: admin.users.policies(user, resource, where(cluster, broker)), _text)


@command(app, "show")
def show(site: Site, user: Name, cluster: Cluster = None, broker: Broker = None) -> None:
    """Show the policies of one user."""
    site.show(lambda admin: admin.users.policies_of(user, where(cluster, broker)), _text)


@command(app, "update")
@command(app, "create")
def grant(
    site: Site,
    user: Name,
    resources: Resources,
    action: Actions,
    deny: Deny = False,
    source: Sources = None,
    default: Default = False,
    cluster: Cluster = None,
    broker: Broker = None,
) -> None:
    """Add entries, on masters and slaves, or replace those for the same resource."""
    from hanabi.wire.bodies.acl import PolicyEntryInfo

    entries = [
        PolicyEntryInfo(
            resource=resource,
            actions=[each.value.capitalize() for each in action],
            decision="Deny" if deny else "Allow",
            source_ips=source or None,
        )
        for resource in resources
    ]
    _check_entries(entries)
    kind = _kind(default)
    brokers = site.run(lambda admin: admin.users.grant(user, entries, where(cluster, broker), kind))
    site.done(UserChanged(user=user, brokers=brokers), f"policies of user {user} are changed at {', '.join(brokers)}")


@command(app, "delete")
def delete(
    site: Site,
    user: Name,
    resource: Annotated[str | None, typer.Argument(metavar="RESOURCE", help="Without: all entries.")] = None,
    default: Default = False,
    cluster: Cluster = None,
    broker: Broker = None,
    yes: Yes = False,
) -> None:
    """Delete an entry, or all entries of a user."""
    site.confirm(f"Delete {resource or 'all policies'} of user {user}?", yes)
    kind = _kind(default)
    brokers = site.run(lambda admin: admin.users.revoke(user, resource, where(cluster, broker), kind))
    site.done(UserChanged(user=user, brokers=brokers), f"{resource or 'all policies'} of user {user}: deleted")


@command(app, "copy")
def copy(
    site: Site,
    source: Source,
    target: Target,
    users: Annotated[list[str] | None, typer.Argument(metavar="USER...", help="Without: all users.")] = None,
) -> None:
    """Copy policies from one broker to another."""
    copied = site.run(lambda admin: admin.users.copy_policies(source, target, users or ()))
    done = UsersCopied(users=copied, source=source, target=target)
    site.done(done, f"policies copied from {source} to {target}: {', '.join(copied) or 'none'}")


@command(app, "explain")
def explain(
    site: Site,
    user: Name,
    action: Actions,
    topic: Annotated[str | None, typer.Option("--topic", help="The topic to reach.")] = None,
    group: Annotated[str | None, typer.Option("--group", help="The consumer group to reach.")] = None,
    source: Annotated[str, typer.Option("--source", metavar="IP", help="The client's address.")] = "",
    cluster: Cluster = None,
    broker: Broker = None,
) -> None:
    """Say whether a user may act on a topic, a group or, without both, the cluster, and which rule decides."""
    from hanabi.access.needs import Kind, Need
    from hanabi.access.policies.wording import read_actions

    if topic is not None and group is not None:
        raise ConfigError("give --topic or --group, not both")
    kind, name = (Kind.TOPIC, topic) if topic is not None else (Kind.GROUP, group)
    if name is None:
        kind, name = Kind.CLUSTER, cluster or "DefaultCluster"
    need = Need(kind, name, read_actions(action))
    site.show(lambda admin: admin.users.explain(user, need, source, where(cluster, broker)), _explanation)


@app.command("check")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="plain_acl.yml, users.json or acls.json.")],
    json: Json = False,
) -> None:
    """Check a file of access control, without a broker: exit code 2 if it cannot be used, 1 if it is doubtful."""
    from hanabi.access.policies.file_check import check_file

    found = check_file(file)
    done = FileChecked(file=str(file), users=found.users, findings=found.findings)
    lines = [f"{file}: {found.users} users", *(f"  {finding}" for finding in found.findings)]
    with output() as write:
        write(json_line(done) if json else "\n".join(lines) + "\n")
    if found.findings:
        raise typer.Exit(1)


def _check_entries(entries: "Sequence[object]") -> None:
    """Say what is written wrongly before any server is asked."""
    from hanabi.access.policies.wording import read_entry

    try:
        for entry in entries:
            read_entry(entry)  # type: ignore[arg-type]
    except NoPermission as error:
        raise ConfigError(str(error)) from error


def _kind(default: bool) -> "PolicyType":
    from hanabi.access.policies.model import PolicyType

    return PolicyType.DEFAULT if default else PolicyType.CUSTOM


def _text(found: "list[PolicyLine]") -> str:
    rows = [
        (
            each.user,
            each.policy,
            each.resource,
            ", ".join(each.actions),
            ", ".join(each.sources) or "any",
            each.decision,
        )
        for each in found
    ]
    return table(("user", "policy", "resource", "actions", "sources", "decision"), rows, empty="no policies")


def _explanation(found: "Explanation") -> str:
    verdict = "allowed" if found.allowed else "refused"
    first = f"{verdict}: {', '.join(found.actions)} on {found.resource} for user {found.user}\n"
    return f"{first}{found.reason}\n" + (_text([found.rule]) if found.rule is not None else "")
