"""`hanabi stats` as its users see it."""

import hanabi
from tests.cli.admin_commands import answer, refusal, said, send
from tests.serving import Serving


def test_what_goes_in_and_out_is_shown_by_broker_topic_and_group(cluster: Serving) -> None:
    said(cluster, "topic", "create", "Flowing", "--queues", "1")
    said(cluster, "group", "create", "flowing")
    said(cluster, "offset", "skip", "flowing", "Flowing", "--yes")
    before = answer(cluster, "stats")["brokers"][0]["inToday"]
    send(cluster, *(hanabi.Message("Flowing", b"x") for _ in range(3)))
    found = answer(cluster, "stats")
    assert found["brokers"][0]["broker"] == "broker-a"
    assert found["brokers"][0]["inToday"] >= before + 3
    (flow,) = [each for each in found["topics"] if each["topic"] == "Flowing"]
    assert (flow["group"], flow["lag"]) == ("flowing", 3)
    assert "TBW102" not in {each["topic"] for each in found["topics"]}
    assert "TBW102" in {each["topic"] for each in answer(cluster, "stats", "--all")["topics"]}

    (alone,) = answer(cluster, "stats", "--topic", "Flowing", "--broker", "broker-a")["topics"]
    assert alone["group"] == "flowing"
    brokers, topics = said(cluster, "stats", "--topic", "Flowing").split("\n\n")
    assert brokers.splitlines()[0].split()[:3] == ["BROKER", "IN/S", "OUT/S"]
    assert topics.splitlines()[1].split()[:3] == ["Flowing", "flowing", "3"]


def test_what_is_wrong_is_told_in_one_sentence(cluster: Serving) -> None:
    assert "no broker serves topic Nowhere" in refusal(cluster, 1, "stats", "--topic", "Nowhere")
    assert "knows no broker broker-z" in refusal(cluster, 2, "stats", "--broker", "broker-z")
