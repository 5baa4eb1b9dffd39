"""`hanabi version`: versions of this program and of the brokers of a cluster."""

import platform
from typing import TYPE_CHECKING

import msgspec

from hanabi._version import __version__
from hanabi.cli.shared.administration import Site, warn
from hanabi.cli.shared.render import pairs, table
from hanabi.errors import ConfigError, MQError

if TYPE_CHECKING:
    from hanabi.admin import Admin
    from hanabi.admin.brokers import BrokerSummary


class BrokerVersion(msgspec.Struct, rename="camel", kw_only=True):
    """Versions of one broker: of its protocol, and of its program. Unknown values are None."""

    broker: str
    broker_id: int
    address: str
    protocol: str | None
    program: str | None


class Versions(msgspec.Struct, rename="camel", kw_only=True):
    """Versions of this program and of the brokers; `problem` says why no broker was asked."""

    hanabi: str
    python: str
    brokers: list[BrokerVersion]
    problem: str | None = None


def version(site: Site) -> None:
    """Show the versions of this program and of the brokers of a cluster.

    A broker has the version of the protocol that it speaks, and the one of its own program. A cluster that cannot be
    reached is no error.
    """
    found = site.run(_versions)
    site.write(found, _text)
    warn([f"no broker was asked: {found.problem}"] if found.problem else [])


async def _versions(admin: "Admin") -> Versions:
    try:
        brokers, problem = await admin.brokers.all(), None
    except ConfigError:
        raise
    except MQError as error:
        brokers, problem = [], str(error)
    return Versions(
        hanabi=__version__,
        python=platform.python_version(),
        brokers=[_version(each) for each in brokers],
        problem=problem,
    )


def _version(broker: "BrokerSummary") -> BrokerVersion:
    return BrokerVersion(
        broker=broker.broker,
        broker_id=broker.broker_id,
        address=broker.address,
        protocol=broker.version,
        program=broker.program,
    )


def _text(found: Versions) -> str:
    here = pairs([("hanabi", found.hanabi), ("python", found.python)])
    if not found.brokers:
        return here
    rows = [(each.broker, each.broker_id, each.address, each.protocol, each.program) for each in found.brokers]
    return f"{here}\n{table(('broker', 'id', 'address', 'protocol', 'program'), rows)}"
