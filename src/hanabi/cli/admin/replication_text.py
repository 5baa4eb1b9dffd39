"""Text of `hanabi broker replication`. Pure."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hanabi.cli.shared.render import Cell, pairs, table

if TYPE_CHECKING:
    from hanabi.admin.replication_report import BrokerReplication, SlaveReplication

COLUMNS = ("id", "address", "connection", "state", "log end", "lag bytes", "lag s", "bytes/s")
OLD_MASTER = "it is older than 5.0 and reports no slaves: lag is the difference of the logs' ends"


def replication_text(found: "Iterable[BrokerReplication]") -> str:
    return "\n".join(map(_broker_text, found))


def _broker_text(found: "BrokerReplication") -> str:
    slaves = table(COLUMNS, [_row(slave) for slave in found.slaves], empty="no slaves")
    return f"{_head(found)}\n{slaves}{_troubles(found)}"


def _head(found: "BrokerReplication") -> str:
    name = f"{found.broker} (cluster {found.cluster})"
    if found.master is None:
        return f"{name}: no master"
    facts = [f"{found.role or 'master'} {found.master}"]
    if found.log_end is not None:
        facts.append(f"log end {found.log_end}")
    if found.in_sync_slaves is not None:
        facts.append(f"slaves in sync {found.in_sync_slaves}")
    return f"{name}: {', '.join(facts)}"


def _row(slave: "SlaveReplication") -> tuple[Cell, ...]:
    return (
        slave.broker_id,
        slave.address,
        slave.connection,
        slave.state.value,
        slave.log_end,
        slave.lag_bytes,
        slave.lag_seconds,
        slave.bytes_per_second,
    )


def _troubles(found: "BrokerReplication") -> str:
    """Return what needs attention, one line each; nothing if all is well."""
    notes: list[tuple[str, Cell]] = []
    if found.trouble is not None:
        notes.append(("master", found.trouble))
    elif found.master is not None and not found.ha_status:
        notes.append(("master", OLD_MASTER))
    for slave in found.slaves:
        if slave.trouble is not None:
            name = slave.connection if slave.broker_id is None else str(slave.broker_id)
            notes.append((f"slave {name}", slave.trouble))
    return pairs(notes)
