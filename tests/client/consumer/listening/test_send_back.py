"""Tests of sending failed messages back: to their broker, as a copy, or not at all, which is logged."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from hanabi.client.cluster.core import Core
from hanabi.client.consumer.listening.send_back import SendBack, copy_properties
from hanabi.errors import MQError
from hanabi.message import StoredMessage
from hanabi.testing.cluster import Cluster, running_cluster
from hanabi.testing.waiting import eventually
from tests.client.consumer.pushing import Inbox, numbered, send
from tests.client.consumer.stored import stored


@asynccontextmanager
async def _failed_message(cluster: Cluster) -> AsyncIterator[tuple[SendBack, StoredMessage]]:
    """Yield a message that group g has consumed, and the means to send it back."""
    await cluster.create_topic("T", queues=1)
    await send(cluster, numbered(1), tags="a")
    async with Inbox(cluster, "g") as inbox:
        await eventually(lambda: len(inbox.messages) == 1)
    core = await Core.acquire(cluster.config())
    try:
        await core.routes.find("T")
        yield SendBack(core, "g", "%RETRY%g", reconsume_times_max=16, unit_mode=False), inbox.messages[0]
    finally:
        await core.release()


async def test_a_message_that_its_broker_cannot_find_goes_back_as_a_copy(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, message_delay_levels="1s 1s 1s 1s 1s") as cluster:
        async with _failed_message(cluster) as (back, message):
            await back.send_back(msgspec.structs.replace(message, log_offset=1 << 40), "T", "broker-a", 0)
        async with Inbox(cluster, "g") as inbox:
            await eventually(lambda: len(inbox.messages) == 1)
        (again,) = inbox.messages
        assert (again.topic, again.body, again.tags, again.reconsume_times) == ("T", b"0000", "a", 1)
        assert again.message_id == message.message_id
        assert again.properties["ORIGIN_MESSAGE_ID"] == message.message_id


async def test_a_message_whose_broker_has_no_master_goes_to_another_one(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, message_delay_levels="1s 1s 1s 1s 1s") as cluster:
        async with _failed_message(cluster) as (back, message):
            await back.send_back(message, "T", "broker-gone", 1)
        async with Inbox(cluster, "g") as inbox:
            await eventually(lambda: inbox.bodies == [b"0000"])


async def test_a_copy_of_a_message_that_is_given_up_becomes_a_dead_letter(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        async with _failed_message(cluster) as (back, message):
            await back.send_back(message, "T", "broker-gone", -1)
        async with Inbox(cluster, "undertakers", "%DLQ%g") as inbox:
            await eventually(lambda: inbox.bodies == [b"0000"])


async def test_when_nobody_takes_it_the_caller_hears_why(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, _failed_message(cluster) as (back, message):
        await cluster.broker.stop()
        with pytest.raises(MQError, match="%RETRY%g"):
            await back.send_back(message, "T", "broker-a", 0)


def test_a_copy_carries_what_its_sender_said_and_nothing_of_this_delivery() -> None:
    message = stored(
        7,
        message_id="mine",
        properties={
            "KEYS": "k",
            "own": "x",
            "MAX_OFFSET": "9",
            "TRAN_MSG": "true",
            "RECONSUME_TIME": "1",
            "DELAY": "3",
        },
    )
    assert copy_properties(message, "Orders", 5) == {
        "KEYS": "k",
        "own": "x",
        "ORIGIN_MESSAGE_ID": "mine",
        "RETRY_TOPIC": "Orders",
        "DELAY": "5",
    }
    again = stored(8, message_id="copy", properties={"ORIGIN_MESSAGE_ID": "first", "RETRY_TOPIC": "Orders"})
    assert copy_properties(again, "Orders", 4)["ORIGIN_MESSAGE_ID"] == "first"
