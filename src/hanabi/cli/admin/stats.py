"""`hanabi stats`: what goes in and out of a cluster."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from hanabi.cli.shared import completion
from hanabi.cli.shared.administration import Broker, Cluster, Site, Watch, where
from hanabi.cli.shared.render import table

if TYPE_CHECKING:
    from hanabi.admin.brokers import Flows, TopicFlow

Topic = Annotated[str | None, typer.Option("--topic", "-t", help="Only this topic.", autocompletion=completion.topics)]
All = Annotated[bool, typer.Option("--all", "-a", help="Also topics that brokers have for themselves.")]
Active = Annotated[bool, typer.Option("--active", help="Only where something moved today.")]


def stats(
    site: Site,
    topic: Topic = None,
    active: Active = False,
    all: All = False,
    cluster: Cluster = None,
    broker: Broker = None,
    watch: Watch = None,
) -> None:
    """Show what goes in and out of the brokers, topics and groups: a second, and today; and how far groups are behind.

    A second is the mean of the last minute (of brokers, of the last ten seconds). Brokers count from their start on.
    """

    def text(found: "Flows") -> str:
        brokers = table(
            ("broker", "in/s", "out/s", "in today", "out today", "in yesterday", "out yesterday"),
            [
                (b.broker, b.in_tps, b.out_tps, b.in_today, b.out_today, b.in_yesterday, b.out_yesterday)
                for b in found.brokers
            ],
        )
        return f"{brokers}\n{flows_text(found.topics, active)}"

    site.show(lambda admin: admin.brokers.flows(where(cluster, broker), topic, system=all), text, watch)


def flows_text(found: "Iterable[TopicFlow]", active: bool) -> str:
    return table(
        ("topic", "group", "lag", "in/s", "out/s", "in 24h", "out 24h", "back 24h"),
        [
            (each.topic, each.group, each.lag, each.in_tps, each.out_tps, each.in_day, each.out_day, each.back_day)
            for each in found
            if not active or each.in_day or each.out_day
        ],
        empty="nothing",
    )
