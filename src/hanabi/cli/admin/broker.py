"""`hanabi broker`: what brokers do, their settings, their figures, their replication, and cleaning up."""

from typing import TYPE_CHECKING, Annotated

import typer

from hanabi.cli.admin.replication_text import replication_text
from hanabi.cli.admin.stats import Active, Topic, flows_text
from hanabi.cli.shared import completion
from hanabi.cli.shared.administration import Broker, Cluster, Site, Watch, Yes, command, warn, where
from hanabi.cli.shared.cluster import FAILED
from hanabi.cli.shared.done import Cleaned
from hanabi.cli.shared.render import pairs
from hanabi.errors import ConfigError

if TYPE_CHECKING:
    from hanabi.admin.brokers import BrokerTable

app = typer.Typer(help="Look at brokers, change their settings, clean up.", no_args_is_help=True)

Changes = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE...",
        help="Settings to change; without: show them.",
        autocompletion=completion.broker_settings,
    ),
]
MaxLag = Annotated[
    int | None,
    typer.Option("--max-lag", metavar="BYTES", min=0, help="Fail if a slave is further behind, or not connected."),
]
CLEANABLE = ("queues", "topics", "log")


@app.callback()
def _broker() -> None:
    pass


@command(app, "status")
def status(site: Site, cluster: Cluster = None, broker: Broker = None, watch: Watch = None) -> None:
    """Show what brokers say of themselves."""
    site.show(lambda admin: admin.brokers.status(where(cluster, broker)), _tables_text, watch)


@command(app, "config")
def config(
    site: Site, changes: Changes = None, cluster: Cluster = None, broker: Broker = None, yes: Yes = False
) -> None:
    """Show the settings of brokers, or change some while they run.

    Which settings may be changed each broker decides; ours and Apache's keep what was changed.
    """
    chosen = where(cluster, broker)
    settings = parse_changes(changes)
    if not settings:
        site.show(lambda admin: admin.brokers.config(chosen), _tables_text)
        return
    site.confirm(f"Change {', '.join(settings)} on {broker or cluster or 'all brokers'}?", yes)
    site.write(site.run(lambda admin: admin.brokers.configure(settings, chosen)), _tables_text)


def parse_changes(changes: list[str] | None) -> dict[str, str]:
    settings: dict[str, str] = {}
    for text in changes or ():
        key, equals, value = text.partition("=")
        if not key.strip() or not equals:
            raise ConfigError(f"{text}: must be KEY=VALUE")
        settings[key.strip()] = value
    return settings


def _tables_text(found: "list[BrokerTable]") -> str:
    return "\n".join(
        f"{each.broker} ({each.address}, id {each.broker_id}, cluster {each.cluster})\n{pairs(each.values.items())}"
        for each in found
    )


@command(app, "stats")
def stats(
    site: Site,
    topic: Topic = None,
    active: Active = False,
    cluster: Cluster = None,
    broker: Broker = None,
    watch: Watch = None,
) -> None:
    """Show what goes in and out, by topic and group: a second, and today. See also: hanabi stats."""
    site.show(
        lambda admin: admin.brokers.stats(where(cluster, broker), topic), lambda found: flows_text(found, active), watch
    )


@command(app, "replication")
def replication(
    site: Site, max_lag: MaxLag = None, cluster: Cluster = None, broker: Broker = None, watch: Watch = None
) -> None:
    """Show masters, their slaves, and how far behind they are.

    The exit code is 1 if a master does not answer; with --max-lag also if a slave is further behind or not connected,
    or a master has no slave.
    """
    if watch is not None:
        if max_lag is not None:
            raise ConfigError("--max-lag looks once: leave --watch out")
        site.show(lambda admin: admin.replication.all(where(cluster, broker)), replication_text, watch)
        return
    found = site.run(lambda admin: admin.replication.all(where(cluster, broker)))
    site.write(found, replication_text)
    wrong = [] if max_lag is None else [sentence for each in found for sentence in each.too_far_behind(max_lag)]
    warn(wrong)
    if wrong or any(each.trouble for each in found):
        raise typer.Exit(FAILED)


@command(app, "clean")
def clean(
    site: Site,
    what: Annotated[
        str,
        typer.Argument(
            metavar="queues|topics|log",
            help="Queues without messages, queues of topics that are gone, or log files that are older than is kept.",
            autocompletion=completion.one_of(*CLEANABLE),
        ),
    ],
    cluster: Cluster = None,
    broker: Broker = None,
    yes: Yes = False,
) -> None:
    """Delete what is of no use any more now, and not when its time comes."""
    if what not in CLEANABLE:
        raise ConfigError(f"{what}: must be one of {', '.join(CLEANABLE)}")
    site.confirm(f"Clean {what} on {broker or cluster or 'all brokers'}?", yes)

    from hanabi.admin import Clean

    brokers = site.run(lambda admin: admin.brokers.clean(Clean(what), where(cluster, broker)))
    site.done(Cleaned(cleaned=what, brokers=brokers), f"{what} cleaned on {', '.join(brokers)}")
