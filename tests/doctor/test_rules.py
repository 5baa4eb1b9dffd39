"""The rules decide by the snapshot alone: each thing that can be wrong is found, and nothing where nothing is."""

from typing import Any

import msgspec
import pytest

from hanabi.admin.access import BrokerAt
from hanabi.admin.replication_report import BrokerReplication, SlaveReplication, SlaveState
from hanabi.doctor import Finding, Severity, Snapshot, diagnose
from hanabi.doctor.diagnosis import RULES
from hanabi.doctor.examination import broker_clock_ms, subscriptions_text
from hanabi.doctor.snapshot import (
    BrokerSeen,
    DeadLettersSeen,
    GroupSeen,
    NameServerSeen,
    QueuesSeen,
    TopicSeen,
)
from hanabi.wire.bodies.absent import AbsentBroker
from hanabi.wire.bodies.heartbeat import SubscriptionData

NAMESRV, OTHER = "10.0.0.1:9876", "10.0.0.2:9876"
A = BrokerAt(cluster="C", broker="a", broker_id=0, address="10.0.0.3:10911")
B = BrokerAt(cluster="C", broker="b", broker_id=0, address="10.0.0.4:10911")


def server(address: str = NAMESRV, **more: Any) -> NameServerSeen:
    told = {"brokers": (A, B), "topics": frozenset({"T"}), "version": 409}
    return NameServerSeen(**{"address": address, "asked_for": True, **told, **more})


def broker(at: BrokerAt = A, **more: Any) -> BrokerSeen:
    runtime = {"commitLogDiskRatio": "0.4", "brokerVersionDesc": "V4_9_8", "dispatchBehindBytes": "0"}
    settings = {"brokerName": at.broker, "namesrvAddr": NAMESRV, "diskMaxUsedSpaceRatio": "75"}
    told = {"told_by": (NAMESRV,), "runtime": runtime, "settings": settings, "clock_ahead_ms": 0}
    return BrokerSeen(**{"at": at, **told, **more})


def absent(name: str, why: str) -> AbsentBroker:
    return AbsentBroker(broker=name, broker_id=0, address="10.0.0.9:10911", why=why, seen_ms=1_000)


def queues(name: str, read: int = 4, write: int = 4, **more: Any) -> QueuesSeen:
    return QueuesSeen(**{"broker": name, "read_queues": read, "write_queues": write, "has_address": True, **more})


WELL = Snapshot(
    name_servers=(server(),),
    brokers=(broker(A), broker(B)),
    topics=(TopicSeen(topic="T", queues=(queues("a"), queues("b"))),),
    groups=(GroupSeen(group="g", members=frozenset({"one"}), topics=frozenset({"T"}), lag=3, lag_later=9),),
    dead_letters=(DeadLettersSeen(group="g", waiting=0, waiting_later=0),),
    seconds=3,
)


def found(**changed: Any) -> list[Finding]:
    return diagnose(msgspec.structs.replace(WELL, **changed)).findings


def runtime(**changed: str) -> dict[str, Any]:
    return {"brokers": (broker(A, runtime={**broker().runtime, **changed}), broker(B))}


def test_where_nothing_is_wrong_nothing_is_found() -> None:
    diagnosis = diagnose(WELL)
    assert diagnosis.findings == []
    assert diagnosis.healthy
    assert (diagnosis.name_servers, diagnosis.brokers, diagnosis.topics, diagnosis.groups) == (1, 2, 1, 1)


NO_TRACES = {"traceTopicEnable": "false", "autoCreateTopicEnable": "false"}


@pytest.mark.parametrize(
    "changed",
    [
        {"brokers": (broker(A, settings={**broker().settings, **NO_TRACES}), broker(B))},  # the other one makes it
        {"brokers": (broker(A, settings={**broker().settings, **NO_TRACES, "autoCreateTopicEnable": "true"}),)},
        {
            "brokers": (broker(A, settings={**broker().settings, **NO_TRACES}),),
            "name_servers": (server(topics=frozenset({"T", "RMQ_SYS_TRACE_TOPIC"})),),
        },
        {
            "brokers": (broker(A, settings={**broker().settings, **NO_TRACES, "msgTraceTopicName": "T"}),),
        },
    ],
)
def test_where_a_trace_topic_is_or_will_be_tracing_is_possible(changed: dict[str, Any]) -> None:
    assert "tracing-impossible" not in {finding.rule for finding in found(**changed)}


A1 = msgspec.structs.replace(A, broker_id=1, address="10.0.0.5:10911")


def slave(lag: int = 0, state: SlaveState = SlaveState.IN_SYNC, **more: Any) -> SlaveReplication:
    told = {"broker_id": 1, "address": A1.address, "connection": "10.0.0.5:4711", "log_end": 9, "lag_bytes": lag}
    return SlaveReplication(**{**told, "state": state, **more})


def replicated(*slaves: SlaveReplication, role: str = "ASYNC_MASTER", **more: Any) -> BrokerReplication:
    in_sync = sum(each.state is SlaveState.IN_SYNC for each in slaves)
    told = {"cluster": "C", "broker": "a", "master": A.address, "in_sync_slaves": in_sync, "ha_status": True}
    return BrokerReplication(**{**told, "role": role, "slaves": list(slaves), **more})


def pair(*slaves: SlaveReplication, later: SlaveReplication | None = None, **more: Any) -> dict[str, Any]:
    """Return a master and its slave; later the slave is *later*."""
    second = (replicated(*slaves, **more),) if later is None else (replicated(later, **more),)
    return {"replication": (replicated(*slaves, **more),), "replication_later": second}


def settings(at: BrokerAt, **changed: str) -> BrokerSeen:
    return broker(at, settings={**broker(at).settings, "brokerClusterName": "C", **changed})


def two_settings(one: dict[str, str], other: dict[str, str]) -> dict[str, Any]:
    return {"brokers": (settings(A, **one), settings(A1, **other), broker(B))}


V5 = {**broker().runtime, "brokerVersionDesc": "V5_3_3"}
NOT_WAITING = {**broker().settings, "brokerRole": "SYNC_MASTER", "inSyncReplicas": "1"}

CASES: list[tuple[str, str, dict[str, Any], str]] = [
    ("name-server-unreachable", "error", {"name_servers": (server(), server(OTHER, problem="refused"))}, OTHER),
    ("name-server-elsewhere", "note", {"name_servers": (server(), server(OTHER, problem="?", asked_for=False))}, OTHER),
    ("name-server-misses-broker", "error", {"name_servers": (server(), server(OTHER, brokers=(A,)))}, "know b,"),
    ("name-server-misses-topic", "warning", {"name_servers": (server(), server(OTHER, topics=frozenset()))}, "know T,"),
    (
        "name-servers-disagree",
        "error",
        {"name_servers": (server(), server(OTHER, brokers=(msgspec.structs.replace(A, address="10.9.9.9:1"), B)))},
        "10.9.9.9:1 by 10.0.0.2:9876",
    ),
    ("brokers-share-a-name", "error", {"name_servers": (server(absent=(absent("a", "replaced"),)),)}, "named a"),
    ("broker-gone", "error", {"name_servers": (server(absent=(absent("c", "gone"),)),)}, "c (id 0) at 10.0.0.9:10911"),
    (
        "tracing-impossible",
        "note",
        {"brokers": tuple(broker(at, settings={**broker(at).settings, **NO_TRACES}) for at in (A, B))},
        "no trace topic RMQ_SYS_TRACE_TOPIC, and no broker of cluster C makes it",
    ),
    ("no-brokers", "error", {"name_servers": (server(brokers=()),), "brokers": (), "topics": ()}, "no broker is"),
    ("broker-unreachable", "error", {"brokers": (broker(A, unreachable="timed out"), broker(B))}, "10.0.0.3:10911"),
    (
        "broker-unreachable",
        "warning",
        {"brokers": (broker(A), broker(B), broker(msgspec.structs.replace(A, broker_id=1), unreachable="away"))},
        "a (id 1)",
    ),
    ("broker-refuses", "warning", {"brokers": (broker(A, refused="no rights"), broker(B))}, "no rights"),
    ("loopback-advertised", "error", {"brokers": (broker(A, loopback=True), broker(B))}, "each client's own machine"),
    ("broker-is-another", "error", {"brokers": (broker(A, settings={"brokerName": "x"}), broker(B))}, "x answers"),
    ("no-master", "error", {"brokers": (broker(A), broker(msgspec.structs.replace(B, broker_id=1)))}, "b has slaves"),
    ("clock-off", "warning", {"brokers": (broker(A, clock_ahead_ms=-60_000), broker(B))}, "60 s behind"),
    ("disk-full", "error", runtime(commitLogDiskRatio="0.91"), "91% full"),
    ("disk-filling", "warning", runtime(commitLogDiskRatio="0.8"), "80% full, its limit is 75%"),
    ("dispatch-behind", "warning", runtime(dispatchBehindBytes=str(100 << 20)), "100 MiB"),
    ("versions-mixed", "note", runtime(brokerVersionDesc="V4_9_7"), "V4_9_7: a; V4_9_8: b"),
    ("versions-mixed", "warning", runtime(brokerVersionDesc="V5_3_3"), "V5_3_3: a"),
    ("known-vulnerability", "warning", runtime(brokerVersionDesc="V4_9_5"), "CVE-2023-33246"),
    ("known-vulnerability", "warning", runtime(brokerVersionDesc="V5_1_0"), "CVE-2023-33246"),
    ("known-vulnerability", "warning", {"name_servers": (server(version=405),)}, "CVE-2023-37582"),
    ("known-vulnerability", "warning", {"name_servers": (server(version=435),)}, "CVE-2023-37582"),
    (
        "slave-not-connected",
        "warning",
        pair(slave(state=SlaveState.NOT_CONNECTED, trouble="the logs differ", follows="10.0.0.9:10912")),
        "slave 1 at 10.0.0.5:10911 of a does not copy its master 10.0.0.3:10911; it follows 10.0.0.9:10912: the logs",
    ),
    (
        "slave-log-differs",
        "error",
        pair(slave(state=SlaveState.NOT_CONNECTED, trouble="its log differs", trouble_kind="diverged")),
        "slave 1 at 10.0.0.5:10911 of a and its master 10.0.0.3:10911 have different logs: its log differs",
    ),
    ("slave-falls-behind", "warning", pair(slave(20 << 20), later=slave(40 << 20)), "is 40 MiB behind, 20.0 MiB more"),
    (
        "slave-not-registered",
        "warning",
        pair(slave(), slave(broker_id=None, address=None, connection="10.0.0.6:4712")),
        "lists, at 10.0.0.6:4712",
    ),
    ("slave-of-another-cluster", "error", two_settings({}, {"brokerClusterName": "D"}), "is of cluster D, its master"),
    (
        "commit-log-files-differ",
        "error",
        two_settings({"mappedFileSizeCommitLog": "1024"}, {"mappedFileSizeCommitLog": "2048"}),
        "1024 bytes on a and 2048 on its slave 1",
    ),
    ("sync-master-alone", "error", pair(role="SYNC_MASTER"), "a is a SYNC_MASTER without a slave"),
    (
        "sync-master-alone",
        "error",
        pair(slave(state=SlaveState.BEHIND), role="SYNC_MASTER"),
        "a is a SYNC_MASTER without a slave in sync",
    ),
    ("sync-master-alone", "error", pair(role="SYNC_MASTER", ha_status=False), "a is a SYNC_MASTER without a slave"),
    (
        "sync-master-does-not-wait",
        "warning",
        {"brokers": (broker(A, runtime=V5, settings=NOT_WAITING), broker(B, runtime=V5))},
        "a (V5_3_3) is a SYNC_MASTER with inSyncReplicas=1",
    ),
    (
        "queues-missing",
        "error",
        {"topics": (TopicSeen(topic="T", queues=(queues("a"), queues("b"), queues("z", has_address=False))),)},
        "queues on z",
    ),
    (
        "queues-missing",
        "error",
        {"topics": (TopicSeen(topic="T", queues=(queues("a"), queues("b")), ordered_on=("a", "z")),)},
        "queues on z",
    ),
    (
        "queues-unread",
        "warning",
        {"topics": (TopicSeen(topic="T", queues=(queues("a", read=2), queues("b"))),)},
        "a (4 written, 2 read)",
    ),
    ("topic-on-some", "note", {"topics": (TopicSeen(topic="T", queues=(queues("a", 8, 8),)),)}, "not on b"),
    (
        "subscriptions-differ",
        "error",
        {"groups": (GroupSeen(group="g", members=frozenset("xy"), opinions={"T: a": ("x",), "T: b": ("y",)}),)},
        "T: a (x); T: b (y)",
    ),
    (
        "group-unattended",
        "warning",
        {"groups": (GroupSeen(group="g", lag=3, lag_later=9),)},
        "9 messages behind: 6 more",
    ),
    (
        "idle-members",
        "note",
        {"groups": (GroupSeen(group="g", members=frozenset(map(str, range(9))), topics=frozenset("T")),)},
        "9 members for 8 queues",
    ),
    ("dead-letters", "note", {"dead_letters": (DeadLettersSeen(group="g", waiting=2, waiting_later=2),)}, "2 dead"),
    ("dead-letters", "warning", {"dead_letters": (DeadLettersSeen(group="g", waiting=2, waiting_later=5),)}, "3 more"),
    (
        "dead-letters",
        "warning",
        {"dead_letters": (DeadLettersSeen(group="g", waiting=5_000, waiting_later=5_000),)},
        "5000 dead letters",
    ),
]


@pytest.mark.parametrize(("rule", "severity", "changed", "words"), CASES, ids=lambda value: str(value)[:30])
def test_what_is_wrong_is_found_alone(rule: str, severity: str, changed: dict[str, Any], words: str) -> None:
    others = {"versions-mixed"} if "brokerVersionDesc" in str(changed) else set()  # an old version is another one too
    (finding,) = [each for each in found(**changed) if each.rule == rule or each.rule not in others]
    assert (finding.rule, finding.severity) == (rule, severity)
    assert words in finding.what
    assert finding.why
    assert finding.todo


def test_every_rule_is_tried() -> None:
    names = {finding.rule for _, _, changed, _ in CASES for finding in found(**changed)}
    assert names == {rule for rule, _, _, _ in CASES}
    assert len(RULES) <= len(names)


@pytest.mark.parametrize(
    "changed",
    [
        {"brokers": (broker(A, loopback=True), broker(B)), "name_servers": (server(loopback=True),)},  # all are here
        {"brokers": (broker(A, clock_ahead_ms=3_400, clock_unsure_ms=500), broker(B))},
        {"groups": (GroupSeen(group="g", lag=9, lag_later=9),)},
        {
            "groups": (
                GroupSeen(
                    group="g",
                    members=frozenset(map(str, range(9))),
                    topics=frozenset("T"),
                    message_model="BROADCASTING",
                ),
            )
        },
        {"topics": (TopicSeen(topic="T", queues=(queues("a", read=8), queues("b"))),)},  # queues are being taken away
        {"name_servers": (server(version=407),)},
        {"name_servers": (server(version=437),)},
        pair(slave(), role="SYNC_MASTER"),
        pair(slave(40 << 20), later=slave(30 << 20)),
        pair(slave(), later=slave(1 << 20)),
        pair(slave(state=SlaveState.UNKNOWN), role="SYNC_MASTER", ha_status=False),  # 4.9 does not tell
        pair(slave(state=SlaveState.NOT_CONNECTED), master=None, trouble="there is no master"),  # another rule's
        # one host, two slaves, one connection: either of them
        pair(slave(connection=None), slave(broker_id=None, address=None)),
        two_settings({"mappedFileSizeCommitLog": "1024"}, {"mappedFileSizeCommitLog": "1024"}),
    ],
    ids=str,
)
def test_what_only_looks_wrong_is_not_found(changed: dict[str, Any]) -> None:
    assert found(**changed) == []


def test_the_worst_comes_first_and_notes_alone_are_healthy() -> None:
    both = {**runtime(commitLogDiskRatio="0.95"), "topics": CASES[-7][2]["topics"]}
    assert [finding.severity for finding in found(**both)] == [Severity.ERROR, Severity.NOTE]
    assert diagnose(msgspec.structs.replace(WELL, topics=both["topics"])).healthy


def test_what_to_add_to_a_brokers_settings_is_said() -> None:
    (finding,) = found(name_servers=(server(), server(OTHER, brokers=(A,))))
    assert finding.todo == f"add {OTHER} to namesrvAddr of b, which is {NAMESRV}, and start it again"
    registered = broker(B, settings={"brokerName": "b", "namesrvAddr": f"{NAMESRV};{OTHER}"})
    (finding,) = found(name_servers=(server(), server(OTHER, brokers=(A,))), brokers=(broker(A), registered))
    assert "log of b" in finding.todo


def test_a_brokers_clock_is_read_from_when_it_began_and_how_long_ago_that_is() -> None:
    clock = {"bootTimestamp": "1000000", "runtime": "[ 1,002 days, 3 hours, 4 minutes, 5 seconds ]"}
    assert broker_clock_ms(clock) == 1_000_000 + ((1_002 * 24 + 3) * 3_600 + 4 * 60 + 5) * 1_000 + 500
    assert broker_clock_ms({}) is None
    assert broker_clock_ms({"bootTimestamp": "x", "runtime": clock["runtime"]}) is None


def test_the_same_subscription_is_written_the_same() -> None:
    one = [SubscriptionData(topic="T", sub_string="b || a"), SubscriptionData(topic="%RETRY%g", sub_string="*")]
    assert (
        subscriptions_text(one) == subscriptions_text([SubscriptionData(topic="T", sub_string="a||b")]) == "T: a || b"
    )
    sql = [SubscriptionData(topic="T", sub_string="x > 1", expression_type="SQL92")]
    assert subscriptions_text(sql) == "T: SQL92 x > 1"
    assert subscriptions_text([SubscriptionData(topic="T", sub_string="*")]) == "T: *"
    assert subscriptions_text([]) == "nothing"
