"""Recall of timed messages by the handle of their send."""

from datetime import timedelta
from pathlib import Path

import pytest

import hanabi.aio
from hanabi import Message, Producer
from hanabi.errors import BrokerError, InvalidMessage
from hanabi.testing.cluster import running_cluster
from hanabi.testing.embedded import EmbeddedCluster
from hanabi.testing.waiting import wait_until
from hanabi.wire.recall_handle import decode_recall_handle

OTHERS = [f"other {number}".encode() for number in range(100)]


def bodies(cluster: EmbeddedCluster) -> list[bytes]:
    return sorted(message.body for message in cluster.messages("T"))


def test_a_recalled_message_is_never_delivered_and_a_hundred_others_are(hanabi_cluster: EmbeddedCluster) -> None:
    with Producer("g", namesrv=hanabi_cluster.namesrv) as producer:
        results = producer.send_many([Message("T", body, delay=timedelta(seconds=60)) for body in OTHERS])
        sent = producer.send(Message("T", b"recalled", delay=timedelta(seconds=60)))
        assert sent.recall_handle is not None
        assert len({result.recall_handle for result in results}) == len(OTHERS)
        hanabi_cluster.clock.advance(seconds=1)
        assert producer.recall(sent.recall_handle) == sent.message_id
        hanabi_cluster.clock.advance(seconds=62)
        wait_until(lambda: len(bodies(hanabi_cluster)) >= len(OTHERS), "the others are due")
        producer.send(Message("T", b"the last", delay=timedelta(seconds=5)))
        hanabi_cluster.clock.advance(seconds=7)
        wait_until(lambda: b"the last" in bodies(hanabi_cluster), "the last is due")
        assert bodies(hanabi_cluster) == sorted([*OTHERS, b"the last"])


def test_only_timed_messages_have_a_handle(hanabi_cluster: EmbeddedCluster) -> None:
    with Producer("g", namesrv=hanabi_cluster.namesrv) as producer:
        assert producer.send(Message("T", b"now")).recall_handle is None
        assert producer.send(Message("T", b"by level", delay_level=3)).recall_handle is None
        sent = producer.send(Message("T", b"timed", delay=timedelta(seconds=60)))
    handle = decode_recall_handle(sent.recall_handle or "")
    assert (handle.topic, handle.broker_name, handle.unique_key) == ("T", sent.queue.broker_name, sent.message_id)


def test_a_handle_that_comes_too_late_or_is_none_raises(hanabi_cluster: EmbeddedCluster) -> None:
    with Producer("g", namesrv=hanabi_cluster.namesrv) as producer:
        sent = producer.send(Message("T", b"due", delay=timedelta(seconds=5)))
        hanabi_cluster.clock.advance(seconds=7)
        wait_until(lambda: bodies(hanabi_cluster) == [b"due"], "it is due")
        with pytest.raises(BrokerError, match="timestamp invalid"):
            producer.recall(sent.recall_handle or "")
        with pytest.raises(InvalidMessage, match="no recall handle"):
            producer.recall(sent.message_id)


async def test_the_asyncio_producer_recalls_in_its_namespace(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path) as cluster,
        hanabi.aio.Producer("g", namesrv=cluster.namesrv, namespace="shop") as producer,
    ):
        sent = await producer.send(Message("T", b"x", delay=timedelta(seconds=600)))
        assert decode_recall_handle(sent.recall_handle or "").topic == "shop%T"
        assert await producer.recall(sent.recall_handle or "") == sent.message_id
