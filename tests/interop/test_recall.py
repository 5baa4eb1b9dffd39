"""Recall of timed messages: Java's client of 5.3.3 with our broker, and our client with Apache's broker."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from hanabi import Message, Producer
from hanabi.testing.waiting import wait_until
from hanabi.wire.codes import RequestCode
from hanabi.wire.header import header_fields
from hanabi.wire.headers.topic import CreateTopicHeader
from hanabi.wire.message.record import decode_records
from tests.interop.apache import ApacheBroker, java, java_environment
from tests.interop.jars import driver_classpath
from tests.interop.ours import OurBroker, OurNameServer
from tests.interop.probe import ask, routes_to

JARS, TOPIC, BROKER = "all-5", "Timed", "broker-a"
SECONDS = 12  # a JVM on a busy machine needs several of them between send and recall


@pytest.fixture
def namesrv(apache_jars: None, tmp_path: Path) -> Iterator[str]:
    server = OurNameServer(tmp_path / "namesrv")
    try:
        server.wait_ready()
        yield server.address
    finally:
        server.process.kill()


def create_topic(address: str) -> None:
    header = CreateTopicHeader(
        topic=TOPIC,
        default_topic="TBW102",
        read_queue_nums=1,
        write_queue_nums=1,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        order=False,
    )
    assert ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header_fields(header)).code == 0


def stored(address: str) -> list[bytes]:
    pull = {
        "consumerGroup": "TOOLS_CONSUMER",
        "topic": TOPIC,
        "queueId": "0",
        "queueOffset": "0",
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
    }
    reply = ask(address, RequestCode.PULL_MESSAGE, pull)
    return [bytes(record.body) for record in decode_records(reply.body)] if reply.code == 0 else []


def test_javas_client_recalls_from_our_broker(namesrv: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        broker = OurBroker(tmp_path / BROKER, name=BROKER, namesrv=namesrv)
        stack.callback(broker.process.kill)
        broker.wait_ready()
        create_topic(broker.address)
        broker.process.wait_until(lambda: routes_to(namesrv, TOPIC, BROKER), "register the topic")
        command = java(tmp_path / "java", driver_classpath(JARS), "Recall", namesrv, TOPIC, str(SECONDS))
        said = subprocess.run(command, env=java_environment(), capture_output=True, text=True, timeout=120, check=False)
        lines = [line.split() for line in said.stdout.splitlines() if line.startswith(("RECALLED", "REFUSED", "ACC"))]
        assert [line[0] for line in lines] == ["RECALLED", "REFUSED"], said.stdout + said.stderr
        assert lines[0][1] == lines[0][2], "the id of the recalled message is the one of its send"
        wait_until(lambda: stored(broker.address) != [], "the other message is due")
        assert stored(broker.address) == [b"kept"]


def test_our_client_recalls_from_apaches_broker(namesrv: str, tmp_path: Path) -> None:
    settings = {"timerWheelEnable": "true", "recallMessageEnable": "true"}
    apache = ApacheBroker(
        tmp_path / "apache", JARS, name=BROKER, cluster="DefaultCluster", namesrv=namesrv, settings=settings
    )
    try:
        apache.wait_ready()
        create_topic(apache.address)
        apache.process.wait_until(lambda: routes_to(namesrv, TOPIC, BROKER), "register the topic")
        with Producer("recalling", namesrv=namesrv, send_timeout_s=30.0) as producer:
            recalled = producer.send(Message(TOPIC, b"recalled", delay=timedelta(seconds=SECONDS)))
            producer.send(Message(TOPIC, b"kept", delay=timedelta(seconds=SECONDS)))
            assert producer.recall(recalled.recall_handle or "") == recalled.message_id
        wait_until(lambda: stored(apache.address) != [], "the other message is due")
        assert stored(apache.address) == [b"kept"]
    finally:
        apache.process.kill()
