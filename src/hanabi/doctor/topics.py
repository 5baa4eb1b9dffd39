"""Rules for topics: queues that cannot be written or are never read. Pure."""

from collections.abc import Iterator
from typing import Final

from hanabi.doctor.findings import Finding, Severity
from hanabi.doctor.snapshot import BrokerSeen, Snapshot, named
from hanabi.wire.system_names import TRACE_TOPIC

_TRACE_TOPIC_MAKERS: Final = ("traceTopicEnable", "autoCreateTopicEnable")  # the second one at the first trace


def queues_on_missing_brokers(seen: Snapshot) -> Iterator[Finding]:
    there = {broker.broker for server in seen.answering for broker in server.brokers}
    for topic in seen.topics:
        lost = {each.broker for each in topic.queues if not each.has_address}
        fixed = set(topic.ordered_on) - there
        if lost or fixed:
            yield Finding(
                severity=Severity.ERROR,
                rule="queues-missing",
                subject=topic.topic,
                what=f"topic {topic.topic} has queues on {named(lost | fixed)}, which no name server knows now",
                why="sends to these queues fail or wait; messages in them are not consumed",
                todo="start the broker again"
                + (
                    f", or fix the topic again: hanabi topic update {topic.topic} --order"
                    if fixed
                    else f", or forget its queues: hanabi topic delete {topic.topic} and make it again"
                ),
            )


def queues_without_readers(seen: Snapshot) -> Iterator[Finding]:
    for topic in seen.topics:
        unread = [each for each in topic.queues if each.write_queues > each.read_queues]
        if unread:
            said = ", ".join(f"{each.broker} ({each.write_queues} written, {each.read_queues} read)" for each in unread)
            yield Finding(
                severity=Severity.WARNING,
                rule="queues-unread",
                subject=topic.topic,
                what=f"topic {topic.topic} has queues that are written to and not read, on {said}",
                why="messages sent to them are never consumed",
                todo=f"hanabi topic update {topic.topic} --read-queues"
                f" {max(each.write_queues for each in topic.queues)}",
            )


def topics_on_some_brokers(seen: Snapshot) -> Iterator[Finding]:
    masters: dict[str, set[str]] = {}
    cluster_of: dict[str, str] = {}
    for broker in seen.brokers:
        if broker.is_master:
            masters.setdefault(broker.at.cluster, set()).add(broker.at.broker)
            cluster_of[broker.at.broker] = broker.at.cluster
    for topic in seen.topics:
        on = {each.broker for each in topic.queues}
        clusters = {cluster_of[name] for name in on if name in cluster_of}
        for cluster in sorted(clusters):
            without = masters[cluster] - on
            if without:
                yield Finding(
                    severity=Severity.NOTE,
                    rule="topic-on-some",
                    subject=topic.topic,
                    what=f"topic {topic.topic} is on {named(on & masters[cluster])}, and not on {named(without)}"
                    f" of cluster {cluster}",
                    why="its load is not shared by all brokers; topics that brokers make by themselves are often so",
                    todo=f"if that is not wanted: hanabi topic create {topic.topic} --broker NAME, for each of these",
                )


def tracing_without_a_topic(seen: Snapshot) -> Iterator[Finding]:
    known = frozenset().union(*(server.topics for server in seen.answering))
    for cluster in sorted({broker.at.cluster for broker in seen.brokers}):
        masters = [each for each in seen.brokers if each.at.cluster == cluster and each.is_master and each.settings]
        if not masters or any(_is_on(each, key) for each in masters for key in _TRACE_TOPIC_MAKERS):
            continue
        topic = masters[0].settings.get("msgTraceTopicName") or TRACE_TOPIC
        if topic not in known:
            yield Finding(
                severity=Severity.NOTE,
                rule="tracing-impossible",
                subject=cluster,
                what=f"there is no trace topic {topic}, and no broker of cluster {cluster} makes it"
                " (traceTopicEnable and autoCreateTopicEnable are false)",
                why="clients that trace send their traces in vain, and hanabi message trace finds none",
                todo=f"if traces are wanted: traceTopicEnable=true in broker.conf, or hanabi topic create {topic}"
                " --queues 1",
            )


def _is_on(broker: BrokerSeen, key: str) -> bool:
    # a broker that does not report it gets the benefit of the doubt
    return broker.settings.get(key, "true").strip().lower() == "true"
