"""`hanabi message` as its users see it."""

import queue

import pytest

import hanabi
from hanabi.testing.waiting import SECONDS
from tests.cli.admin_commands import answer, answers, refusal, said, send
from tests.serving import Serving


@pytest.fixture(scope="module")
def sent(cluster: Serving) -> hanabi.SendResult:
    """Return one message of topic Letters, with tag, keys and a property; five others are there."""
    said(cluster, "topic", "create", "Letters", "--queues", "2")
    message = hanabi.Message("Letters", b"dear", tags="a", keys=["k1", "k2"], properties={"colour": "blue"})
    others = [hanabi.Message("Letters", f"other {number}".encode(), tags="b") for number in range(5)]
    return send(cluster, message, *others)[0]


def test_a_message_is_found_by_its_ids_and_its_place(cluster: Serving, sent: hanabi.SendResult) -> None:
    by_id = answer(cluster, "message", "get", sent.message_id, "--topic", "Letters")
    assert (by_id["body"], by_id["tags"], by_id["keys"]) == ("dear", "a", ["k1", "k2"])
    assert by_id["properties"]["colour"] == "blue"
    assert answer(cluster, "message", "get", sent.message_id) == by_id
    assert answer(cluster, "message", "get", sent.offset_message_id) == by_id
    assert answer(cluster, "message", "get", sent.offset_message_id, "-t", "Letters") == by_id
    place = ("--broker", "broker-a", "--queue", str(sent.queue.queue_id), "--offset", str(sent.queue_offset))
    at_place = answer(cluster, "message", "get", "--topic", "Letters", *place)
    assert at_place["messageId"] == sent.message_id
    assert "colour = blue" in said(cluster, "message", "get", sent.message_id, "--topic", "Letters")


def test_the_id_that_send_prints_is_found(cluster: Serving) -> None:
    _, message_id, place = said(cluster, "send", "Printed", "hello").split()
    found = answer(cluster, "message", "get", message_id)
    assert (found["topic"], found["body"], found["messageId"]) == ("Printed", "hello", message_id)
    assert place.endswith(f"@{found['queueOffset']}")


def test_messages_are_found_by_key(cluster: Serving, sent: hanabi.SendResult) -> None:
    (found,) = answers(cluster, "message", "query", "Letters", "k2")
    assert found["messageId"] == sent.message_id
    assert said(cluster, "message", "query", "Letters", "k1").endswith("tags=a keys=k1,k2 dear\n")
    assert "no message with key k3" in refusal(cluster, 1, "message", "query", "Letters", "k3")
    past = refusal(cluster, 1, "message", "query", "Letters", "k1", "--to", "2020-01-01T00:00:00")
    assert "no message with key k1" in past


def test_a_timed_message_is_recalled_by_the_handle_that_send_prints(cluster: Serving) -> None:
    _, message_id, _, handle = said(cluster, "send", "Timed", "hello", "--delay", "600s").split()
    recalled = answer(cluster, "message", "recall", handle)
    assert recalled == {"topic": "Timed", "broker": "broker-a", "messageId": message_id}
    assert message_id in said(cluster, "message", "recall", handle)
    assert "no recall handle" in refusal(cluster, 2, "message", "recall", message_id)
    (line,) = answers(cluster, "send", "Timed", "hello", "--delay", "600s")
    assert answer(cluster, "message", "recall", line["recallHandle"])["messageId"] == line["messageId"]


def test_a_topic_is_printed_up_to_now(cluster: Serving, sent: hanabi.SendResult) -> None:
    assert len(answers(cluster, "message", "print", "Letters")) == 6
    assert [each["body"] for each in answers(cluster, "message", "print", "Letters", "--tags", "a")] == ["dear"]
    assert len(said(cluster, "message", "print", "Letters", "--count", "2").splitlines()) == 2
    in_queue = answers(cluster, "message", "print", "Letters", "--queue", "1", "--broker", "broker-a")
    assert {each["queueId"] for each in in_queue} == {1}
    assert said(cluster, "message", "print", "Letters", "--from", "2100-01-01T00:00:00") == ""
    assert "id " in said(cluster, "message", "print", "Letters", "--count", "1", "--full")


def test_a_message_is_sent(cluster: Serving) -> None:
    said(cluster, "topic", "create", "SentHere")
    (found,) = answers(cluster, "message", "send", "SentHere", "hello", "--keys", "s1")
    assert (found["status"], found["topic"]) == ("SEND_OK", "SentHere")
    assert answers(cluster, "message", "query", "SentHere", "s1")[0]["body"] == "hello"


def test_a_consumer_consumes_it_directly(cluster: Serving, sent: hanabi.SendResult) -> None:
    said(cluster, "group", "create", "direct")
    said(cluster, "offset", "skip", "direct", "Letters", "--yes")
    seen: queue.Queue[object] = queue.Queue()
    consumer = hanabi.PushConsumer("direct", namesrv=cluster.namesrv)
    consumer.subscribe("Letters")
    consumer.listener(seen.put)
    with consumer:
        found = answer(cluster, "message", "consume-directly", sent.message_id, "direct", "--topic", "Letters")
        assert (found["result"], found["group"], found["clientId"]) == ("CR_SUCCESS", "direct", consumer.client_id)
        seen.get(timeout=SECONDS)
        assert seen.empty()
    words = refusal(cluster, 1, "message", "consume-directly", sent.offset_message_id, "direct")
    assert "no member" in words


def test_a_trace_shows_the_way_of_a_message(cluster: Serving) -> None:
    said(cluster, "topic", "create", "Traced")
    with hanabi.Producer("tracers", namesrv=cluster.namesrv, trace=True) as producer:
        result = producer.send(hanabi.Message("Traced", b"x", keys=["t1"]))
    (event,) = answer(cluster, "message", "trace", result.message_id)
    assert (event["event"], event["group"], event["topic"], event["success"]) == ("Pub", "tracers", "Traced", True)
    assert answer(cluster, "message", "trace", "t1") == [event]
    assert said(cluster, "message", "trace", "t1").splitlines()[1].startswith("Pub ")
    assert "has no trace of t2" in refusal(cluster, 1, "message", "trace", "t2")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["get"], 2, "give an ID"),
        (["get", "nonsense"], 1, "no message of any topic has the id nonsense"),
        (["get", "nonsense", "--topic", "Letters"], 1, "no message of topic Letters has the id nonsense"),
        (["get", "0A000001" + "0" * 24], 1, "no broker is at 10.0.0.1:0"),
        (
            ["get", "--topic", "Letters", "--broker", "broker-a", "--queue", "0", "--offset", "99"],
            1,
            "no message at 99",
        ),
        (["get", "--topic", "Letters", "--broker", "broker-a", "--queue", "9", "--offset", "0"], 1, "no queue 9"),
        (["print", "Nowhere"], 1, "no broker serves topic Nowhere"),
        (["print", "Letters", "--from", "soon"], 2, "must be a time"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(
    cluster: Serving, sent: hanabi.SendResult, arguments: list[str], code: int, words: str
) -> None:
    assert words in refusal(cluster, code, "message", *arguments)
