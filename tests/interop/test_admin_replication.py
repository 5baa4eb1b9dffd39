"""`hanabi broker replication` with pairs of Apache's 4.9 and 5.3 brokers."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

import hanabi
from tests.cli.admin_commands import run, said, send
from tests.interop.apache import ApacheBroker, ApacheNameServer
from tests.interop.jars import ALL_5, SERVERS_4
from tests.serving import Serving

pytestmark = pytest.mark.usefixtures("apache_jars")
SLAVE = {"brokerRole": "SLAVE", "brokerId": 1}


@contextmanager
def apaches_pair(home: Path, jar_set: str) -> Iterator[tuple[Serving, ApacheBroker, ApacheBroker]]:
    """Apache's name server, a SYNC_MASTER and its slave; the slave is registered."""
    with ExitStack() as stack:
        namesrv = ApacheNameServer(home / "namesrv")
        stack.callback(namesrv.process.kill)
        namesrv.wait_ready()

        def start(place: str, **settings: object) -> ApacheBroker:
            broker = ApacheBroker(
                home / place,
                jar_set,
                name="broker-a",
                cluster="c",
                namesrv=namesrv.address,
                settings={"brokerIP2": "127.0.0.1", **settings},
            )
            stack.callback(broker.process.kill)
            broker.wait_ready()
            return broker

        cluster: Serving = SimpleNamespace(namesrv=namesrv.address, broker="")  # type: ignore[assignment]
        master = start("master", brokerRole="SYNC_MASTER")
        slave = start("slave", **SLAVE)
        slave.process.wait_until(
            lambda: run("cluster", "list", "-n", cluster.namesrv).stdout.count("\n") == 3, "register"
        )
        yield cluster, master, slave


def replication(cluster: Serving) -> dict[str, object]:
    # A master that has just begun may fail, which is an exit code.
    (found,) = json.loads(run("broker", "replication", "--json", "-n", cluster.namesrv).stdout)
    (slave,) = found.pop("slaves")
    return {**found, **{f"slave.{key}": value for key, value in slave.items()}}


def rules(cluster: Serving) -> set[str]:
    found = run("doctor", "--interval", "0", "--json", "-n", cluster.namesrv)
    return {finding["rule"] for finding in json.loads(found.stdout)["findings"]}


def test_a_pair_of_5_is_shown_with_the_words_of_both_sides(tmp_path: Path) -> None:
    with apaches_pair(tmp_path, ALL_5) as (cluster, master, slave):
        slave.process.wait_until(lambda: replication(cluster)["slave.state"] == "in sync", "follow")
        said(cluster, "topic", "create", "Pairs", "--queues", "1")
        send(cluster, *(hanabi.Message("Pairs", b"x" * 1000) for _ in range(20)))

        def has_all() -> bool:
            found = replication(cluster)
            return found["slave.lagBytes"] == 0 and found["logEnd"] == found["slave.logEnd"] != 0

        slave.process.wait_until(has_all, "copy the log")
        found = replication(cluster)
        assert (found["role"], found["master"], found["haStatus"]) == ("SYNC_MASTER", master.address, True)
        assert (found["slave.brokerId"], found["slave.address"], found["inSyncSlaves"]) == (1, slave.address, 1)
        assert (found["slave.lagSeconds"], found["slave.trouble"]) == (0.0, None)
        host, _, port = master.address.rpartition(":")
        assert found["slave.follows"] == f"{host}:{int(port) + 1}"
        assert f"SYNC_MASTER {master.address}" in said(cluster, "broker", "replication", "-b", slave.address)
        assert run("broker", "replication", "--max-lag", "0", "-n", cluster.namesrv).returncode == 0
        assert "sync-master-does-not-wait" in rules(cluster)  # inSyncReplicas is 1
        slave.process.kill()
        checked = ("broker", "replication", "--max-lag", "1000000", "-n", cluster.namesrv)
        master.process.wait_until(lambda: run(*checked).returncode == 1, "lose its slave")
        assert "broker-a: the master has no slave" in run(*checked).stderr
        assert "sync-master-alone" in rules(cluster)


def test_a_pair_of_4_is_compared_by_the_ends_of_the_logs(tmp_path: Path) -> None:
    with apaches_pair(tmp_path, SERVERS_4) as (cluster, master, slave):
        said(cluster, "topic", "create", "Pairs", "--queues", "1")
        send(cluster, *(hanabi.Message("Pairs", b"x" * 1000) for _ in range(20)))
        slave.process.wait_until(lambda: replication(cluster)["slave.lagBytes"] == 0, "copy the log")
        found = replication(cluster)
        assert (found["haStatus"], found["inSyncSlaves"], found["slave.state"]) == (False, None, "unknown")
        assert found["logEnd"] == found["slave.logEnd"] != 0
        assert "it is older than 5.0" in said(cluster, "broker", "replication")
        os.kill(slave.process.pid, signal.SIGSTOP)
        try:
            text = run("broker", "replication", "-n", cluster.namesrv).stdout
        finally:
            os.kill(slave.process.pid, signal.SIGCONT)
        assert "slave 1  " in text
        assert master.address in text
