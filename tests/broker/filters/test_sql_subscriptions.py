"""A consumer with an expression, against a whole broker: checked, registered, served, woken, known after a restart."""

import asyncio
from pathlib import Path

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.broker.pull.outcome import SUBSCRIPTION, SUSPEND
from hanabi.testing.cluster import running_broker, small_store
from hanabi.wire.bodies.heartbeat import (
    CheckClientRequest,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    SubscriptionData,
)
from hanabi.wire.bodies.topics import TopicConfig
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import encode_body
from hanabi.wire.headers.pull import PullMessageHeader
from hanabi.wire.headers.send import SendMessageHeader
from hanabi.wire.message.properties import format_properties
from hanabi.wire.message.record import decode_records
from tests.broker.talk import Peer, connected

EXPRESSION = "price BETWEEN 10 AND 20 AND (region IS NULL OR region <> 'eu')"
SQL = SubscriptionData(topic="Orders", sub_string=EXPRESSION, expression_type="SQL92", sub_version=5)


async def _add_topic(broker: Broker) -> None:
    await broker.tables.topics.update(TopicConfig(topic_name="Orders", read_queue_nums=1, write_queue_nums=1))


async def _heartbeat(peer: Peer, *subscriptions: SubscriptionData) -> Command:
    consumer = ConsumerData(
        group_name="billing",
        consume_type=ConsumeType.CONSUME_PASSIVELY,
        message_model=MessageModel.CLUSTERING,
        subscription_data_set=list(subscriptions),
    )
    body = encode_body(HeartbeatData(client_id="c@1", consumer_data_set=[consumer]))
    return await peer.ask(RequestCode.HEART_BEAT, body=body)


async def _send(peer: Peer, body: bytes, **properties: str) -> None:
    header = SendMessageHeader(
        producer_group="shop",
        topic="Orders",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        properties=format_properties(properties),
    )
    assert (await peer.ask(RequestCode.SEND_MESSAGE, header, body)).code == ResponseCode.SUCCESS


def _pull(offset: int = 0, *, sys_flag: int = 0, expression: str | None = None, version: int = 5) -> PullMessageHeader:
    return PullMessageHeader(
        consumer_group="billing",
        topic="Orders",
        queue_id=0,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=sys_flag,
        commit_offset=0,
        suspend_timeout_millis=10_000,
        sub_version=version,
        subscription=expression,
        expression_type="SQL92" if expression is not None else None,
    )


def _bodies(reply: Command) -> list[bytes]:
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return [record.body for record in decode_records(reply.body)]


async def _send_five(peer: Peer) -> None:
    await _send(peer, b"cheap", price="9")
    await _send(peer, b"fits", price="10")
    await _send(peer, b"elsewhere", price="20", region="eu")
    await _send(peer, b"here", price="20", region="us")
    await _send(peer, b"priceless", price="none")


async def test_a_consumer_gets_what_its_expression_wants(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker.address) as peer:
        await _add_topic(broker)
        await _send_five(peer)
        assert (await _heartbeat(peer, SQL)).code == ResponseCode.SUCCESS
        reply = await peer.ask(RequestCode.PULL_MESSAGE, _pull())
        assert _bodies(reply) == [b"fits", b"here"]
        assert reply.fields()["nextBeginOffset"] == "5"


async def test_bits_computed_by_the_broker_lead_to_the_same_messages(tmp_path: Path) -> None:
    config = BrokerConfig(broker_name="broker-a", filter_bitmap_enabled=True)
    store = small_store(tmp_path, consume_queue_ext_enabled=True)
    async with running_broker(tmp_path, config, store) as broker, connected(broker.address) as peer:
        await _add_topic(broker)
        await _send_five(peer)
        await _heartbeat(peer, SQL)
        await _send_five(peer)
        assert _bodies(await peer.ask(RequestCode.PULL_MESSAGE, _pull())) == [b"fits", b"here"] * 2


async def test_a_pull_may_carry_its_own_expression(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker.address) as peer:
        await _add_topic(broker)
        await _send_five(peer)
        pull = _pull(sys_flag=SUBSCRIPTION, expression="price < 10")
        assert _bodies(await peer.ask(RequestCode.PULL_MESSAGE, pull)) == [b"cheap"]
        pull = _pull(sys_flag=SUBSCRIPTION, expression="price << 10")
        reply = await peer.ask(RequestCode.PULL_MESSAGE, pull)
        assert reply.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert "at column 8" in (reply.remark or "")


async def test_a_held_pull_is_woken_only_by_what_its_expression_wants(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker.address) as peer:
        await _add_topic(broker)
        await _heartbeat(peer, SQL)
        await _send(peer, b"cheap", price="9")
        held = peer.start(RequestCode.PULL_MESSAGE, _pull(1, sys_flag=SUSPEND))
        await _send(peer, b"elsewhere", price="15", region="eu")
        await _send(peer, b"nowhere")
        assert not held.done()
        await _send(peer, b"fits", price="15")
        async with asyncio.timeout(60):
            assert _bodies(await held) == [b"fits"]


async def test_a_broken_expression_is_answered_with_its_place(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker.address) as peer:
        await _add_topic(broker)
        broken = SubscriptionData(topic="Orders", sub_string="price >", expression_type="SQL92", sub_version=5)
        body = encode_body(CheckClientRequest(client_id="c@1", group="billing", subscription_data=broken))
        reply = await peer.ask(RequestCode.CHECK_CLIENT_CONFIG, body=body)
        assert reply.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert "at column 8: expected a property's name" in (reply.remark or "")
        await _heartbeat(peer, broken)
        reply = await peer.ask(RequestCode.PULL_MESSAGE, _pull())
        assert reply.code == ResponseCode.FILTER_DATA_NOT_EXIST
        await _heartbeat(peer, SQL)
        reply = await peer.ask(RequestCode.PULL_MESSAGE, _pull(version=6))
        assert reply.code == ResponseCode.SUBSCRIPTION_NOT_LATEST


async def test_filters_are_known_after_a_restart_and_dead_when_their_group_has_gone(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker.address) as peer:
        await _heartbeat(peer, SQL)
        data = broker.tables.filters.find("Orders", "billing")
        assert data is not None
        assert not data.is_dead
    async with running_broker(tmp_path) as broker:
        data = broker.tables.filters.find("Orders", "billing")
        assert data is not None
        assert data.is_dead
        assert data.expression == EXPRESSION
