"""Replication of one broker name, joined from the reports of its master and its slaves. Pure."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from hanabi.admin.access import BrokerAt
from hanabi.admin.answer import Answer
from hanabi.client.cluster.routes import MASTER_ID
from hanabi.wire.bodies.ha_status import HAConnectionStatus, HAStatus

IN_SYNC_BYTES: Final = 256 << 20  # haSlaveFallbehindMax, if a broker does not report it


class SlaveState(StrEnum):
    """State of a slave. A master before 5.0 does not tell it: unknown."""

    IN_SYNC = "in sync"
    BEHIND = "behind"  # connected, but too far behind to count for SYNC_MASTER
    NOT_CONNECTED = "not connected"
    UNKNOWN = "unknown"


class SlaveReplication(Answer, frozen=True, kw_only=True):
    """One slave, as its master and the slave itself report it. Unknown values are None.

    A connection carries no broker id: `brokerId` and `address` are None if no registered slave matches it.
    """

    broker_id: int | None = None
    address: str | None = None
    connection: str | None = None  # its end of the connection, at the master
    state: SlaveState
    log_end: int | None = None
    lag_bytes: int | None = None
    lag_seconds: float | None = None
    bytes_per_second: int | None = None
    follows: str | None = None  # the HA address of its master, by its own word
    trouble: str | None = None
    trouble_kind: str | None = None  # the label of hanabi_replication_refused_total, if it refuses its master

    @property
    def name(self) -> str:
        """Return its id and address, as far as they are known, for people."""
        known = self.address or self.connection or "of unknown address"
        return known if self.broker_id is None else f"{self.broker_id} at {known}"


class BrokerReplication(Answer, frozen=True, kw_only=True):
    """Replication of one broker name. `haStatus` is False if the master is older than 5.0 and reports no slaves."""

    cluster: str
    broker: str
    master: str | None = None  # its address; None if there is none now
    role: str | None = None
    log_end: int | None = None
    in_sync_slaves: int | None = None
    ha_status: bool = False
    slaves: list[SlaveReplication]
    trouble: str | None = None

    def too_far_behind(self, lag_bytes_max: int) -> list[str]:
        """Return what is wrong if each slave must be connected and at most *lag_bytes_max* behind. Pure."""
        if not self.slaves:
            return [f"{self.broker}: {self.trouble or 'the master has no slave'}"]
        return [
            f"{self.broker}: slave {slave.name} {reason}"
            for slave in self.slaves
            if (reason := _why_bad(slave, lag_bytes_max)) is not None
        ]


def _why_bad(slave: SlaveReplication, lag_bytes_max: int) -> str | None:
    if slave.state is SlaveState.NOT_CONNECTED:
        return f"is not connected: {slave.trouble}" if slave.trouble else "is not connected"
    if slave.lag_bytes is None:
        return f"reports no position: {slave.trouble}" if slave.trouble else "reports no position"
    if slave.lag_bytes > lag_bytes_max:
        return f"is {slave.lag_bytes} bytes behind, which is more than {lag_bytes_max}"
    return None


class BrokerReport(NamedTuple):
    """Answers of one broker. Without `status` it is older than 5.0, or it has a `problem`."""

    at: BrokerAt
    settings: Mapping[str, str] = {}
    status: HAStatus | None = None
    log_end: int | None = None
    problem: str | None = None


def joined(reports: Sequence[BrokerReport]) -> BrokerReplication:
    """Join the reports of the brokers of one name. Pure."""
    master = next((report for report in reports if report.at.broker_id == MASTER_ID), None)
    slaves = [report for report in reports if report.at.broker_id != MASTER_ID]
    at = reports[0].at
    if master is None:
        rows = [_slave_alone(slave, None) for slave in slaves]
        return BrokerReplication(
            cluster=at.cluster,
            broker=at.broker,
            slaves=rows,
            trouble="there is no master: promote a slave, or start it",
        )
    status = master.status if master.status is not None and master.status.master else None
    return BrokerReplication(
        cluster=at.cluster,
        broker=at.broker,
        master=master.at.address,
        role=master.settings.get("brokerRole"),
        log_end=master.log_end,
        in_sync_slaves=None if status is None else status.in_sync_slave_nums,
        ha_status=status is not None,
        slaves=[_slave_alone(slave, master) for slave in slaves]
        if status is None
        else _rows(status.ha_connection_info, slaves),
        trouble=master.problem,
    )


def _rows(connections: Sequence[HAConnectionStatus], slaves: Sequence[BrokerReport]) -> list[SlaveReplication]:
    """Return one row for each registered slave, then one for each connection that none of them matches."""
    pairs = matched(connections, [slave.at.address for slave in slaves])
    of_slave = {address: connection for connection, address in pairs if address is not None}
    rows = [_slave_of(slave, of_slave.get(slave.at.address)) for slave in slaves]
    return rows + [_slave_of(None, connection) for connection, address in pairs if address is None]


def matched(
    connections: Sequence[HAConnectionStatus], slaves: Sequence[str]
) -> list[tuple[HAConnectionStatus, str | None]]:
    """Match connections with the addresses of slaves. Pure.

    A connection tells the host of a slave only, and perhaps not the one that the slave advertises. Where a host has as
    many slaves as connections, they match; at last, as many connections as slaves without one. With several slaves of
    one host the order of connecting is not known: their rows may be exchanged.
    """
    left = list(slaves)
    found: dict[int, str] = {}
    for host in sorted({_host(connection.addr) for connection in connections}):
        numbers = [number for number, connection in enumerate(connections) if _host(connection.addr) == host]
        here = [address for address in left if _host(address) == host]
        if len(numbers) == len(here):
            found.update(zip(numbers, here, strict=True))
            left = [address for address in left if address not in here]
    unmatched = [number for number in range(len(connections)) if number not in found]
    if len(unmatched) == len(left):
        found.update(zip(unmatched, left, strict=True))
    return [(connection, found.get(number)) for number, connection in enumerate(connections)]


def _slave_of(slave: BrokerReport | None, connection: HAConnectionStatus | None) -> SlaveReplication:
    """Return the row of a slave of a master that reports its connections."""
    row = _slave_alone(slave, None) if slave is not None else SlaveReplication(state=SlaveState.UNKNOWN)
    if connection is None:
        trouble = row.trouble or "its master has no connection from it"
        return msgspec.structs.replace(row, state=SlaveState.NOT_CONNECTED, trouble=trouble)
    lag = max(connection.diff, 0)
    seconds = connection.lag_millis / 1000 if connection.lag_millis is not None else (0.0 if lag == 0 else None)
    return msgspec.structs.replace(
        row,
        connection=connection.addr,
        state=SlaveState.IN_SYNC if connection.in_sync else SlaveState.BEHIND,
        log_end=connection.slave_ack_offset,
        lag_bytes=lag,
        lag_seconds=seconds,
        bytes_per_second=connection.transferred_byte_in_second,
    )


def _slave_alone(slave: BrokerReport, master: BrokerReport | None) -> SlaveReplication:
    """Return the row of a slave by its own word; *master* reports the end of its log, and not its slaves."""
    client = slave.status.ha_client_runtime_info if slave.status is not None else None
    end = master.log_end if master is not None else None
    lag = max(end - slave.log_end, 0) if end is not None and slave.log_end is not None else None
    row = SlaveReplication(
        broker_id=slave.at.broker_id,
        address=slave.at.address,
        state=SlaveState.UNKNOWN,
        log_end=slave.log_end,
        lag_bytes=lag,
        lag_seconds=0.0 if lag == 0 else None,
        trouble=slave.problem,
    )
    if client is None:
        return row
    is_connected = client.last_read_timestamp > 0
    in_sync = SlaveState.BEHIND if lag is not None and lag >= _gap(master) else SlaveState.IN_SYNC
    return msgspec.structs.replace(
        row,
        state=in_sync if is_connected and master is not None else SlaveState.NOT_CONNECTED,
        bytes_per_second=client.transferred_byte_in_second,
        follows=client.master_addr or None,
        trouble=client.trouble,
        trouble_kind=client.trouble_kind,
    )


def _gap(master: BrokerReport | None) -> int:
    limit = number(master.settings.get("haSlaveFallbehindMax")) if master is not None else None
    return IN_SYNC_BYTES if limit is None else limit


def _host(address: str) -> str:
    return address.rpartition(":")[0]


def number(text: str | None) -> int | None:
    """Return a number that a broker reports as text; None if it is absent or something else."""
    return int(text) if text is not None and text.strip().isdigit() else None
