"""`hanabi cluster`: the clusters that a name server knows, and their brokers."""

from typing import TYPE_CHECKING

import typer

from hanabi.cli.shared.administration import Cluster, Site, Watch, command, warn, where
from hanabi.cli.shared.render import moment, table

if TYPE_CHECKING:
    from hanabi.admin.brokers import BrokerSummary

app = typer.Typer(help="The clusters that a name server knows, and plans of new ones.", no_args_is_help=True)


@app.callback()
def _cluster() -> None:
    pass


@command(app, "list")
def list_brokers(site: Site, cluster: Cluster = None, watch: Watch = None) -> None:
    """List all brokers, also those that do not answer."""
    site.show(lambda admin: admin.brokers.all(where(cluster, None)), _list_text, watch)


def _list_text(found: "list[BrokerSummary]") -> str:
    warn(each.problem for each in found if each.problem)
    return table(
        ("cluster", "broker", "id", "role", "address", "version", "in/s", "out/s", "disk", "oldest message"),
        [
            (
                each.cluster,
                each.broker,
                each.broker_id,
                "slave" if each.broker_id else "master",
                each.address,
                each.version,
                each.put_tps,
                each.get_tps,
                None if each.disk_used is None else f"{each.disk_used:.0%}",
                moment(each.earliest_stored or 0),
            )
            for each in found
        ],
    )
