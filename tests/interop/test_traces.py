"""Traces: what Apache's encoder writes, and what its mqadmin reads of ours."""

import subprocess
from pathlib import Path

import pytest

from hanabi.client.consumer.pull.lite_pull import LitePullConsumer
from hanabi.client.producer.producer import Producer
from hanabi.message import Message, StoredMessage
from hanabi.testing.embedded import EmbeddedCluster, embedded_cluster
from tests.interop.apache import QUICK_START, java, java_environment
from tests.interop.jars import ADMIN_4, ALL_5, JAVA, classpath
from tests.interop.mqadmin import MqAdmin

_TOPIC = "RMQ_SYS_TRACE_TOPIC"
_GOLDEN = JAVA.parent.parent / "client" / "observe" / "apache_traces.txt"


@pytest.mark.parametrize("jar_set", [ADMIN_4, ALL_5])
def test_the_recorded_lines_are_those_of_apaches_encoder(apache_jars: None, tmp_path: Path, jar_set: str) -> None:
    """tests/client/trace holds our encoder to them."""
    command = java(tmp_path, classpath(jar_set), str(JAVA / "judges" / "TraceJudge.java"), jvm=QUICK_START)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=java_environment(), check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.removeprefix("= ") for line in done.stdout.splitlines() if line.startswith("= ")]
    assert lines == _GOLDEN.read_text().splitlines()


@pytest.mark.parametrize("jar_set", [ADMIN_4, ALL_5])
def test_mqadmin_shows_what_our_client_traced(apache_jars: None, tmp_path: Path, jar_set: str) -> None:
    home = tmp_path / "mqadmin"
    home.mkdir()
    with embedded_cluster(tmp_path / "cluster") as cluster:
        message_id = cluster.run(_send_and_read(cluster))
        mqadmin = MqAdmin(home, jar_set)
        try:
            shown = mqadmin.run(cluster.namesrv, "queryMsgTraceById", "-i", message_id, "-t", _TOPIC)
        finally:
            mqadmin.close()
    rows = [line.split() for line in shown.splitlines()]
    published = next(row for row in rows if row and row[0] == "Pub")
    consumed = next(row for row in rows if row and row[0] == "Sub")
    assert (published[1], published[-1]) == ("shop", "success")
    assert (consumed[1], consumed[-1]) == ("billing", "success")


async def _send_and_read(cluster: EmbeddedCluster) -> str:
    """Return the id of a message whose traces are stored, and indexed, when this returns."""
    await cluster.cluster.create_topic("Orders", queues=1)
    consumer = LitePullConsumer("billing", config=cluster.config(), consume_from="first", trace=True)
    consumer.subscribe("Orders")
    async with Producer("shop", config=cluster.config(), trace=True) as producer, consumer:
        sent = await producer.send(Message("Orders", b"12345", tags="paid", keys=["k1"]))
        got: list[StoredMessage] = await consumer.poll(60)
        assert [message.message_id for message in got] == [sent.message_id]
    return sent.message_id
