"""`hanabi broker` as its users see it."""

import pytest

import hanabi
from tests.cli.admin_commands import answer, refusal, run, said, send
from tests.serving import Serving


def test_the_status_is_what_the_broker_says(cluster: Serving) -> None:
    (found,) = answer(cluster, "broker", "status", "--broker", "broker-a")
    assert (found["broker"], found["address"], found["brokerId"]) == ("broker-a", cluster.broker, 0)
    assert found["values"]["brokerVersionDesc"] == "V4_9_8"
    assert "commitLogMaxOffset" in said(cluster, "broker", "status", "--broker", cluster.broker)


def test_settings_are_shown_and_changed(cluster: Serving) -> None:
    (found,) = answer(cluster, "broker", "config")
    assert found["values"]["brokerName"] == "broker-a"
    assert "say --yes" in refusal(cluster, 2, "broker", "config", "fileReservedTime=48")
    (changed,) = answer(cluster, "broker", "config", "fileReservedTime=48", "--yes")
    assert changed["values"] == {"fileReservedTime": "48"}
    assert "UPDATE_BROKER_CONFIG to broker-a" in refusal(cluster, 1, "broker", "config", "brokerName=x", "--yes")


def test_figures_are_by_topic_and_group(cluster: Serving) -> None:
    said(cluster, "topic", "create", "Figures", "--queues", "1")
    said(cluster, "group", "create", "figures")
    send(cluster, *(hanabi.Message("Figures", b"x") for _ in range(3)))
    (alone,) = answer(cluster, "broker", "stats", "--topic", "Figures")
    assert (alone["topic"], alone["group"]) == ("Figures", None)
    said(cluster, "offset", "reset", "figures", "Figures", "--to", "first", "--yes")
    (found,) = answer(cluster, "broker", "stats", "--topic", "Figures")
    assert set(found) == {"topic", "group", "lag", "inTps", "outTps", "inDay", "outDay", "backDay"}
    assert (found["group"], found["lag"]) == ("figures", 3)
    assert "Figures" in said(cluster, "broker", "stats")


@pytest.mark.parametrize("what", ["queues", "topics", "log"])
def test_cleaning_is_confirmed_and_done(cluster: Serving, what: str) -> None:
    assert "say --yes" in refusal(cluster, 2, "broker", "clean", what)
    assert answer(cluster, "broker", "clean", what, "--yes") == {"cleaned": what, "brokers": ["broker-a"]}


def test_what_is_wrong_is_told_in_one_sentence(cluster: Serving) -> None:
    assert "must be one of queues, topics, log" in refusal(cluster, 2, "broker", "clean", "all", "--yes")
    assert "must be KEY=VALUE" in refusal(cluster, 2, "broker", "config", "fileReservedTime", "--yes")
    assert "knows no broker broker-z; brokers are broker-a" in refusal(cluster, 2, "broker", "status", "-b", "broker-z")
    assert "no broker serves topic Nowhere" in refusal(cluster, 1, "broker", "stats", "--topic", "Nowhere")


def test_replication_of_a_broker_without_a_slave(cluster: Serving) -> None:
    (found,) = answer(cluster, "broker", "replication")
    assert (found["broker"], found["master"], found["slaves"]) == ("broker-a", cluster.broker, [])
    assert f"ASYNC_MASTER {cluster.broker}" in said(cluster, "broker", "replication", "--broker", "broker-a")
    checked = run("broker", "replication", "--max-lag", "0", "-n", cluster.namesrv)
    assert (checked.returncode, checked.stderr) == (1, "hanabi: broker-a: the master has no slave\n")
    assert "--max-lag looks once" in refusal(cluster, 2, "broker", "replication", "--max-lag", "0", "--watch", "1")
