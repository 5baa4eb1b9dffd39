"""`hanabi group` as its users see it: with members, with members that do not agree, and without."""

import queue
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import hanabi
from hanabi.wire.bodies.heartbeat import HeartbeatData
from hanabi.wire.codes import Language, RequestCode, ResponseCode
from hanabi.wire.command import decode_command, encode_head, encode_reply_head
from hanabi.wire.fastjson import encode_body
from hanabi.wire.frame import FrameDecoder
from tests.broker.clients.people import a_consumer, subscribed
from tests.cli.admin_commands import answer, refusal, said, send
from tests.serving import Serving


@pytest.fixture(scope="module")
def consumer(cluster: Serving) -> Iterator[hanabi.PushConsumer]:
    """Yield a member of group `members` that has consumed four messages of topic Consumed."""
    said(cluster, "topic", "create", "Consumed", "--queues", "2")
    seen: queue.Queue[object] = queue.Queue()
    consumer = hanabi.PushConsumer("members", namesrv=cluster.namesrv, persist_offsets_s=0.2)
    consumer.subscribe("Consumed", "a || b")
    consumer.listener(seen.put)
    with consumer:
        send(cluster, *(hanabi.Message("Consumed", body, tags="a") for body in (b"1", b"2", b"3", b"4")))
        for _ in range(4):
            seen.get(timeout=60)
        yield consumer


def test_a_group_lives_and_dies(cluster: Serving) -> None:
    made = answer(cluster, "group", "create", "life", "--retry-max", "3", "--no-broadcast")
    expected = {"cluster": "DefaultCluster", "broker": "broker-a", "consumeEnabled": True, "broadcastEnabled": False}
    assert made == [{**expected, "fromMinEnabled": True, "retryMax": 3, "retryQueues": 1}]
    assert "exists already" in refusal(cluster, 1, "group", "create", "life")
    (changed,) = answer(cluster, "group", "create", "life", "--update", "--retry-queues", "2")
    assert (changed["retryMax"], changed["retryQueues"]) == (3, 2)

    (listed,) = [each for each in answer(cluster, "group", "list") if each["group"] == "life"]
    expected = {"group": "life", "kind": "normal", "brokers": [changed], "members": 0, "messageModel": None, "lag": 0}
    assert listed == {**expected, "consumeTps": 0.0}
    nothing = {"group": "life", "lag": 0, "inFlight": 0, "consumeTps": 0.0, "queues": []}
    assert answer(cluster, "group", "progress", "life") == nothing
    assert answer(cluster, "group", "members", "life")["members"] == []
    assert "has no members now" in said(cluster, "group", "subscriptions", "life")

    assert "which has 0 members now? There is no terminal" in refusal(cluster, 2, "group", "delete", "life")
    assert answer(cluster, "group", "delete", "life", "--yes") == {"group": "life", "brokers": ["broker-a"]}
    assert "knows group life" in refusal(cluster, 1, "group", "members", "life")


def test_groups_of_tools_are_shown_on_request(cluster: Serving) -> None:
    assert "TOOLS_CONSUMER" not in said(cluster, "group", "list")
    assert "TOOLS_CONSUMER" in said(cluster, "group", "list", "--all")


def test_a_member_that_says_nothing_of_itself_is_shown_with_what_the_broker_knows(cluster: Serving) -> None:
    # As some Go clients do: they answer, with an empty body.
    beat = HeartbeatData(client_id="10.0.0.7@1", consumer_data_set=[a_consumer("silent", subscribed("T"))])
    host, _, port = cluster.broker.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as member, ThreadPoolExecutor(1) as answering:
        body = encode_body(beat)
        head = encode_head(code=RequestCode.HEART_BEAT, opaque=1, body_bytes=len(body), language=Language.GO)
        member.sendall(head + body)
        answering.submit(answer_with_nothing, member)
        try:
            while not answer(cluster, "group", "members", "silent")["members"]:
                time.sleep(0.05)
            doing = answer(cluster, "group", "members", "silent", "--client", "10.0.0.7@1")
            assert doing["clientId"] == "10.0.0.7@1"
            assert (doing["properties"]["language"], doing["queues"], doing["stacks"]) == ("GO", [], "")
            assert "answered without saying anything" in doing["missing"]
            text = said(cluster, "group", "members", "silent", "--client", "10.0.0.7@1")
            assert "GO" in text
            assert "Missing: the member answered without saying anything: its queues, figures and stacks" in text
        finally:
            member.shutdown(socket.SHUT_RDWR)


def answer_with_nothing(member: socket.socket) -> None:
    decoder = FrameDecoder()
    while data := member.recv(1 << 16):
        for command in map(decode_command, decoder.feed(data)):
            if command.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
                member.sendall(encode_reply_head(command, ResponseCode.SUCCESS, None, {}))


def test_members_and_subscriptions_are_shown(cluster: Serving, consumer: hanabi.PushConsumer) -> None:
    found = answer(cluster, "group", "members", "members")
    assert (found["messageModel"], found["consumeType"]) == ("CLUSTERING", "CONSUME_PASSIVELY")
    (member,) = found["members"]
    assert (member["language"], member["brokers"]) == ("PYTHON", ["broker-a"])
    assert member["clientId"] in said(cluster, "group", "members", "members")

    wanted = answer(cluster, "group", "subscriptions", "members")
    assert wanted["consistent"] is True
    assert {each["topic"]: each["expression"] for each in wanted["subscriptions"]} == {
        "Consumed": "a || b",
        "%RETRY%members": "*",
    }

    doing = answer(cluster, "group", "members", "members", "--client", member["clientId"])
    assert doing["properties"]
    assert "Consumed" in said(cluster, "group", "members", "members", "--client", member["clientId"])
    assert "no member nobody" in refusal(cluster, 1, "group", "members", "members", "--client", "nobody")


def test_progress_is_shown_by_queue(cluster: Serving, consumer: hanabi.PushConsumer) -> None:
    found = answer(cluster, "group", "progress", "members", "--topic", "Consumed")
    assert [(each["topic"], each["queueId"]) for each in found["queues"]] == [("Consumed", 0), ("Consumed", 1)]
    assert sum(each["maxOffset"] for each in found["queues"]) == 4
    keys = {"topic", "broker", "queueId", "maxOffset", "groupOffset", "lag", "lastConsumed", "inFlight"}
    assert set(found["queues"][0]) == keys
    assert said(cluster, "group", "progress", "members").splitlines()[0].split()[:3] == ["TOPIC", "BROKER", "QUEUE"]


def test_producers_are_shown_while_they_are_connected(cluster: Serving) -> None:
    asked = ("group", "members", "senders", "--producers")
    assert "no producer of group senders is connected" in refusal(cluster, 1, *asked)
    with hanabi.Producer("senders", namesrv=cluster.namesrv) as producer:
        producer.send(hanabi.Message("Produced", b"x"))
        (member,) = answer(cluster, *asked)["members"]
        assert (member["clientId"], member["brokers"]) == (producer.client_id, ["broker-a"])
        assert producer.client_id in said(cluster, *asked)
    assert "--client asks a consumer" in refusal(cluster, 2, *asked, "--client", "x")


def test_members_that_do_not_agree_are_told(cluster: Serving) -> None:
    said(cluster, "topic", "create", "Contested")
    consumers = [hanabi.PushConsumer("quarrel", namesrv=cluster.namesrv) for _ in range(2)]
    for consumer, tag in zip(consumers, ("a", "b"), strict=True):
        consumer.subscribe("Contested", tag)
        consumer.listener(lambda _: None)
    with consumers[0], consumers[1]:
        found = answer(cluster, "group", "subscriptions", "quarrel")
        assert found["consistent"] is False
        assert len(found["opinions"]) == 2
        assert "subscribe differently" in said(cluster, "group", "subscriptions", "quarrel")


@pytest.mark.parametrize("verb", ["progress", "members", "subscriptions", "delete"])
def test_a_group_that_nobody_knows_is_one_sentence(cluster: Serving, verb: str) -> None:
    assert "no broker of broker-a knows group nobody" in refusal(cluster, 1, "group", verb, "nobody")


def test_a_group_has_the_request_mode_that_was_set_and_shows_what_is_in_flight(cluster: Serving) -> None:
    said(cluster, "topic", "create", "Popped", "--queues", "1")
    said(cluster, "group", "create", "poppers")
    assert "no mode was set" in said(cluster, "group", "mode", "poppers")
    mode = {"broker": "broker-a", "topic": "Popped", "group": "poppers", "mode": "POP", "shareQueues": 0}
    assert answer(cluster, "group", "mode", "poppers", "Popped", "pop") == [mode]
    assert answer(cluster, "group", "mode", "poppers") == [mode]
    assert "POP" in said(cluster, "group", "mode", "poppers", "Popped")
    assert "PULL or POP, not PUSH" in refusal(cluster, 2, "group", "mode", "poppers", "Popped", "PUSH")
    send(cluster, *(hanabi.Message("Popped", str(number).encode()) for number in range(5)))
    with hanabi.SimpleConsumer("poppers", namesrv=cluster.namesrv) as receiver:
        receiver.subscribe("Popped")
        assert len(receiver.receive(3)) == 3
        progress = answer(cluster, "group", "progress", "poppers")
        assert (progress["lag"], progress["inFlight"]) == (5, 3)
        assert [each["inFlight"] for each in progress["queues"] if each["topic"] == "Popped"] == [3]
        assert "5 messages behind, 3 of them in flight" in said(cluster, "group", "progress", "poppers")
