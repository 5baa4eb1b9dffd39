"""What an operator can ask and is told of a broker name with slaves alone, and of one beside a whole pair."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from hanabi.admin import Admin
from hanabi.admin.messages import Range
from hanabi.broker.config import BrokerConfig
from hanabi.client.producer.producer import Producer
from hanabi.client.send_result import SendResult
from hanabi.errors import ConnectError
from hanabi.message import Message
from hanabi.testing.cluster import running_broker
from hanabi.testing.topics import create_topic
from hanabi.testing.waiting import eventually
from tests.broker.replica.pairs import Pair, running_master, running_name_server, running_slave, side_of


@asynccontextmanager
async def slave_alone(home: Path, *, beside: bool = False) -> AsyncIterator[tuple[str, SendResult]]:
    """A slave with one message whose master is gone; *beside*, there is another broker with the topic."""
    async with AsyncExitStack() as stack:
        namesrv = await stack.enter_async_context(running_name_server(home))
        async with running_master(home / "master", namesrv) as master:
            await create_topic(master, "T", queues=1)
            slave = await stack.enter_async_context(running_slave(home / "slave", namesrv))
            await eventually(lambda: side_of(slave).is_connected, "the slave is connected")
            async with Producer("writers", namesrv=namesrv) as producer:
                sent = await producer.send(Message("T", b"kept twice", keys=("the-key",)))
            pair = Pair(namesrv, master, slave)
            await pair.caught_up()
            await pair.synced()
        if beside:
            config = BrokerConfig(broker_name="broker-b", namesrv_addr=namesrv)
            other = await stack.enter_async_context(running_broker(home / "other", config))
            await create_topic(other, "T", queues=1)
        yield namesrv, sent


async def test_messages_are_found_and_read_at_the_slave(tmp_path: Path) -> None:
    async with slave_alone(tmp_path) as (namesrv, sent), Admin(namesrv=namesrv) as admin:
        for message_id in (sent.offset_message_id, sent.message_id):
            assert (await admin.messages.get(message_id, "T")).body == b"kept twice"
            assert (await admin.messages.get(message_id)).body == b"kept twice"
        assert [message.body for message in await admin.messages.query("T", "the-key")] == [b"kept twice"]
        assert [message.body async for message in admin.messages.read("T", Range())] == [b"kept twice"]
        assert (await admin.messages.at("T", "broker-a", 0, 0)).body == b"kept twice"


async def test_what_only_a_master_knows_is_refused_with_a_reason(tmp_path: Path) -> None:
    async with slave_alone(tmp_path) as (namesrv, sent), Admin(namesrv=namesrv) as admin:
        for work in (
            admin.topics.all(),
            admin.topics.status("T"),
            admin.topics.create("U"),
            admin.groups.all(),
            admin.offsets.show("g", "T"),
            admin.brokers.stats(),
            admin.messages.consume_directly("g", sent.message_id, topic="T"),
        ):
            with pytest.raises(ConnectError, match="broker-a has no master now, only slaves"):
                await work
        (broker,) = await admin.brokers.all()
        assert (broker.broker, broker.broker_id, broker.problem) == ("broker-a", 1, None)
        (entry,) = await admin.topics.route("T")
        assert list(entry.addresses) == [1]


async def test_beside_another_master_the_missing_one_is_named(tmp_path: Path) -> None:
    async with slave_alone(tmp_path, beside=True) as (namesrv, _), Admin(namesrv=namesrv) as admin:
        assert {queue.broker for queue in (await admin.topics.status("T")).queues} == {"broker-b"}
        assert admin.access.without_master == {"broker-a"}
        assert [message.body for message in await admin.messages.query("T", "the-key")] == [b"kept twice"]
        listed = {each.topic: each for each in (await admin.topics.all()).topics}
        assert [each.broker for each in listed["T"].brokers] == ["broker-b"]
        assert [(each.broker, each.broker_id) for each in await admin.brokers.all()] == [
            ("broker-a", 1),
            ("broker-b", 0),
        ]
