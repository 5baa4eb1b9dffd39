"""RECALL_MESSAGE over the wire: what is refused, with which code, and what is stored."""

from pathlib import Path

import msgspec
import pytest

from hanabi.broker.config import BrokerConfig
from hanabi.testing.clock import ManualClock
from hanabi.testing.cluster import running_broker
from hanabi.testing.waiting import eventually
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.headers.send import RecallMessageHeader, SendMessageV2Header
from hanabi.wire.message.properties import format_properties
from hanabi.wire.recall_handle import RecallHandle, decode_recall_handle
from hanabi.wire.system_names import TIMER_TOPIC
from tests.broker.talk import Peer, connected

BROKER = BrokerConfig(broker_name="broker-a")
HEADER = SendMessageV2Header(
    producer_group="shop",
    topic="Orders",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=2,
    sys_flag=0,
    born_timestamp=1,
    flag=0,
)


async def send(peer: Peer, **properties: object) -> Command:
    text = format_properties({name: str(value) for name, value in properties.items()})
    reply = await peer.ask(RequestCode.SEND_MESSAGE_V2, msgspec.structs.replace(HEADER, properties=text), b"x")
    assert reply.code == ResponseCode.SUCCESS
    return reply


async def recall(peer: Peer, handle: str, topic: str = "Orders") -> Command:
    header = RecallMessageHeader(topic=topic, recall_handle=handle, producer_group="shop")
    return await peer.ask(RequestCode.RECALL_MESSAGE, header)


@pytest.mark.parametrize("wait_ms", [1_500, 2_000, 59_999])
async def test_a_recall_in_time_drops_the_message_whatever_its_part_of_a_second(tmp_path: Path, wait_ms: int) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, BROKER, now_ms=clock) as broker, connected(broker.address) as peer:
        at_ms = clock.ms + wait_ms
        sent = await send(peer, TIMER_DELIVER_MS=at_ms, UNIQ_KEY="K1")
        await send(peer, TIMER_DELIVER_MS=at_ms, UNIQ_KEY="K2")
        handle = decode_recall_handle(sent.fields()["recallHandle"])
        assert handle == RecallHandle("Orders", "broker-a", (at_ms - 1) // 1000 * 1000 + 1, "K1")
        recalled = await recall(peer, handle.encode())
        assert (recalled.code, recalled.fields()["msgId"]) == (ResponseCode.SUCCESS, "K1")
        assert broker.store.reader.max_offset(TIMER_TOPIC, 0) == 3
        clock.ms = at_ms + 2_000
        broker.services.timer.wake()
        await eventually(lambda: broker.store.reader.max_offset("Orders", 2) == 1)
        broker.services.timer.step()
        assert broker.store.reader.max_offset("Orders", 2) == 1
        assert broker.store.reader.max_offset("Orders", 0) == 0


async def test_what_cannot_be_recalled_is_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, BROKER, now_ms=clock) as broker, connected(broker.address) as peer:
        await send(peer)
        soon = clock.ms + 60_000
        refused = {
            "garbage": "recall handle is invalid",
            RecallHandle("Others", "broker-a", soon, "K").encode(): "topic not match",
            RecallHandle("Orders", "broker-b", soon, "K").encode(): "broker service not available",
            RecallHandle("Orders", "broker-a", clock.ms, "K").encode(): "timestamp invalid",
            RecallHandle("Orders", "broker-a", clock.ms + 3 * 86_400_000, "K").encode(): "timestamp invalid",
            RecallHandle("Orders", "broker-a", 2**63 - 1, "K").encode(): "timestamp invalid",
        }
        for handle, why in refused.items():
            reply = await recall(peer, handle)
            assert (reply.code, why in (reply.remark or "")) == (ResponseCode.ILLEGAL_OPERATION, True), reply
        forged = RecallHandle("Orders", "broker-a", soon, "K\x02TAGS\x01x").encode()
        assert (await recall(peer, forged)).code == ResponseCode.SYSTEM_ERROR
        assert (await recall(peer, "garbage", topic="Unknown")).code == ResponseCode.TOPIC_NOT_EXIST
        assert broker.store.reader.max_offset(TIMER_TOPIC, 0) == 0


async def test_a_broker_may_switch_recalls_off(tmp_path: Path) -> None:
    config = msgspec.structs.replace(BROKER, recall_enabled=False)
    async with running_broker(tmp_path, config) as broker, connected(broker.address) as peer:
        reply = await recall(peer, "any")
        assert (reply.code, reply.remark) == (ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
        assert broker.store.reader.max_offset(TIMER_TOPIC, 0) == 0
