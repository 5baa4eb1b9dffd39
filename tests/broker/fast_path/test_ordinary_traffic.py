"""Ordinary traffic takes the fast path: it once declined all sends, and nothing but the CPU time told."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest

import hanabi.aio
from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.broker.fast_path.building import is_compiled
from hanabi.broker.fast_path.counts import Counts, Declined
from hanabi.client.config import Credentials
from hanabi.message import Message, StoredMessage
from hanabi.store.config import FlushMode
from hanabi.testing.cluster import HOST, Cluster, running_broker, running_cluster, small_store
from hanabi.testing.waiting import eventually
from hanabi.wire.bodies.topics import TopicConfig
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import decode_command
from hanabi.wire.frame import FrameDecoder
from tests.golden_frames import golden_frames

pytestmark = pytest.mark.skipif(not is_compiled(), reason="there is no fast path without compiled functions")

GOLDEN = ("frames-json.jsonl", "frames-binary.jsonl")
SENDS = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)


def counts_of(broker: Broker) -> tuple[Counts, Counts]:
    sends, pulls = broker.fast_path_counts
    assert (sends.kind, pulls.kind) == ("send", "pull")
    return sends, pulls


async def send_all(producer: hanabi.aio.Producer) -> int:
    """Send what applications send most; return how many requests that are."""
    for number in range(8):  # all queues in turn
        await producer.send(Message("T", b"plain"))
        await producer.send(Message("T", b"both", tags="TagA", keys=(f"order-{number}", "k")))
        await producer.send(Message("T", b"mine", properties={"colour": "red", "shape": "round"}))
        await producer.send(Message("T", b"x" * 20_000))
        await producer.send_batch([Message("T", b"batched", tags="TagA", keys=(f"b{n}",)) for n in range(5)])
    return 8 * 5


@asynccontextmanager
async def producing(running: Cluster) -> AsyncIterator[hanabi.aio.Producer]:
    """Yield a producer that has sent to all queues: making them, and the index file, is for the handlers."""
    async with hanabi.aio.Producer("shop", namesrv=running.namesrv) as producer:
        await send_all(producer)
        yield producer


@asynccontextmanager
async def consuming(running: Cluster, access: Credentials | None = None) -> AsyncIterator[list[StoredMessage]]:
    consumer = hanabi.aio.PushConsumer("billing", namesrv=running.namesrv, consume_from="first", access=access)
    consumer.subscribe("T")
    taken: list[StoredMessage] = []

    @consumer.listener
    async def take(messages: list[StoredMessage]) -> None:
        taken.extend(messages)

    async with consumer:
        yield taken


async def test_sends_and_pulls_of_our_client_are_taken(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as running, producing(running) as producer:
        sends, pulls = counts_of(running.broker)
        taken, handled = sends.taken, sends.handled
        count = await send_all(producer)
        assert (sends.taken - taken, sends.handled - handled) == (count, 0)
        async with consuming(running) as consumed:
            await send_all(producer)  # some of them wake pulls that are held
            await eventually(lambda: len(consumed) == 3 * 8 * 9, "the consumption of all messages")
        assert pulls.taken >= 4
        assert not set(pulls.declined) - {Declined.NOTHING}, "those that are held until there are messages"


async def test_sends_that_wait_for_the_disk_are_taken(tmp_path: Path) -> None:
    store = partial(small_store, flush_mode=FlushMode.SYNC_FLUSH)
    async with running_cluster(tmp_path, store=store) as running, producing(running) as producer:
        sends, _ = counts_of(running.broker)
        taken, handled = sends.taken, sends.handled
        count = await send_all(producer)
        assert (sends.taken - taken, sends.handled - handled) == (count, 0)


ACCOUNT = """
accounts:
- accessKey: orders-app
  secretKey: secret-of-orders
  topicPerms: [T=PUB|SUB]
  groupPerms: [billing=SUB]
- accessKey: operator
  secretKey: secret-of-operator
  admin: true
"""


async def test_signed_sends_and_pulls_of_our_client_are_taken(tmp_path: Path) -> None:
    (tmp_path / "plain_acl.yml").write_text(ACCOUNT)
    access = Credentials("orders-app", "secret-of-orders")
    async with running_cluster(tmp_path / "home", acl_enabled=True, acl_folder=str(tmp_path)) as running:
        await running.create_topic("T")
        sends, pulls = counts_of(running.broker)
        async with hanabi.aio.Producer("shop", namesrv=running.namesrv, access=access) as producer:
            await send_all(producer)  # makes the queues
            taken, handled = sends.taken, sends.handled
            count = await send_all(producer)
            assert (sends.taken - taken, sends.handled - handled) == (count, 0)
            async with consuming(running, access=access) as consumed:
                await eventually(lambda: len(consumed) == 2 * 8 * 9, "the consumption of all messages")
        assert pulls.taken >= 4
        assert not set(pulls.declined) - {Declined.NOTHING}, "those that are held until there are messages"


def recorded(name: str, codes: Iterable[int]) -> list[bytes]:
    """Return the frames with these codes that Apache's Java client sent. Its property in Chinese is for the handlers,
    and gets Latin letters here."""
    frames = (frame for frame in golden_frames(name) if frame.server == "broker" and not frame.response)
    return [frame.frame.replace("杭州".encode(), b"Hangzh") for frame in frames if frame.code in codes]


class Client:
    """A connection that asks one thing at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer, self._decoder = reader, writer, FrameDecoder()

    async def ask(self, frame: bytes) -> int:
        """Send *frame*; return the code of the reply."""
        self._writer.write(frame)
        while True:
            for found in self._decoder.feed(await self._reader.read(1 << 16)):
                reply = decode_command(found)
                if reply.flag & 1:  # not a request of the broker's
                    return reply.code


@asynccontextmanager
async def connected(home: Path) -> AsyncIterator[tuple[Broker, Client]]:
    async with running_broker(home, BrokerConfig(broker_name="broker-a")) as broker:
        await broker.tables.topics.update(TopicConfig(topic_name="Golden", read_queue_nums=4, write_queue_nums=4))
        reader, writer = await asyncio.open_connection(HOST, broker.bound[1])
        yield broker, Client(reader, writer)
        writer.close()


@pytest.mark.parametrize("name", GOLDEN)
async def test_sends_and_pulls_of_the_java_client_are_taken(tmp_path: Path, name: str) -> None:
    async with connected(tmp_path) as (broker, client):
        frames = recorded(name, SENDS)
        assert len(frames) == 7
        for frame in frames:
            assert await client.ask(frame) == 0
        sends, pulls = counts_of(broker)
        taken, handled = sends.taken, sends.handled
        for frame in frames:
            assert await client.ask(frame) == 0
        assert (sends.taken - taken, sends.handled - handled) == (len(frames), 0)

        consumer = b'"groupName":"cg_golden"'
        *_, heartbeat = (each for each in recorded(name, [RequestCode.HEART_BEAT]) if consumer in each)
        assert await client.ask(heartbeat) == 0
        wanted = [each for each in recorded(name, [RequestCode.PULL_MESSAGE]) if _reads_from_start(each)]
        assert len(wanted) >= 4
        for frame in wanted:
            assert await client.ask(frame) == 0
        assert (pulls.taken, pulls.handled) == (len(wanted), 0)


def _reads_from_start(frame: bytes) -> bool:
    fields = decode_command(frame[4:]).fields()
    return fields["topic"] == "Golden" and fields["queueOffset"] == "0"


async def test_what_is_declined_is_counted_with_its_reason(tmp_path: Path) -> None:
    async with connected(tmp_path) as (broker, client):
        (send, *_) = recorded(GOLDEN[0], SENDS)
        sends, pulls = counts_of(broker)
        assert await client.ask(send) == 0
        assert dict(sends.reasons()) == {"store": 1}, "the first send finds no file"
        assert await client.ask(send.replace(b'"e":"0"', b'"e":"1"')) == 0
        assert dict(sends.reasons()) == {"store": 1, "topic": 1}, "the second one finds no queue"
        assert await client.ask(send.replace(b"WAIT", b"DELA")) == 0
        assert await client.ask(send.replace(b'"flag":0', b'"flag":8')) == 0
        broker.settings.broker = msgspec.structs.replace(broker.settings.broker, start_accept_sends_at_ms=1)
        assert await client.ask(send) == 0
        assert dict(sends.reasons()) == {"store": 1, "topic": 1, "properties": 1, "header": 1, "closed": 1}
        assert (sends.taken, sends.handled) == (0, 5)
        (pull, *_) = recorded(GOLDEN[0], [RequestCode.PULL_MESSAGE])
        await client.ask(pull)
        assert dict(pulls.reasons()) in ({"nothing": 1}, {"access": 1})
        assert (pulls.taken, pulls.handled) == (0, 1)
