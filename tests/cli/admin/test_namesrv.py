"""`hanabi namesrv` as its users see it."""

from tests.cli.admin_commands import answer, refusal, said
from tests.serving import Serving


def test_settings_are_shown_and_changed(cluster: Serving) -> None:
    (found,) = answer(cluster, "namesrv", "config")
    assert found["nameServer"] == cluster.namesrv
    assert "orderMessageEnable" in found["values"]
    assert "say --yes" in refusal(cluster, 2, "namesrv", "config", "productEnvName=here")
    (changed,) = answer(cluster, "namesrv", "config", "productEnvName=here", "--yes")
    assert changed["values"] == {"productEnvName": "here"}
    assert "only orderMessageEnable" in refusal(cluster, 1, "namesrv", "config", "listenPort=1", "--yes")


def test_values_are_kept_and_forgotten(cluster: Serving) -> None:
    kept = answer(cluster, "namesrv", "kv", "Space", "colour", "blue")
    assert kept == [{"nameServer": cluster.namesrv, "values": {"colour": "blue"}}]
    assert answer(cluster, "namesrv", "kv", "Space", "colour") == kept
    assert answer(cluster, "namesrv", "kv", "Space") == kept
    assert "colour  blue" in said(cluster, "namesrv", "kv", "Space")
    assert "say --yes" in refusal(cluster, 2, "namesrv", "kv", "Space", "colour", "--delete")
    assert answer(cluster, "namesrv", "kv", "Space", "colour", "--delete", "--yes") == {
        "namespace": "Space",
        "key": "colour",
    }
    assert "has a value colour in Space" in refusal(cluster, 1, "namesrv", "kv", "Space", "colour")


def test_an_ordered_topic_keeps_its_queues_here(cluster: Serving) -> None:
    said(cluster, "topic", "create", "InOrder", "--queues", "3", "--order")
    (kept,) = answer(cluster, "namesrv", "kv", "ORDER_TOPIC_CONFIG", "InOrder")
    assert kept["values"] == {"InOrder": "broker-a:3"}
    said(cluster, "topic", "delete", "InOrder", "--yes")
    assert "has a value InOrder" in refusal(cluster, 1, "namesrv", "kv", "ORDER_TOPIC_CONFIG", "InOrder")


def test_a_broker_may_be_written_to_or_not(cluster: Serving) -> None:
    said(cluster, "topic", "create", "Guarded")
    assert "say --yes" in refusal(cluster, 2, "namesrv", "write-perm", "broker-a", "--forbid")
    (changed,) = answer(cluster, "namesrv", "write-perm", "broker-a", "--forbid", "--yes")
    assert (changed["broker"], changed["writable"]) == ("broker-a", False)
    assert changed["topics"] > 0
    assert answer(cluster, "topic", "route", "Guarded")[0]["perm"] == 4
    assert answer(cluster, "namesrv", "write-perm", "broker-a", "--allow")[0]["writable"] is True
    assert answer(cluster, "topic", "route", "Guarded")[0]["perm"] == 6
    assert "knows no broker broker-z" in refusal(cluster, 2, "namesrv", "write-perm", "broker-z", "--allow")
