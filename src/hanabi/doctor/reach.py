"""Rules for reachability: advertised addresses, and agreement among name servers. Pure.

A broker chooses the address that clients get, and the commonest problem is that it is wrong for some of them
(containers, several network cards, tunnels).
"""

from collections.abc import Iterator
from datetime import UTC, datetime

from hanabi.client.cluster.routes import MASTER_ID
from hanabi.doctor.findings import Finding, Severity
from hanabi.doctor.snapshot import BrokerSeen, NameServerSeen, Snapshot, named
from hanabi.wire.bodies.absent import AbsentBroker

ADVERTISE = "set brokerIP1 in its broker.conf (ours: also --advertise) to an address or host name that clients reach"


def name_servers_that_are_away(seen: Snapshot) -> Iterator[Finding]:
    for server in seen.name_servers:
        if server.problem is None:
            continue
        if server.asked_for:
            yield Finding(
                severity=Severity.ERROR,
                rule="name-server-unreachable",
                subject=server.address,
                what=f"the name server {server.address} does not answer: {server.problem}",
                why="clients that have only this one can send and consume nothing new; the rest lose time with it",
                todo="start it, open its port, or take it out of the clients' list of name servers",
            )
        else:
            yield Finding(
                severity=Severity.NOTE,
                rule="name-server-elsewhere",
                subject=server.address,
                what=f"a broker registers with {server.address} too, which does not answer from here: {server.problem}",
                why="clients that use it may get other routes than this diagnosis",
                todo="nothing if it has another address for clients; else start it, or take it out of namesrvAddr",
            )


def name_servers_that_miss_a_broker(seen: Snapshot) -> Iterator[Finding]:
    known: dict[str, set[str]] = {}
    for server in seen.answering:
        for broker in server.brokers:
            known.setdefault(broker.broker, set()).add(server.address)
    for name, knowing in sorted(known.items()):
        for server in seen.answering:
            if server.address not in knowing:
                yield Finding(
                    severity=Severity.ERROR,
                    rule="name-server-misses-broker",
                    subject=server.address,
                    what=f"the name server {server.address} does not know {name}, which {named(knowing)} knows",
                    why=f"clients that ask {server.address} neither send to {name} nor consume what it has",
                    todo=_register_there(seen, name, server),
                )


def _register_there(seen: Snapshot, name: str, missing: NameServerSeen) -> str:
    told = next((b.settings.get("namesrvAddr", "") for b in seen.brokers if b.at.broker == name and b.settings), "")
    if told and missing.address not in told.replace(",", ";").split(";"):
        return f"add {missing.address} to namesrvAddr of {name}, which is {told}, and start it again"
    return f"see in the log of {name} why it cannot register with {missing.address}"


def name_servers_that_miss_topics(seen: Snapshot) -> Iterator[Finding]:
    everything = frozenset[str]().union(*(server.topics for server in seen.answering))
    names = {broker.broker for server in seen.answering for broker in server.brokers}
    for server in seen.answering:
        missing = everything - server.topics
        if missing and names == {broker.broker for broker in server.brokers}:  # otherwise that is the reason
            yield Finding(
                severity=Severity.WARNING,
                rule="name-server-misses-topic",
                subject=server.address,
                what=f"the name server {server.address} does not know {named(missing)}, which other name servers know",
                why="clients that ask it get the answer that there is no such topic",
                todo="brokers register with all name servers every 30 s: run this again; then see the brokers' logs",
            )


def name_servers_that_contradict_each_other(seen: Snapshot) -> Iterator[Finding]:
    addresses: dict[tuple[str, int], dict[str, list[str]]] = {}
    for server in seen.answering:
        for broker in server.brokers:
            place = addresses.setdefault((broker.broker, broker.broker_id), {})
            place.setdefault(broker.address, []).append(server.address)
    for (name, number), found in sorted(addresses.items()):
        if len(found) > 1:
            said = "; ".join(f"{address} by {named(servers)}" for address, servers in sorted(found.items()))
            yield Finding(
                severity=Severity.ERROR,
                rule="name-servers-disagree",
                subject=name,
                what=f"{name} (id {number}) is registered at different addresses: {said}",
                why="some clients talk to another broker than the rest, and each broker has messages of its own",
                todo="stop the broker that should not be there, or give it a brokerName or brokerId of its own",
            )


def brokers_of_one_name(seen: Snapshot) -> Iterator[Finding]:
    for absent, servers in _absent(seen, "replaced"):
        current = next(
            (b.at.address for b in seen.brokers if (b.at.broker, b.at.broker_id) == (absent.broker, absent.broker_id)),
            "another address",
        )
        yield Finding(
            severity=Severity.ERROR,
            rule="brokers-share-a-name",
            subject=absent.broker,
            what=f"two brokers named {absent.broker} with id {absent.broker_id} run, at {current} and at"
            f" {absent.address}, and take turns at {named(servers)}",
            why="clients reach only the one that registered last; messages and offsets of the other are out of reach",
            todo="stop the broker that should not be there, or give it a brokerName or brokerId of its own",
        )


def brokers_that_died(seen: Snapshot) -> Iterator[Finding]:
    there = {(broker.broker, broker.broker_id) for server in seen.answering for broker in server.brokers}
    for absent, servers in _absent(seen, "gone"):
        if (absent.broker, absent.broker_id) not in there:
            yield Finding(
                severity=Severity.ERROR if absent.broker_id == MASTER_ID else Severity.WARNING,
                rule="broker-gone",
                subject=absent.broker,
                what=f"{absent.broker} (id {absent.broker_id}) at {absent.address} is gone without unregistering; "
                f"{named(servers)} heard of it last at {_time(absent.seen_ms)}",
                why="its messages cannot be consumed, and it accepts none, until it is back",
                todo="start it again, and see in its log why it ended. If it is gone for good, name servers forget it"
                " after a week, or when they are started again",
            )


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _absent(seen: Snapshot, why: str) -> Iterator[tuple[AbsentBroker, list[str]]]:
    """Return the brokers that are absent for this reason, and the name servers that report it."""
    found: dict[tuple[str, int, str], tuple[AbsentBroker, list[str]]] = {}
    for server in seen.answering:
        for absent in server.absent:
            if absent.why == why:
                place = (absent.broker, absent.broker_id, absent.address)
                found.setdefault(place, (absent, []))[1].append(server.address)
    return (found[place] for place in sorted(found))


def no_brokers_at_all(seen: Snapshot) -> Iterator[Finding]:
    if seen.answering and not seen.brokers:
        answering = named(server.address for server in seen.answering)
        yield Finding(
            severity=Severity.ERROR,
            rule="no-brokers",
            subject=answering,
            what=f"no broker is registered with {answering}",
            why="nothing can be sent or consumed",
            todo="start a broker, and let namesrvAddr (-n) in its configuration be these name servers",
        )


def brokers_that_cannot_be_reached(seen: Snapshot) -> Iterator[Finding]:
    for broker in seen.brokers:
        at = broker.at
        if broker.unreachable is not None:
            yield Finding(
                severity=Severity.ERROR if broker.is_master else Severity.WARNING,
                rule="broker-unreachable",
                subject=at.broker,
                what=f"{at.broker} (id {at.broker_id}) cannot be reached at {at.address}: {broker.unreachable}",
                why=f"{named(broker.told_by)} gives clients this address; clients here would fail as well",
                todo=f"is it running? Is the port open? If it is at another address for clients, {ADVERTISE}",
            )
        elif broker.refused is not None:
            yield Finding(
                severity=Severity.WARNING,
                rule="broker-refuses",
                subject=at.broker,
                what=f"{at.broker} at {at.address} refuses the query: {broker.refused}",
                why="neither the broker nor its topics and groups could be examined",
                todo="give --access-key, and its secret in HANABI_SECRET_KEY, of an administrator",
            )


def brokers_that_say_this_machine(seen: Snapshot) -> Iterator[Finding]:
    away = {server.address for server in seen.answering if not server.loopback}
    for broker in seen.brokers:
        tellers = [address for address in broker.told_by if address in away]
        if broker.loopback and tellers:
            at = broker.at
            yield Finding(
                severity=Severity.ERROR,
                rule="loopback-advertised",
                subject=at.broker,
                what=f"{at.broker} advertises {at.address} to clients, which is each client's own machine",
                why=f"{named(tellers)} is reached from other machines, where clients cannot reach {at.broker}",
                todo=ADVERTISE,
            )


def brokers_that_are_another(seen: Snapshot) -> Iterator[Finding]:
    for broker in seen.brokers:
        name = broker.settings.get("brokerName")
        if name is not None and name != broker.at.broker:
            yield Finding(
                severity=Severity.ERROR,
                rule="broker-is-another",
                subject=broker.at.broker,
                what=f"at {broker.at.address}, where {broker.at.broker} should be, {name} answers",
                why="messages to one broker go to the other",
                todo=f"give each broker an address of its own: {ADVERTISE}",
            )


def brokers_without_a_master(seen: Snapshot) -> Iterator[Finding]:
    by_name: dict[str, list[BrokerSeen]] = {}
    for broker in seen.brokers:
        by_name.setdefault(broker.at.broker, []).append(broker)
    for name, brokers in sorted(by_name.items()):
        if not any(broker.is_master for broker in brokers):
            yield Finding(
                severity=Severity.ERROR,
                rule="no-master",
                subject=name,
                what=f"{name} has slaves only, no master (id {MASTER_ID})",
                why="its messages can be read, but nothing can be sent to it, and offsets are not kept for good",
                todo="start its master again",
            )
