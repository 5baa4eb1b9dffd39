"""Our administration commands with Apache's name server and brokers of both lines: the same answers as with ours."""

import json
import queue
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

import hanabi
from hanabi.dashboard.security.roles import Role
from hanabi.remoting.loop import run as run_on_loop
from tests.cli.admin_commands import answer, answers, refusal, run, said, send
from tests.cli.shapes import check, shape_of
from tests.dashboard.browsing import dashboard
from tests.interop.apache import TIMERS, ApacheBroker, ApacheNameServer
from tests.interop.jars import ALL_5, SERVERS_4
from tests.interop.ours import OurBroker, OurNameServer
from tests.serving import Serving

CLUSTER = "AdminCluster"
BROKERS = ("broker-4", "broker-5")
BOTH = list(BROKERS)
WAIT_S = 60


@pytest.fixture(scope="module")
def cluster(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Apache's name server, with a broker of 4.9.7 and one of 5.3.3 in one cluster."""
    home = tmp_path_factory.mktemp("admin-site")
    with ExitStack() as stack:
        namesrv = ApacheNameServer(home / "namesrv")
        stack.callback(namesrv.process.kill)
        namesrv.wait_ready()
        brokers = [
            ApacheBroker(home / name, jar_set, name=name, cluster=CLUSTER, namesrv=namesrv.address, settings=TIMERS)
            for name, jar_set in zip(BROKERS, (SERVERS_4, ALL_5), strict=True)
        ]
        for broker in brokers:
            stack.callback(broker.process.kill)
        for broker in brokers:
            broker.wait_ready()
        # A 5.x broker that has counted nothing yet fails when it is asked for its figures: within its first second.
        asked = ("broker", "status", "--json", "-n", namesrv.address)
        brokers[1].process.wait_until(lambda: run(*asked).returncode == 0, "tell its figures")
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
    assert "exists already" in refusal(cluster, 1, "topic", "create", "Life")
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


def test_request_modes_and_recalls_are_of_brokers_of_5(cluster: Serving) -> None:
    said(cluster, "topic", "create", "Timed", "--queues", "1", "-b", "broker-5", "--message-type", "DELAY")
    (entry,) = answer(cluster, "topic", "route", "Timed")
    assert entry["messageType"] == "DELAY"
    said(cluster, "group", "create", "poppers", "-b", "broker-5")
    mode = {"broker": "broker-5", "topic": "Timed", "group": "poppers", "mode": "POP", "shareQueues": 2}
    assert answer(cluster, "group", "mode", "poppers", "Timed", "pop", "--share-queues", "2") == [mode]
    assert answer(cluster, "group", "mode", "poppers", "Timed") == [mode]
    (sent,) = answers(cluster, "send", "Timed", "hello", "--delay", "600s")
    forbidden = refusal(cluster, 1, "message", "recall", sent["recallHandle"])
    assert "operation is forbidden" in forbidden, "unless recallMessageEnable is true"


def test_groups_offsets_and_messages(cluster: Serving) -> None:
    said(cluster, "topic", "create", "Letters", "--queues", "2")
    made = answer(cluster, "group", "create", "readers", "--retry-max", "3")
    assert [(each["broker"], each["retryMax"]) for each in made] == [(name, 3) for name in BROKERS]
    sent = send(cluster, *(hanabi.Message("Letters", str(n).encode(), keys=[f"k{n}"], tags="a") for n in range(8)))
    assert "knows group nobody" in refusal(cluster, 1, "group", "progress", "nobody")

    ends: list[int] = []
    deadline = time.monotonic() + WAIT_S
    while sum(ends) < 8 and time.monotonic() < deadline:  # a message is in its queue a moment after its sender knows
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
            seen.get(timeout=WAIT_S)
        (member,) = answer(cluster, "group", "members", "readers")["members"]
        assert (member["clientId"], member["brokers"]) == (consumer.client_id, BOTH)
        wanted = answer(cluster, "group", "subscriptions", "readers")
        assert wanted["consistent"] is True
        assert ("Letters", "a") in {(each["topic"], each["expression"]) for each in wanted["subscriptions"]}
        assert answer(cluster, "group", "members", "readers", "--client", member["clientId"])["queues"]
        direct = answer(cluster, "message", "consume-directly", first.message_id, "readers", "--topic", "Letters")
        assert direct["result"] == "CR_SUCCESS"
        seen.get(timeout=WAIT_S)
        assert answer(cluster, "offset", "reset", "readers", "Letters", "--to", "first", "--yes")["online"] is True
        for _ in range(8):
            seen.get(timeout=WAIT_S)
    (flow,) = [each for each in answer(cluster, "broker", "stats", "-t", "Letters") if each["group"] == "readers"]
    assert flow["lag"] >= 0
    stats = answer(cluster, "stats")
    assert [(each["broker"], each["inToday"] > 0) for each in stats["brokers"]] == [(name, True) for name in BROKERS]
    assert [each["group"] for each in stats["topics"] if each["topic"] == "Letters"] == ["copy", "readers"]
    (summary,) = [each for each in answer(cluster, "group", "list") if each["group"] == "readers"]
    assert summary["members"] == 0
    assert answer(cluster, "group", "delete", "readers", "--yes")["brokers"] == BOTH
    assert "knows group readers" in refusal(cluster, 1, "group", "members", "readers")


def test_traces_and_sends(cluster: Serving) -> None:
    said(cluster, "topic", "create", "Traced", "--queues", "1", "-b", "broker-5")
    said(cluster, "topic", "create", "Traces", "--queues", "1", "-b", "broker-4")
    (sent,) = answers(cluster, "message", "send", "Traced", "hello", "--keys", "k")
    assert (sent["status"], sent["brokerName"]) == ("SEND_OK", "broker-5")
    with hanabi.Producer("tracing", namesrv=cluster.namesrv, trace="Traces") as producer:
        traced = producer.send(hanabi.Message("Traced", b"seen")).message_id
        (member,) = answer(cluster, "group", "members", "tracing", "--producers")["members"]
        assert (member["clientId"], member["brokers"]) == (producer.client_id, ["broker-5"])
    deadline = time.monotonic() + WAIT_S
    while run("message", "trace", traced, "--topic", "Traces", "-n", cluster.namesrv).returncode:  # the index is late
        assert time.monotonic() < deadline
        time.sleep(0.1)
    (event,) = answer(cluster, "message", "trace", traced, "--topic", "Traces")
    assert (event["event"], event["topic"], event["success"]) == ("Pub", "Traced", True)


def test_measuring(cluster: Serving) -> None:
    count = ("--count", "200", "--concurrency", "4")  # a JVM that is cold says "busy" to a crowd
    produced = answer(cluster, "bench", "produce", "--topic", "Measured", "--create", *count, "--size", "100")
    assert (produced["statuses"], produced["failed"], produced["topicCreated"]) == ({"SEND_OK": 200}, 0, True)
    assert [each["broker"] for each in answer(cluster, "topic", "route", "Measured")] == BOTH
    batched = answer(cluster, "bench", "produce", "--topic", "Measured", *count, "--batch", "50")
    assert batched["statuses"] == {"SEND_OK": 200}
    # A young topic: what is in it must not come, though Apache's let a new group begin at its first message.
    trip = answer(cluster, "bench", "latency", "--topic", "Measured", *count, "--rate", "200")
    assert (trip["received"], trip["lost"], trip["duplicated"], trip["groupRemoved"]) == (200, 0, 0, True)
    consumed = answer(cluster, "bench", "consume", "--topic", "Measured", "--from", "first", "--count", "600")
    assert consumed["received"]["messages"] >= 600
    assert consumed["groupRemoved"]
    later = run("bench", "consume", "--topic", "Measured", "--seconds", "1", "--json", "-n", cluster.namesrv)
    assert (later.returncode, json.loads(later.stdout)["received"]["messages"]) == (1, 0)
    assert not [each for each in answer(cluster, "group", "list") if each["group"].startswith("hanabi_bench")]
    said(cluster, "topic", "delete", "Measured", "--yes")


def test_dead_letters(cluster: Serving, tmp_path: Path) -> None:
    said(cluster, "topic", "create", "Mortal", "--queues", "1")
    said(cluster, "group", "create", "mortal", "--retry-max", "0")
    # 5.3 makes it too, but tells of all that it makes at one time with one version, of which the name server takes the
    # first: one that is made with the group's retry topic may stay unknown.
    said(cluster, "topic", "create", "%DLQ%mortal", "--queues", "1")
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
            died.get(timeout=WAIT_S)
    found: list[tuple[int, int]] = []
    deadline = time.monotonic() + WAIT_S
    while found != [(4, 4)] and time.monotonic() < deadline:  # a letter can be read a moment later
        listed = answer(cluster, "dlq", "list")
        found = [(each["messages"], each["waiting"]) for each in listed if each["group"] == "mortal"]
    assert found == [(4, 4)]
    shown = answers(cluster, "dlq", "show", "mortal")
    assert sorted(each["body"] for each in shown) == ["0", "1", "2", "3"]
    assert answer(cluster, "dlq", "export", "mortal", str(tmp_path / "letters"))["messages"] == 4
    assert [json.loads(line) for line in (tmp_path / "letters").read_text().splitlines()] == shown
    said(cluster, "group", "create", "mortal", "--update", "--retry-max", "16")
    resent = answers(cluster, "dlq", "resend", "mortal", "--rate", "100", "--yes")
    assert [(each["sent"], each["originTopic"]) for each in resent] == [(True, "Mortal")] * 4
    assert answers(cluster, "dlq", "resend", "mortal", "--yes") == []
    again = hanabi.PushConsumer("mortal", namesrv=cluster.namesrv)
    again.subscribe("Mortal")
    again.listener(seen.put)
    with again:
        for _ in range(4):
            seen.get(timeout=WAIT_S)


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


def diagnosis(namesrv: str) -> list[tuple[str, str, str]]:
    """Return what `hanabi doctor` finds, but what all tests here have: two versions, and topics on one broker."""
    told = run("doctor", "--interval", "0.2", "--json", "-n", namesrv)
    assert (told.returncode, told.stderr) == (1, "")
    check(shape_of(("doctor",)), told.stdout)
    found = [(each["severity"], each["rule"], each["subject"]) for each in json.loads(told.stdout)["findings"]]
    assert ("warning", "versions-mixed", "V4_9_7, V5_3_3") in found
    return [each for each in found if each[1] not in ("versions-mixed", "topic-on-some", "dead-letters")]


def test_a_cluster_that_is_well_but_of_two_versions(cluster: Serving) -> None:
    assert diagnosis(cluster.namesrv) == []


def test_the_doctor_finds_members_that_subscribe_differently(cluster: Serving) -> None:
    said(cluster, "topic", "create", "Mixed")
    consumers = [hanabi.PushConsumer("mixed", namesrv=cluster.namesrv) for _ in range(2)]
    for consumer, tags in zip(consumers, ("a", "b || c"), strict=True):
        consumer.subscribe("Mixed", tags)
        consumer.listener(lambda _: None)
    with consumers[0], consumers[1]:
        assert diagnosis(cluster.namesrv) == [("error", "subscriptions-differ", "mixed")]


def test_the_doctor_finds_a_disk_over_its_limit(cluster: Serving) -> None:
    (used,) = [each["diskUsed"] for each in answer(cluster, "cluster", "list") if each["broker"] == "broker-4"]
    if used < 0.1:
        pytest.skip("the disk here is nearly empty")
    said(cluster, "broker", "config", "diskMaxUsedSpaceRatio=10", "--broker", "broker-4", "--yes")
    try:
        assert [each[1:] for each in diagnosis(cluster.namesrv)] in (
            [("disk-filling", "broker-4")],
            [("disk-full", "broker-4"), ("disk-full", "broker-5")],
        )
    finally:
        said(cluster, "broker", "config", "diskMaxUsedSpaceRatio=75", "--broker", "broker-4", "--yes")


def test_the_doctor_finds_a_name_server_that_misses_brokers_and_an_address_that_nobody_reaches(
    cluster: Serving, tmp_path: Path
) -> None:
    second = OurNameServer(tmp_path / "namesrv")
    try:
        second.wait_ready()
        both = f"{cluster.namesrv};{second.address}"
        assert diagnosis(both) == [("error", "name-server-misses-broker", second.address)] * 2
    finally:
        second.process.kill()
    settings = {"brokerIP1": "127.0.0.1", "advertisedPort": "1", "brokerClusterName": "Elsewhere"}
    lost = OurBroker(tmp_path / "broker", name="broker-lost", namesrv=cluster.namesrv, settings=settings)
    try:
        lost.wait_ready()
        assert diagnosis(cluster.namesrv) == [("error", "broker-unreachable", "broker-lost")]
    finally:
        lost.process.kill()


def test_the_dashboard_reads_brokers_of_both_lines(cluster: Serving, tmp_path: Path) -> None:
    said(cluster, "topic", "create", "Shown", "--queues", "2")
    said(cluster, "group", "create", "watchers")
    said(cluster, "offset", "skip", "watchers", "Shown", "--yes")
    (sent,) = send(cluster, hanabi.Message("Shown", b'{"a": 1}', keys=["shown"]))

    async def look() -> None:
        async with dashboard(tmp_path, cluster.namesrv) as site:
            browser = await site.as_role(Role.ADMINISTRATOR)
            for path, words in {
                "/": ("broker-4", "broker-5", "V4_9", "V5_3", "answers"),
                "/topics?q=shown": (">Shown</a>",),
                "/topics/Shown": ("broker-4", "broker-5", "read and write"),
                "/groups?q=watchers": (">watchers</a>",),
                "/groups/watchers": ("No member is online.",),
                f"/brokers/{cluster.broker}": ("brokerVersionDesc", "fileReservedTime"),
                "/replication": ("broker-4", "broker-5"),
                "/waiting": ("Half messages",),
                "/dead-letters": ("dead letters",),
                f"/messages/view?id={sent.message_id}&topic=Shown": ("&#34;a&#34;: 1", "shown"),
                "/messages?topic=Shown&from=1h": (sent.message_id,),
            }.items():
                page = await browser.get(path)
                assert page.status_code == 200, f"{path}: {page.text}"
                assert [word for word in words if word not in page.text] == [], f"{path}: {page.text}"
                assert "Without broker" not in page.text, path
            sampled = await site.parts.sampler.sample()
            assert sampled.lags is not None
            assert sampled.lags["watchers"].messages == 1
            assert sampled.replication is not None
            curve = json.loads((await browser.get("/history?of=group&name=watchers")).text)
            assert 1.0 in curve[1]
            assert "No alert." in (await browser.get("/alerts")).text
            assert "No broker is in controller mode." in (await browser.get("/controllers")).text

    run_on_loop(look())
    said(cluster, "topic", "delete", "Shown", "--yes")
    said(cluster, "group", "delete", "watchers", "--yes")
