"""Ordered POP: a queue is blocked until its popped messages are acknowledged or visible again."""

import asyncio
from pathlib import Path

import msgspec

from hanabi.broker.pop.order_info import OrderInfo, after_pop
from hanabi.broker.pop.orders import OrderInfoTable
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import decode_file
from hanabi.wire.headers.v5.pop import PopMessageReplyHeader
from tests.broker.popping import GROUP, TOPIC, popped, popping, renewed


async def test_a_queue_is_blocked_until_all_of_a_pop_is_acknowledged(tmp_path: Path) -> None:
    async with popping(tmp_path) as peer:
        await peer.send(b"a", b"b", b"c")
        found = await peer.pop(order=True, max_msg_nums=2, attempt_id="one")
        assert [record.body for record, _ in found] == [b"a", b"b"]
        assert found[0][1].revive_queue_id == 999
        assert await peer.bodies(order=True, attempt_id="two") == []
        assert await peer.bodies(order=True, attempt_id="one", max_msg_nums=2) == [b"a", b"b"], "a lost reply"
        waiting = peer.peer.start(RequestCode.POP_MESSAGE, peer.pop_header(order=True, poll_time=20_000))
        found = await peer.pop(order=True, max_msg_nums=2, attempt_id="one")
        for record, receipt in found:
            assert (await peer.ack(record, receipt)).code == 0
        [(record, _)] = popped(await asyncio.wait_for(waiting, 5))
        assert record.body == b"c"
        assert peer.committed() == 2


async def test_after_expiry_the_same_messages_come_again_with_a_higher_count(tmp_path: Path) -> None:
    async with popping(tmp_path) as peer:
        await peer.send(b"a", b"b")
        [first, second] = await peer.pop(order=True, invisible_time=10_000)
        await peer.ack(*first)
        waiting = peer.peer.start(RequestCode.POP_MESSAGE, peer.pop_header(order=True, poll_time=20_000))
        await asyncio.sleep(0.05)
        peer.advance(10.1)
        reply = await asyncio.wait_for(waiting, 5)
        [(record, _)] = popped(reply)
        assert record.body == b"b"
        assert record.topic == TOPIC
        assert reply.header(PopMessageReplyHeader).order_count_info == "0 qo0%1 1;0 0 1"
        await peer.ack(*second)
        assert peer.committed() == 1, "the receipt of an older pop does nothing"


async def test_a_message_that_was_not_popped_is_refused_and_a_change_keeps_the_pop_time(tmp_path: Path) -> None:
    async with popping(tmp_path) as peer:
        await peer.send(b"a", b"b")
        [(record, receipt)] = await peer.pop(order=True, max_msg_nums=1, invisible_time=10_000)
        assert (await peer.ack(record, receipt, offset=1)).code == ResponseCode.MESSAGE_ILLEGAL
        reply = await peer.change(record, receipt, 60_000)
        now = renewed(receipt, reply)
        assert now.pop_ms == receipt.pop_ms
        assert now.invisible_ms >= 60_000
        peer.advance(30)
        assert await peer.bodies(order=True) == []
        assert (await peer.ack(record, now)).code == 0
        assert await peer.bodies(order=True) == [b"b"]


async def test_the_order_survives_a_restart_in_apaches_file(tmp_path: Path) -> None:
    async with popping(tmp_path) as peer:
        await peer.send(b"a", b"b")
        await peer.pop(order=True, attempt_id="one")
    raw = (tmp_path / "config" / "consumerOrderInfo.json").read_bytes()
    info = decode_file(raw, OrderInfoTable).table[f"{TOPIC}@{GROUP}"][0]
    assert (info.queue_offsets(), info.attempt_id, info.invisible_ms) == ([0, 1], "one", 60_000)
    async with popping(tmp_path) as peer:
        assert await peer.bodies(order=True, attempt_id="two") == []
        assert await peer.bodies(order=True, attempt_id="one") == [b"a", b"b"]


def test_a_file_of_apache_is_read() -> None:
    raw = (
        b'{"table":{"Orders@billing":{0:{"cm":1,"i":60000,"l":1700000000000,"o":[4,1,2],'
        b'"oc":{4:2},"ot":{5:1700000090000},"popTime":1700000000000}}}}'
    )
    info = decode_file(raw, OrderInfoTable).table["Orders@billing"][0]
    assert info.queue_offsets() == [4, 5, 6]
    assert info.next_offset() == 5
    assert info.free_at_ms() == 1_700_000_090_000
    assert info.blocks(None, 1_700_000_089_999)
    assert not info.blocks(None, 1_700_000_090_000)


def test_the_64th_acknowledgement_is_a_sign_bit_in_java() -> None:
    info: OrderInfo | None = after_pop(None, range(64), attempt_id=None, pop_ms=0, invisible_ms=1, now_ms=0)
    for offset in range(64):
        assert info is not None
        info = info.acknowledged(offset)
    assert info is not None
    assert (info.committed_bits, info.next_offset(), info.free_at_ms()) == (-1, 64, 0)
    assert msgspec.json.decode(msgspec.json.encode(info))["cm"] == -1
