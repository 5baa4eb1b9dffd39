"""`hanabi controller`: the masters that controllers elected, elections, and removal of brokers."""

from typing import TYPE_CHECKING, Annotated

import typer

from hanabi.cli.shared import completion
from hanabi.cli.shared.administration import Cluster, Site, Watch, Yes, command
from hanabi.cli.shared.done import BrokersForgotten
from hanabi.cli.shared.render import table

if TYPE_CHECKING:
    from hanabi.admin.controllers import ControllerState, Elected

DEFAULT_CONTROLLER = "127.0.0.1:19876"

app = typer.Typer(help="Masters elected by controllers: Hanabi's, or Apache's 5.x.", no_args_is_help=True)

ControllerOption = Annotated[
    str,
    typer.Option("-a", "--controller", metavar="ADDR[;ADDR]", help="The controllers, each HOST:PORT."),
]
Broker = Annotated[str, typer.Argument(metavar="BROKER", help="The broker's name.", autocompletion=completion.brokers)]


@app.callback()
def _controller() -> None:
    pass


@command(app, "status")
def status(
    site: Site,
    brokers: Annotated[
        list[str] | None,
        typer.Argument(metavar="BROKER...", help="Without: all names.", autocompletion=completion.brokers),
    ] = None,
    controller: ControllerOption = DEFAULT_CONTROLLER,
    watch: Watch = None,
) -> None:
    """Show the controllers, and the replicas of each broker name: master, epochs, in sync, alive."""
    site.show(lambda admin: admin.controllers.status(_addresses(controller), brokers or ()), _status_text, watch)


@command(app, "elect")
def elect(
    site: Site,
    broker: Broker,
    broker_id: Annotated[int, typer.Argument(metavar="ID", help="The replica that becomes master.")],
    controller: ControllerOption = DEFAULT_CONTROLLER,
    cluster: Cluster = None,
    yes: Yes = False,
) -> None:
    """Make a replica the master. It must be alive and in sync."""
    site.confirm(f"Make {broker}:{broker_id} the master of {broker}?", yes)
    work = site.run(lambda admin: admin.controllers.elect(_addresses(controller), broker, broker_id, cluster))
    site.write(work, _elected_text)


@command(app, "clean")
def clean(
    site: Site,
    broker: Broker,
    ids: Annotated[
        list[int] | None, typer.Argument(metavar="ID...", help="Replicas to forget; without: the whole name.")
    ] = None,
    controller: ControllerOption = DEFAULT_CONTROLLER,
    cluster: Cluster = None,
    living: Annotated[bool, typer.Option("--living", help="Also replicas that are alive.")] = False,
    yes: Yes = False,
) -> None:
    """Forget replicas of a broker name that will not come back."""
    wanted = ids or []
    named = ", ".join(f"{broker}:{number}" for number in wanted) or f"all replicas of {broker}"
    site.confirm(f"Forget {named}?", yes)
    site.run(lambda admin: admin.controllers.clean(_addresses(controller), broker, wanted, cluster, living=living))
    site.done(BrokersForgotten(broker=broker, ids=wanted), f"the controllers have forgotten {named}")


def _addresses(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]


def _status_text(found: "ControllerState") -> str:
    rows = [
        (
            each.broker,
            each.master_epoch,
            one.broker_id,
            one.address,
            _role(each.master_id, one.broker_id),
            one.in_sync,
            one.alive,
        )
        for each in found.brokers
        for one in each.replicas
    ]
    columns = ("broker", "epoch", "id", "address", "role", "in sync", "alive")
    return f"leader {found.leader} of {', '.join(found.controllers)}\n{table(columns, rows, empty='no brokers')}"


def _role(master_id: int | None, broker_id: int) -> str:
    return "master" if broker_id == master_id else "slave"


def _elected_text(found: "Elected") -> str:
    return f"{found.broker}:{found.master_id} at {found.master} is master since epoch {found.master_epoch}\n"
