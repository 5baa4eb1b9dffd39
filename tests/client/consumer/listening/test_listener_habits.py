"""Tests of what listeners do that is not meant: shutting down their own consumer, returning False; and messages nobody
reads."""

import logging
import threading
from pathlib import Path

import msgspec
import pytest

import hanabi
from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.client.producer.producer import Producer
from hanabi.message import Message, StoredMessage
from hanabi.testing.cluster import Cluster, running_cluster
from hanabi.testing.embedded import EmbeddedCluster
from hanabi.testing.waiting import SECONDS, eventually
from hanabi.wire.message import sysflag
from tests.client.consumer.pushing import Inbox, committed, numbered, send

LONG_S = 3_600.0  # a shutdown that waits for its own listener would never end


async def test_a_listener_can_shut_its_consumer_down_and_what_it_has_counts_as_consumed(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        await send(cluster, numbered(1))
        consumer = PushConsumer("g", config=cluster.config(), consume_from="first", shutdown_timeout_s=LONG_S)
        consumer.subscribe("T")

        @consumer.listener
        async def listen(messages: list[StoredMessage]) -> None:
            await consumer.shutdown()

        await consumer.start()
        await eventually(lambda: not cluster.broker.tables.consumers.client_ids("g"), "the end")
        assert committed(cluster, "g") == {0: 1}


def test_a_blocking_listener_can_end_the_run_of_its_consumer(hanabi_cluster: EmbeddedCluster) -> None:
    hanabi_cluster.create_topic("T", queues=1)
    hanabi_cluster.run(send(hanabi_cluster.cluster, numbered(1)))
    consumer = hanabi.PushConsumer("g", config=hanabi_cluster.config(), consume_from="first", shutdown_timeout_s=LONG_S)
    consumer.subscribe("T")

    @consumer.listener
    def listen(messages: list[StoredMessage]) -> None:
        consumer.shutdown()

    running = threading.Thread(target=consumer.run, daemon=True)
    running.start()
    running.join(SECONDS)
    assert not running.is_alive()
    assert committed(hanabi_cluster.cluster, "g") == {0: 1}


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_a_listener_that_returns_false_is_told_once_that_this_means_consumed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        await send(cluster, numbered(3))
        consumer = PushConsumer("g", config=cluster.config(), consume_from="first")
        consumer.subscribe("T")

        async def listen(messages: list[StoredMessage]) -> bool:
            return False

        consumer.listener((lambda messages: False) if kind == "def" else listen)
        async with consumer:
            await eventually(lambda: _consumed(consumer) == 3)
        assert committed(cluster, "g") == {0: 3}

    assert sum("returned False" in message for message in caplog.messages) == 1


def _consumed(consumer: PushConsumer) -> int:
    session = consumer._session
    assert session is not None
    return sum(owned.progress.committable for owned in session._assigned.owned.values() if owned.queue.topic == "T")


async def test_a_message_that_cannot_be_read_is_told_as_an_error_with_its_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        await send(cluster, numbered(2))
        await _send_poison(cluster)
        async with Inbox(cluster, "g") as inbox:
            await eventually(lambda: inbox.bodies == numbered(2))
            await eventually(lambda: any(record.levelno == logging.ERROR for record in caplog.records))

    (told,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "stands still" in told
    assert "at offset 2" in told
    assert "hanabi offset reset" in told


async def _send_poison(cluster: Cluster) -> None:
    """Put a message that claims to be compressed, and is not."""
    async with Producer("senders", config=cluster.config()) as producer:
        running = producer._must_run()
        outgoing = running.packing.pack(Message("T", b"not compressed"))
        poison = msgspec.structs.replace(outgoing, sys_flag=outgoing.sys_flag | sysflag.COMPRESSED)
        await producer.send_outgoing(poison)
