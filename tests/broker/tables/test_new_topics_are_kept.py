"""Tests that acknowledged messages can be read after a crash: a new topic is in its file before, or its sends are
refused."""

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hanabi.broker.broker import Broker
from hanabi.testing.cluster import running_broker
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from tests.broker.talk import Peer, connected
from tests.broker.test_broker_lifecycle import pull_header, send_header


@asynccontextmanager
async def serving(home: Path) -> AsyncIterator[tuple[Broker, Peer]]:
    async with running_broker(home) as broker, connected(broker.address) as peer:
        yield broker, peer


async def send(peer: Peer, topic: str) -> Command:
    return await peer.ask(RequestCode.SEND_MESSAGE_V2, send_header(topic), b"x")


def close(home: Path) -> Path:
    """Let no topics be written any more; return what is in the way."""
    obstacle = home / "config" / "topics.json.tmp"
    obstacle.mkdir()
    return obstacle


async def test_a_send_to_a_new_topic_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as (broker, peer):
        assert (await send(peer, "Known")).code == ResponseCode.SUCCESS
        obstacle = close(tmp_path)
        for _ in range(3):
            reply = await send(peer, "New")
            assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "topics.json" in (reply.remark or "")
        assert broker.store.reader.max_offset("New", 0) == 0  # refused for certain
        assert (await send(peer, "Known")).code == ResponseCode.SUCCESS
        obstacle.rmdir()
        async with asyncio.timeout(60):
            while (await send(peer, "New")).code != ResponseCode.SUCCESS:  # noqa: ASYNC110 - a client tries again
                await asyncio.sleep(0.05)
        shutil.copytree(tmp_path / "config", tmp_path.with_suffix(".crashed") / "config")
    async with running_broker(tmp_path.with_suffix(".crashed")) as broker:
        assert "New" in broker.tables.topics


async def test_sends_that_wait_for_their_new_topic_are_stored_in_the_order_they_came(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, peer):
        expected = []
        for number in range(300):
            body = str(number).encode()
            expected.append(peer.start(RequestCode.SEND_MESSAGE_V2, send_header("New"), body))
            await asyncio.sleep(0)
        replies = await asyncio.gather(*expected)
        assert [int(reply.fields()["queueOffset"]) for reply in replies] == list(range(300))


async def test_a_message_that_is_sent_back_to_a_new_topic_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, peer):
        assert (await send(peer, "Orders")).code == ResponseCode.SUCCESS
        close(tmp_path)
        fields = {"offset": "0", "group": "billing", "delayLevel": "1", "maxReconsumeTimes": "16"}
        for _ in range(2):
            reply = await peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields)
            assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "topics.json" in (reply.remark or "")


async def test_the_order_of_a_known_topic_that_cannot_be_written_refuses_no_sends(tmp_path: Path) -> None:
    async with serving(tmp_path) as (broker, peer):
        assert (await send(peer, "Known")).code == ResponseCode.SUCCESS
        close(tmp_path)
        broker.tables.topics.set_order_topics({"Known"})
        await asyncio.sleep(0.1)
        assert (await send(peer, "Known")).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("newest", "backup"),
    [(None, b"as it is"), (b"", b"as it is"), (b"{", b"as it is"), (None, None), (b"", None), (b"", b"")],
)
async def test_topics_whose_file_is_lost_are_made_anew_from_their_queues(
    tmp_path: Path, newest: bytes | None, backup: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as (_, peer):
        assert (await send(peer, "Bills")).code == ResponseCode.SUCCESS
        assert (await send(peer, "Orders")).code == ResponseCode.SUCCESS
    for name, content in (("topics.json", newest), ("topics.json.bak", backup)):
        if content is None:
            (tmp_path / "config" / name).unlink()
        elif content != b"as it is":
            (tmp_path / "config" / name).write_bytes(content)
    with caplog.at_level(logging.WARNING):
        async with serving(tmp_path) as (_, peer):
            reply = await peer.ask(RequestCode.PULL_MESSAGE, pull_header(0, topic="Orders"))
            assert reply.code == ResponseCode.SUCCESS
    assert "recreated from their queues" in caplog.text
    async with serving(tmp_path) as (broker, _):
        assert "Orders" in broker.tables.topics  # and is in the file now


async def test_a_deleted_topic_is_not_made_anew_from_queues_that_are_left(tmp_path: Path) -> None:
    async with serving(tmp_path) as (broker, peer):
        assert (await send(peer, "Orders")).code == ResponseCode.SUCCESS
        await broker.tables.topics.delete("Orders")
    async with serving(tmp_path) as (broker, _):
        assert "Orders" not in broker.tables.topics
