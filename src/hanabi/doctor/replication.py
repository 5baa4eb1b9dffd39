"""Rules for masters and slaves: copies that are missing, late, or impossible. Pure."""

from collections.abc import Iterator
from typing import Final

from hanabi.admin.access import BrokerAt
from hanabi.admin.replication_report import BrokerReplication, SlaveReplication, SlaveState
from hanabi.doctor.findings import Finding, Severity
from hanabi.doctor.snapshot import Snapshot, named

LAG_BYTES: Final = 16 << 20  # less may be the work of a moment
SYNC_MASTER: Final = "SYNC_MASTER"
FILE_SIZE: Final = "mappedFileSizeCommitLog"
CLUSTER: Final = "brokerClusterName"
DIFFERENT_LOGS: Final = ("diverged", "not_compared", "other_offset")  # kinds of trouble


def slaves_that_do_not_follow(seen: Snapshot) -> Iterator[Finding]:
    for found, slave in _slaves(seen):
        if found.master is None or slave.state is not SlaveState.NOT_CONNECTED:
            continue
        if slave.trouble_kind in DIFFERENT_LOGS:
            yield Finding(
                severity=Severity.ERROR,
                rule="slave-log-differs",
                subject=found.broker,
                what=f"slave {slave.name} of {found.broker} and its master {found.master} have different logs:"
                f" {slave.trouble}",
                why="the master has lost the end of its log, or the slave followed another one: messages that were"
                " acknowledged may be on the slave only, and nothing is copied any more",
                todo="before anything else keep a copy of the slave's store; hanabi store dump shows its messages."
                " Then promote the slave, or empty its store and let it copy the master's log",
            )
        else:
            follows = f"; it follows {slave.follows}" if slave.follows else ""
            yield Finding(
                severity=Severity.WARNING,
                rule="slave-not-connected",
                subject=found.broker,
                what=f"slave {slave.name} of {found.broker} does not copy its master {found.master}{follows}"
                + (f": {slave.trouble}" if slave.trouble else ""),
                why="what is sent to the master has one copy less, and consumers of the slave see nothing new",
                todo="the log of the slave says why. Can it reach the HA port of the master (listenPort + 1, or"
                " haListenPort) at brokerIP2? Do both have one brokerName and cluster?",
            )


def slaves_that_fall_behind(seen: Snapshot) -> Iterator[Finding]:
    before = {(found.broker, slave.address, slave.connection): slave for found, slave in _slaves(seen)}
    for found in seen.replication_later:
        for slave in found.slaves:
            earlier = before.get((found.broker, slave.address, slave.connection))
            if earlier is not None and _falls_behind(earlier, slave):
                grown = (slave.lag_bytes or 0) - (earlier.lag_bytes or 0)
                yield Finding(
                    severity=Severity.WARNING,
                    rule="slave-falls-behind",
                    subject=found.broker,
                    what=f"slave {slave.name} of {found.broker} is {(slave.lag_bytes or 0) / 2**20:.0f} MiB behind,"
                    f" {grown / 2**20:.1f} MiB more than {seen.seconds:g} s before",
                    why="the master loses this much if it is lost now; a SYNC_MASTER stops counting the slave at"
                    " haSlaveFallbehindMax",
                    todo="its disk, its processors or the network between both are too slow for what is sent, or"
                    " maxHaTransferByteInSecond limits it: hanabi broker replication --watch 2",
                )


def slaves_that_are_not_registered(seen: Snapshot) -> Iterator[Finding]:
    for found in seen.replication:
        unknown = [slave.connection or "?" for slave in found.slaves if slave.broker_id is None]
        registered = [slave for slave in found.slaves if slave.broker_id is not None and slave.connection is None]
        if found.ha_status and len(unknown) > len(registered):
            yield Finding(
                severity=Severity.WARNING,
                rule="slave-not-registered",
                subject=found.broker,
                what=f"{found.broker} has slaves that no name server lists, at {named(unknown)}",
                why="two slaves with one brokerId take turns at the name servers, so that consumers find only one;"
                " or a slave of another cluster copies this master",
                todo="give each slave of a broker its own brokerId, and this cluster's name servers in namesrvAddr",
            )


def slaves_of_another_cluster(seen: Snapshot) -> Iterator[Finding]:
    for master, slave, mine, its in _differing(seen, CLUSTER):
        yield Finding(
            severity=Severity.ERROR,
            rule="slave-of-another-cluster",
            subject=master.broker,
            what=f"slave {slave.broker_id} of {master.broker} at {slave.address} is of cluster {its}, its master of"
            f" {mine}",
            why="commands for one cluster miss the other broker, and two brokers of one name may be mixed up",
            todo=f"set {CLUSTER}={mine} in the slave's broker.conf, or give it another brokerName; restart it",
        )


def commit_logs_of_different_files(seen: Snapshot) -> Iterator[Finding]:
    for master, slave, mine, its in _differing(seen, FILE_SIZE):
        yield Finding(
            severity=Severity.ERROR,
            rule="commit-log-files-differ",
            subject=master.broker,
            what=f"files of the commit log have {mine} bytes on {master.broker} and {its} on its slave"
            f" {slave.broker_id} at {slave.address}",
            why="the slave cannot copy the log: no message fits across the end of a file",
            todo=f"stop the slave, empty its store, set {FILE_SIZE}={mine}, and start it",
        )


def sync_masters_without_a_slave(seen: Snapshot) -> Iterator[Finding]:
    for found in seen.replication:
        has_none = found.in_sync_slaves == 0 if found.ha_status else not found.slaves
        if found.role == SYNC_MASTER and has_none and found.trouble is None:
            yield Finding(
                severity=Severity.ERROR,
                rule="sync-master-alone",
                subject=found.broker,
                what=f"{found.broker} is a SYNC_MASTER without a slave in sync",
                why="each send is stored on one machine only, and answered with SLAVE_NOT_AVAILABLE or"
                " FLUSH_SLAVE_TIMEOUT: many clients send it again elsewhere",
                todo="start its slave, or see why it does not follow: hanabi broker replication. Without a slave for"
                " long, set brokerRole=ASYNC_MASTER and restart it",
            )


def sync_masters_that_do_not_wait(seen: Snapshot) -> Iterator[Finding]:
    for broker in seen.brokers:
        is_5 = not broker.is_ours and (broker.version or "").startswith("V5")
        if is_5 and broker.settings.get("brokerRole") == SYNC_MASTER and broker.settings.get("inSyncReplicas") == "1":
            yield Finding(
                severity=Severity.WARNING,
                rule="sync-master-does-not-wait",
                subject=broker.at.broker,
                what=f"{broker.at.broker} ({broker.version}) is a SYNC_MASTER with inSyncReplicas=1, which counts the"
                " master itself",
                why="a broker of 5.x then waits for no slave: acknowledged messages are lost with the master",
                todo="set inSyncReplicas=2 (and minInSyncReplicas) in its broker.conf, and restart it",
            )


def _falls_behind(earlier: SlaveReplication, later: SlaveReplication) -> bool:
    if earlier.lag_bytes is None or later.lag_bytes is None:
        return False
    return later.lag_bytes > max(earlier.lag_bytes, LAG_BYTES)


def _slaves(seen: Snapshot) -> Iterator[tuple[BrokerReplication, SlaveReplication]]:
    return ((found, slave) for found in seen.replication for slave in found.slaves)


def _differing(seen: Snapshot, key: str) -> Iterator[tuple[BrokerAt, BrokerAt, str, str]]:
    """Yield each master and slave of one name that answer with different values of the setting *key*, and the two."""
    masters = {broker.at.broker: broker for broker in seen.brokers if broker.is_master and broker.answers}
    for broker in seen.brokers:
        master = masters.get(broker.at.broker)
        if master is not None and not broker.is_master and broker.answers:
            mine, its = master.settings.get(key), broker.settings.get(key)
            if mine is not None and its is not None and mine != its:
                yield master.at, broker.at, mine, its
