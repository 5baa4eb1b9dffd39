"""`hanabi cluster list` as its users see it."""

from tests.cli.admin_commands import answer, refusal, said
from tests.serving import Serving


def test_all_brokers_are_listed(cluster: Serving) -> None:
    (found,) = answer(cluster, "cluster", "list")
    assert (found["cluster"], found["broker"], found["brokerId"]) == ("DefaultCluster", "broker-a", 0)
    assert (found["address"], found["version"], found["problem"]) == (cluster.broker, "V4_9_8", None)
    assert 0 <= found["diskUsed"] <= 1
    assert set(found) >= {"putTps", "getTps", "earliestStored"}
    head, row = said(cluster, "cluster", "list").splitlines()
    assert head.split()[:5] == ["CLUSTER", "BROKER", "ID", "ROLE", "ADDRESS"]
    assert row.split()[:5] == ["DefaultCluster", "broker-a", "0", "master", cluster.broker]


def test_a_cluster_that_nobody_knows_is_one_sentence(cluster: Serving) -> None:
    assert "clusters DefaultCluster" in refusal(cluster, 2, "cluster", "list", "--cluster", "Elsewhere")
