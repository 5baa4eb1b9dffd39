"""Metrics of replication. A slave is labelled by the address of its connection: the wire names no slave."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from hanabi.broker.acting.acting_side import ActingSlave
from hanabi.broker.broker import Broker
from hanabi.metrics.exposition import counter, gauge, labels
from hanabi.replication.master import Master
from hanabi.replication.rules.put_rules import acknowledgements_needed
from hanabi.replication.slave import Slave


def replication_lines(broker: Broker) -> Iterator[str]:
    """Return all families of replication."""
    master = broker.master_side.master
    slave = broker.slave_side.slave if broker.slave_side is not None else None
    refusals = master.refusals + (slave.refusals if slave is not None else Counter())
    refused = [(labels(kind=kind), count) for kind, count in refusals.items()]
    return chain(
        master_lines(master),
        sync_lines(master, broker.store.max_log_offset),
        slave_lines(slave),
        acting_lines(broker.acting),
        counter(
            "hanabi_replication_refused_total", "Slaves refused by this broker, and masters by this slave.", refused
        ),
    )


def master_lines(master: Master) -> Iterator[str]:
    """Return the families of a broker that slaves follow."""
    slaves = [(labels(slave=slave.address), slave) for slave in master.slaves()]
    return chain(
        gauge("hanabi_replication_connections", "Open connections on the port for slaves.", master.connections),
        gauge(
            "hanabi_replication_lag_bytes",
            "Bytes of the log that a slave does not hold.",
            [(of, slave.lag_bytes) for of, slave in slaves],
        ),
        gauge(
            "hanabi_replication_lag_seconds",
            "Time since a slave last held the whole log.",
            [(of, slave.lag_seconds) for of, slave in slaves],
        ),
        gauge(
            "hanabi_replication_bytes_per_second",
            "Bytes of the log sent to a slave in the last second.",
            [(of, slave.bytes_per_second) for of, slave in slaves],
        ),
    )


def sync_lines(master: Master, log_end: int) -> Iterator[str]:
    """Return the families of a SYNC_MASTER's sends; the log ends at *log_end*."""
    standing = master.acks.standing(log_end)
    needed = acknowledgements_needed(master.acks.rule, standing)
    return chain(
        gauge("hanabi_replication_waiting", "Groups of sends that wait for slaves (SYNC_MASTER).", master.acks.waiting),
        gauge("hanabi_replication_slaves_in_sync", "Connected slaves that are not too far behind.", standing.in_sync),
        gauge("hanabi_replication_slaves_needed", "Slaves that must acknowledge a send; 0: none.", needed),
    )


def acting_lines(acting: ActingSlave | None) -> Iterator[str]:
    """Return the families of a slave that may act as master; without samples of any other broker."""
    return chain(
        gauge(
            "hanabi_acting_master",
            "1 while this slave acts as master.",
            [(labels(), int(acting.stand_in.is_acting))] if acting is not None else [],
        ),
        counter(
            "hanabi_escaped_messages_total",
            "Due messages that an acting slave sent to another master.",
            [(labels(), acting.escape.escaped)] if acting is not None else [],
        ),
        counter(
            "hanabi_escape_failures_total",
            "Attempts to do so that failed; such a message waits and is retried.",
            [(labels(), acting.escape.failures)] if acting is not None else [],
        ),
    )


def slave_lines(slave: Slave | None) -> Iterator[str]:
    """Return the families of a slave; without samples if the broker is a master."""
    view = slave.state() if slave is not None else None
    return chain(
        gauge(
            "hanabi_replication_connected",
            "1 if this slave is connected to its master.",
            [(labels(), int(view.is_connected))] if view is not None else [],
        ),
        gauge(
            "hanabi_replication_silent_seconds",
            "Time since this slave heard of its master.",
            [(labels(), view.silent_seconds)] if view is not None else [],
        ),
        counter(
            "hanabi_replication_received_bytes_total",
            "Bytes of the log received by this slave.",
            [(labels(), view.received_bytes)] if view is not None else [],
        ),
    )
