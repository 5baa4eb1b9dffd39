"""`hanabi topic` as its users see it."""

import signal
import subprocess

import pytest

import hanabi
from tests.cli.admin_commands import answer, refusal, run, said, send
from tests.cli.commands import DEADLINE_SECONDS, HANABI, environment, refused
from tests.cli.commands import hanabi as hanabi_process
from tests.serving import Serving


def test_a_topic_lives_and_dies(cluster: Serving) -> None:
    made = answer(cluster, "topic", "create", "Life", "--queues", "2", "--read-queues", "3")
    settings = {"cluster": "DefaultCluster", "broker": "broker-a", "readQueues": 3, "writeQueues": 2, "perm": 6}
    assert made == [{**settings, "order": False, "attributes": {}}]
    assert "exists already, on broker-a" in refusal(cluster, 1, "topic", "create", "Life")

    (listed,) = [each for each in answer(cluster, "topic", "list")["topics"] if each["topic"] == "Life"]
    assert listed == {"topic": "Life", "kind": "normal", "brokers": made}

    (changed,) = answer(cluster, "topic", "update", "Life", "--write-queues", "3")
    assert (changed["readQueues"], changed["writeQueues"], changed["perm"]) == (3, 3, 6)
    (changed,) = answer(cluster, "topic", "perm", "Life", "r")
    assert changed["perm"] == 4
    answer(cluster, "topic", "perm", "Life", "6")

    send(cluster, *(hanabi.Message("Life", body) for body in (b"one", b"two", b"three", b"four")))
    (route,) = answer(cluster, "topic", "route", "Life")
    expected = {"broker": "broker-a", "cluster": "DefaultCluster", "readQueues": 3, "writeQueues": 3, "perm": 6}
    assert route == {**expected, "messageType": None, "addresses": {"0": cluster.broker}}
    status = answer(cluster, "topic", "status", "Life")
    assert (status["topic"], status["messages"], len(status["queues"])) == ("Life", 4, 3)
    assert set(status["queues"][0]) == {"broker", "queueId", "minOffset", "maxOffset", "messages", "lastStored"}

    deleted = answer(cluster, "topic", "delete", "Life", "--yes")
    assert deleted == {"topic": "Life", "brokers": ["broker-a"]}
    assert "no broker serves topic Life" in refusal(cluster, 1, "topic", "status", "Life")
    assert "there is no topic Life" in refusal(cluster, 1, "topic", "delete", "Life", "--yes")


def test_people_get_tables(cluster: Serving) -> None:
    said(cluster, "topic", "create", "Tables", "--queues", "1")
    send(cluster, hanabi.Message("Tables", b"x"))
    head, *rows = said(cluster, "topic", "list").splitlines()
    assert head.split() == ["TOPIC", "KIND", "BROKERS", "READ", "WRITE", "PERM", "ORDER", "TYPE"]
    (row,) = [row.split() for row in rows if row.startswith("Tables ")]
    assert row == ["Tables", "normal", "broker-a", "1", "1", "RW-", "no", "-"]
    assert not any("TBW102" in row for row in rows)
    assert "TBW102" in said(cluster, "topic", "list", "--all")
    lines = said(cluster, "topic", "status", "Tables").splitlines()
    assert lines[1].split()[:5] == ["broker-a", "0", "0", "1", "1"]
    assert lines[-1] == "1 message in 1 queue"


def test_an_ordered_topic_is_fixed_at_the_name_servers_until_it_is_deleted(cluster: Serving) -> None:
    said(cluster, "topic", "create", "Fixed", "--queues", "2", "--order")
    (listed,) = [each for each in answer(cluster, "topic", "list")["topics"] if each["topic"] == "Fixed"]
    assert listed["brokers"][0]["order"] is True
    said(cluster, "topic", "create", "Fixed2")  # the broker registers again, and hears what is ordered
    (listed,) = [each for each in answer(cluster, "topic", "list")["topics"] if each["topic"] == "Fixed"]
    assert listed["brokers"][0]["order"] is True
    said(cluster, "topic", "delete", "Fixed", "--yes")


def test_nothing_is_destroyed_without_being_asked(cluster: Serving) -> None:
    said(cluster, "topic", "create", "Kept", "--queues", "4")
    send(cluster, hanabi.Message("Kept", b"x"))
    assert "with 1 message? There is no terminal to ask on: say --yes" in refusal(cluster, 2, "topic", "delete", "Kept")
    assert "say --yes" in refusal(cluster, 2, "topic", "update", "Kept", "--queues", "1")
    assert answer(cluster, "topic", "status", "Kept")["messages"] == 1
    assert len(answer(cluster, "topic", "status", "Kept")["queues"]) == 4


def test_a_topic_without_queues_is_refused(cluster: Serving) -> None:
    done = run("topic", "create", "None", "--queues", "0", "-n", cluster.namesrv)
    assert done.returncode == 2
    assert "None" not in said(cluster, "topic", "list")


def test_what_is_watched_is_shown_until_ctrl_c(cluster: Serving) -> None:
    said(cluster, "topic", "create", "Watched")
    command = [*HANABI, "topic", "route", "Watched", "--watch", "0.1", "--json", "-n", cluster.namesrv]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=DEADLINE_SECONDS)
        assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["route", "Nobody"], 1, "no broker serves topic Nobody"),
        (["create", "Empty", "--read-queues", "0", "--write-queues", "0"], 2, "neither written to nor read"),
        (["delete", "Nobody"], 1, "there is no topic Nobody, so nothing is deleted"),
        (["delete", "Nobody", "--yes"], 1, "there is no topic Nobody, so nothing is deleted"),
        (["update", "Nobody", "--perm", "R"], 1, "no broker of broker-a has topic Nobody"),
        (["create", "Bad*Name"], 1, "UPDATE_AND_CREATE_TOPIC to broker-a"),
        (["create", "New", "--cluster", "Elsewhere"], 2, "knows no cluster Elsewhere; brokers are broker-a"),
        (["create", "New", "--perm", "X"], 2, "must be RW, R, W or N"),
        (["update", "Nobody"], 2, "nothing to change"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(cluster: Serving, arguments: list[str], code: int, words: str) -> None:
    assert words in refusal(cluster, code, "topic", *arguments)


def test_a_name_server_that_is_not_there_is_one_sentence() -> None:
    sentence = refused(hanabi_process("topic", "list", "-n", "127.0.0.1:1"), 1)
    assert sentence.startswith("no name server can be reached (-n, --namesrv): ")
    assert "127.0.0.1:1" in sentence


def test_a_topic_has_the_message_type_that_was_asked_for(cluster: Serving) -> None:
    (made,) = answer(cluster, "topic", "create", "Typed", "--queues", "1", "--message-type", "fifo")
    assert made["attributes"] == {"message.type": "FIFO"}
    assert [entry["messageType"] for entry in answer(cluster, "topic", "route", "Typed")] == ["FIFO"]
    assert "FIFO" in next(line for line in said(cluster, "topic", "list").splitlines() if line.startswith("Typed "))
    (changed,) = answer(cluster, "topic", "update", "Typed", "--message-type", "MIXED")
    assert changed["attributes"] == {"message.type": "MIXED"}
    assert "must be one of NORMAL" in refusal(cluster, 2, "topic", "update", "Typed", "--message-type", "PRIORITY")
    (plain,) = answer(cluster, "topic", "create", "Untyped", "--queues", "1")
    assert plain["attributes"] == {}
    assert [entry["messageType"] for entry in answer(cluster, "topic", "route", "Untyped")] == [None]
