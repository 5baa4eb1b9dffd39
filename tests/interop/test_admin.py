"""Our administration commands with Apache's name server and brokers of both lines: the same answers as with ours."""

import queue
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

import hanabi
from tests.cli.admin_commands import answer, answers, refusal, said, send
from tests.interop.apache import ApacheBroker, ApacheNameServer
from tests.interop.jars import ALL_5, SERVERS_4
from tests.serving import Serving

CLUSTER = "AdminCluster"
BROKERS = ("broker-4", "broker-5")
BOTH = list(BROKERS)


@pytest.fixture(scope="module")
def cluster(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Apache's name server, with a broker of 4.9.7 and one of 5.3.3 in one cluster."""
    home = tmp_path_factory.mktemp("admin-site")
    with ExitStack() as stack:
        namesrv = ApacheNameServer(home / "namesrv")
        stack.callback(namesrv.process.kill)
        namesrv.wait_ready()
        brokers = [
            ApacheBroker(home / name, jar_set, name=name, cluster=CLUSTER, namesrv=namesrv.address)
            for name, jar_set in zip(BROKERS, (SERVERS_4, ALL_5), strict=True)
        ]
        for broker in brokers:
            stack.callback(broker.process.kill)
        for broker in brokers:
            broker.wait_ready()
        yield SimpleNamespace(namesrv=namesrv.address, broker=brokers[0].address)  # type: ignore[misc]


def test_cluster_and_brokers(cluster: Serving) -> None:
    found = answer(cluster, "cluster", "list")
    assert [(each["cluster"], each["broker"], each["problem"]) for each in found] == [
        (CLUSTER, name, None) for name in BROKERS
    ]
    assert [each["version"][:4] for each in found] == ["V4_9", "V5_3"]
    assert all(0 < each["diskUsed"] < 1 for each in found)  # their figures a second come after some seconds
    assert [each["values"]["brokerName"] for each in answer(cluster, "broker", "config")] == BOTH
    changed = answer(cluster, "broker", "config", "fileReservedTime=48", "--broker", "broker-5", "--yes")
    assert [each["values"] for each in changed] == [{"fileReservedTime": "48"}]
    for what in ("queues", "topics", "log"):
        assert answer(cluster, "broker", "clean", what, "--yes")["brokers"] == BOTH
    assert len(answer(cluster, "broker", "status")) == 2


def test_topics(cluster: Serving) -> None:
    made = answer(cluster, "topic", "create", "Life", "--queues", "2")
    assert [each["broker"] for each in made] == BOTH
    assert "there already" in refusal(cluster, 1, "topic", "create", "Life")
    (listed,) = [each for each in answer(cluster, "topic", "list")["topics"] if each["topic"] == "Life"]
    assert [(each["broker"], each["writeQueues"], each["perm"]) for each in listed["brokers"]] == [
        (name, 2, 6) for name in BROKERS
    ]
    assert not [each for each in answer(cluster, "topic", "list")["topics"] if each["topic"] in ("TBW102", CLUSTER)]
    changed = answer(cluster, "topic", "update", "Life", "--write-queues", "3", "--read-queues", "3")
    assert [each["writeQueues"] for each in changed] == [3, 3]
    assert [each["perm"] for each in answer(cluster, "topic", "perm", "Life", "R", "-b", "broker-4")] == [4]
    answer(cluster, "topic", "perm", "Life", "RW")
    assert [each["broker"] for each in answer(cluster, "topic", "route", "Life")] == BOTH
    assert answer(cluster, "topic", "status", "Life")["messages"] == 0
    assert "UPDATE_AND_CREATE_TOPIC" in refusal(cluster, 1, "topic", "create", "Bad*Name")
    assert answer(cluster, "topic", "delete", "Life", "--yes")["brokers"] == BOTH
    assert "no broker serves topic Life" in refusal(cluster, 1, "topic", "status", "Life")


def test_groups_offsets_and_messages(cluster: Serving) -> None:
    said(cluster, "topic", "create", "Letters", "--queues", "2")
    made = answer(cluster, "group", "create", "readers", "--retry-max", "3")
    assert [(each["broker"], each["retryMax"]) for each in made] == [(name, 3) for name in BROKERS]
    sent = send(cluster, *(hanabi.Message("Letters", str(n).encode(), keys=[f"k{n}"], tags="a") for n in range(8)))
    assert "knows group nobody" in refusal(cluster, 1, "group", "progress", "nobody")

    ends = [each["maxOffset"] for each in answer(cluster, "offset", "show", "readers", "Letters")]
    assert sum(ends) == 8
    said(cluster, "offset", "skip", "readers", "Letters", "--yes")
    assert [each["groupOffset"] for each in answer(cluster, "offset", "show", "readers", "Letters")] == ends
    said(cluster, "group", "create", "copy")
    said(cluster, "offset", "clone", "readers", "copy", "--yes")
    assert answer(cluster, "group", "progress", "copy")["lag"] == 0
    said(cluster, "offset", "reset", "readers", "Letters", "--to", "first", "--yes")
    assert answer(cluster, "group", "progress", "readers")["lag"] == 8

    first = sent[0]
    by_id = answer(cluster, "message", "get", first.message_id, "--topic", "Letters")
    assert (by_id["body"], by_id["keys"]) == ("0", ["k0"])
    assert answer(cluster, "message", "get", first.offset_message_id) == by_id
    assert [each["body"] for each in answers(cluster, "message", "query", "Letters", "k3")] == ["3"]
    assert len(answers(cluster, "message", "print", "Letters")) == 8

    seen: queue.Queue[object] = queue.Queue()
    consumer = hanabi.PushConsumer("readers", namesrv=cluster.namesrv, persist_offsets_s=0.2)
    consumer.subscribe("Letters", "a")
    consumer.listener(seen.put)
    with consumer:
        for _ in range(8):
            seen.get(timeout=30)
        (member,) = answer(cluster, "group", "members", "readers")["members"]
        assert (member["clientId"], member["brokers"]) == (consumer.client_id, BOTH)
        wanted = answer(cluster, "group", "subscriptions", "readers")
        assert wanted["consistent"] is True
        assert ("Letters", "a") in {(each["topic"], each["expression"]) for each in wanted["subscriptions"]}
        assert answer(cluster, "group", "members", "readers", "--client", member["clientId"])["queues"]
        direct = answer(cluster, "message", "consume-directly", first.message_id, "readers", "--topic", "Letters")
        assert direct["result"] == "CR_SUCCESS"
        seen.get(timeout=10)
        assert answer(cluster, "offset", "reset", "readers", "Letters", "--to", "first", "--yes")["online"] is True
        for _ in range(8):
            seen.get(timeout=60)
    (flow,) = [each for each in answer(cluster, "broker", "stats", "-t", "Letters") if each["group"] == "readers"]
    assert flow["lag"] >= 0
    (summary,) = [each for each in answer(cluster, "group", "list") if each["group"] == "readers"]
    assert summary["members"] == 0
    assert answer(cluster, "group", "delete", "readers", "--yes")["brokers"] == BOTH
    assert "knows group readers" in refusal(cluster, 1, "group", "members", "readers")


def test_dead_letters(cluster: Serving) -> None:
    said(cluster, "topic", "create", "Mortal", "--queues", "1")
    said(cluster, "group", "create", "mortal", "--retry-max", "0")
    said(cluster, "offset", "reset", "mortal", "Mortal", "--to", "first", "--yes")
    send(cluster, *(hanabi.Message("Mortal", str(number).encode()) for number in range(4)))
    died: queue.Queue[object] = queue.Queue()
    seen: queue.Queue[object] = queue.Queue()

    def fail(message: object) -> None:
        died.put(message)
        raise ValueError("these letters shall die")

    consumer = hanabi.PushConsumer("mortal", namesrv=cluster.namesrv, max_reconsume_times=0)
    consumer.subscribe("Mortal")
    consumer.listener(fail)
    with consumer:
        for _ in range(4):
            died.get(timeout=30)
    (found,) = [each for each in answer(cluster, "dlq", "list") if each["group"] == "mortal"]
    assert (found["messages"], found["waiting"]) == (4, 4)
    said(cluster, "group", "create", "mortal", "--update", "--retry-max", "16")
    resent = answers(cluster, "dlq", "resend", "mortal", "--rate", "100", "--yes")
    assert [(each["sent"], each["originTopic"]) for each in resent] == [(True, "Mortal")] * 4
    assert answers(cluster, "dlq", "resend", "mortal", "--yes") == []
    again = hanabi.PushConsumer("mortal", namesrv=cluster.namesrv)
    again.subscribe("Mortal")
    again.listener(seen.put)
    with again:
        for _ in range(4):
            seen.get(timeout=30)


def test_the_name_server(cluster: Serving) -> None:
    assert answer(cluster, "namesrv", "config")[0]["values"]
    assert answer(cluster, "namesrv", "kv", "Space", "colour", "blue")[0]["values"] == {"colour": "blue"}
    said(cluster, "namesrv", "kv", "Space", "colour", "--delete", "--yes")
    assert "has a value colour" in refusal(cluster, 1, "namesrv", "kv", "Space", "colour")
    said(cluster, "topic", "create", "Ordered", "--order", "--queues", "2")
    (kept,) = answer(cluster, "namesrv", "kv", "ORDER_TOPIC_CONFIG", "Ordered")
    assert kept["values"] == {"Ordered": "broker-4:2;broker-5:2"}
    (wiped,) = answer(cluster, "namesrv", "write-perm", "broker-4", "--forbid", "--yes")
    assert wiped["topics"] > 0
    said(cluster, "namesrv", "write-perm", "broker-4", "--allow")
