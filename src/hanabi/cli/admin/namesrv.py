"""`hanabi namesrv`: the name servers themselves."""

from typing import TYPE_CHECKING, Annotated

import typer

from hanabi.cli.admin.broker import parse_changes
from hanabi.cli.shared import completion
from hanabi.cli.shared.administration import Site, Yes, command
from hanabi.cli.shared.done import KeyForgotten
from hanabi.cli.shared.render import pairs, table
from hanabi.errors import ConfigError

if TYPE_CHECKING:
    from hanabi.admin.name_servers import NameServerTable, WritePerm

app = typer.Typer(help="Settings and values of name servers, and write permission of brokers.", no_args_is_help=True)

Changes = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE...",
        help="Settings to change; without: show them.",
        autocompletion=completion.name_server_settings,
    ),
]


@app.callback()
def _namesrv() -> None:
    pass


@command(app, "config")
def config(site: Site, changes: Changes = None, yes: Yes = False) -> None:
    """Show the settings of all name servers, or change some while they run."""
    settings = parse_changes(changes)
    if not settings:
        site.show(lambda admin: admin.name_servers.config(), _tables_text)
        return
    site.confirm(f"Change {', '.join(settings)} on all name servers?", yes)
    site.write(site.run(lambda admin: admin.name_servers.configure(settings)), _tables_text)


@command(app, "kv")
def kv(
    site: Site,
    namespace: Annotated[
        str,
        typer.Argument(
            metavar="NAMESPACE",
            help="Such as ORDER_TOPIC_CONFIG.",
            autocompletion=completion.one_of("ORDER_TOPIC_CONFIG"),
        ),
    ],
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="Without: all keys.", autocompletion=completion.keys)
    ] = None,
    value: Annotated[str | None, typer.Argument(metavar="VALUE", help="Keep this value under the key.")] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Forget the key.")] = False,
    yes: Yes = False,
) -> None:
    """Show, keep or forget values, at all name servers."""
    if key is None:
        if delete:
            raise ConfigError("--delete forgets one key: say which")
        site.show(lambda admin: admin.name_servers.values(namespace), _tables_text)
    elif delete:
        if value is not None:
            raise ConfigError("--delete takes no VALUE")
        site.confirm(f"Forget {key} of {namespace} at all name servers?", yes)
        site.run(lambda admin: admin.name_servers.delete(namespace, key))
        site.done(KeyForgotten(namespace=namespace, key=key), f"{key} of {namespace} is forgotten")
    elif value is not None:
        site.write(site.run(lambda admin: admin.name_servers.put(namespace, key, value)), _tables_text)
    else:
        site.show(lambda admin: admin.name_servers.value(namespace, key), _tables_text)


def _tables_text(found: "list[NameServerTable]") -> str:
    return "\n".join(f"{each.name_server}\n{pairs(each.values.items()) or 'nothing'}" for each in found)


@command(app, "write-perm")
def write_perm(
    site: Site,
    broker: Annotated[
        str, typer.Argument(metavar="BROKER", help="The broker's name.", autocompletion=completion.brokers)
    ],
    allow: Annotated[bool, typer.Option("--allow/--forbid", help="What producers may do.")],
    yes: Yes = False,
) -> None:
    """Forbid producers to write to a broker, before it is stopped say, or allow it again."""
    if not allow:
        site.confirm(f"Forbid producers to write to {broker}?", yes)
    site.write(site.run(lambda admin: admin.name_servers.write_perm(broker, writable=allow)), _write_perm_text)


def _write_perm_text(found: "list[WritePerm]") -> str:
    return table(
        ("name server", "broker", "writable", "topics"),
        [(each.name_server, each.broker, "yes" if each.writable else "no", each.topics) for each in found],
    )
