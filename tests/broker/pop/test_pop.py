"""POP by raw requests to a whole broker: messages, receipts, expiry, retry topics, long polls, bad input."""

import asyncio
import time
from pathlib import Path

import pytest

from hanabi.broker.filters.message_filter import MessageFilter
from hanabi.broker.pop.reading import PopRequest
from hanabi.wire.bodies.pop import BatchAck, BatchAckRequest
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import encode_body
from hanabi.wire.headers.v5.pop import (
    NotificationHeader,
    NotificationReplyHeader,
    PeekMessageHeader,
    PollingInfoHeader,
    PollingInfoReplyHeader,
    PopMessageReplyHeader,
)
from hanabi.wire.receipts import retry_topic_v1, retry_topic_v2
from tests.broker.popping import BROKER, GROUP, TOPIC, popped, popping, renewed

RETRY = retry_topic_v1(TOPIC, GROUP)


async def test_popped_messages_are_hidden_and_acknowledged_ones_are_gone(tmp_path: Path) -> None:
    async with popping(tmp_path) as peer:
        await peer.send(b"a", b"b", b"c")
        found = await peer.pop(max_msg_nums=2)
        assert [record.body for record, _ in found] == [b"a", b"b"]
        assert await peer.bodies() == [b"c"]
        assert await peer.bodies() == []
        assert peer.committed() == 0, "the lowest unacknowledged offset"
        for record, receipt in found:
            assert (await peer.ack(record, receipt)).code == 0
        assert peer.committed() == 2
        assert peer.in_flight == 1


async def test_the_reply_has_the_texts_that_java_builds_receipts_from(tmp_path: Path) -> None:
    async with popping(tmp_path, queues=2) as peer:
        await peer.send(b"a", b"b", queue_id=0)
        await peer.send(b"c", queue_id=1)
        reply = await peer.pop_reply()
        header = reply.header(PopMessageReplyHeader)
        assert header.start_offset_info is not None
        assert header.msg_offset_info is not None
        assert sorted(header.start_offset_info.split(";")) == ["0 0 0", "0 1 0"]
        assert sorted(header.msg_offset_info.split(";")) == ["0 0 0,1", "0 1 0"]
        assert (header.invisible_time, header.revive_qid, header.rest_num) == (60_000, 0, 0)
        assert reply.remark == "FOUND"


async def test_an_unacknowledged_message_is_back_in_the_retry_topic_within_100_ms(tmp_path: Path) -> None:
    async with popping(tmp_path) as peer:
        await peer.send(b"a", b"b")
        (first, receipt), (second, _) = await peer.pop(invisible_time=10_000)
        assert (await peer.ack(first, receipt)).code == 0
        waiting = peer.peer.start(RequestCode.POP_MESSAGE, peer.pop_header(poll_time=30_000))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        peer.advance(9.8)
        [(again, receipt)] = popped(await asyncio.wait_for(waiting, 5))
        assert (again.topic, again.queue_id, again.body) == (RETRY, 0, b"b")
        assert (again.reconsume_times, again.flag, again.born_timestamp_ms) == (1, 7, second.born_timestamp_ms)
        assert b"1ST_POP_TIME" in again.properties
        assert receipt.mark == "1"
        assert peer.committed() == 2
        assert (await peer.ack(again, receipt)).code == 0
        assert peer.committed(RETRY) == 1


async def test_a_retry_that_expires_returns_to_the_same_retry_topic(tmp_path: Path) -> None:
    async with popping(tmp_path) as peer:
        await peer.send(b"a")
        for tries in range(3):
            [(record, _)] = await peer.pop(invisible_time=5_000, poll_time=10_000, born_time=0)
            assert record.reconsume_times == tries
            peer.advance(5.1)
        [(record, _)] = await peer.pop(poll_time=10_000)
        assert (record.topic, record.reconsume_times) == (RETRY, 3)


async def test_the_second_form_of_retry_topics_is_written_when_set_and_always_read(tmp_path: Path) -> None:
    async with popping(tmp_path, retry_topic_v2_enabled=True) as peer:
        await peer.send(b"a")
        await peer.pop(invisible_time=1_000)
        peer.advance(1.1)
        [(record, receipt)] = await peer.pop(poll_time=10_000)
        assert (record.topic, receipt.mark) == (retry_topic_v2(TOPIC, GROUP), "2")


async def test_a_changed_invisible_time_counts_from_now_and_old_receipts_stay_valid(tmp_path: Path) -> None:
    async with popping(tmp_path) as peer:
        await peer.send(b"a")
        [(record, receipt)] = await peer.pop(invisible_time=10_000)
        reply = await peer.change(record, receipt, 60_000)
        assert reply.code == 0
        assert renewed(receipt, reply).invisible_ms == 60_000
        peer.advance(30)
        await asyncio.sleep(0.05)
        assert peer.in_flight == 1
        assert (await peer.ack(record, receipt)).code == 0
        assert (peer.in_flight, peer.committed()) == (0, 1)
        assert (await peer.ack(record, receipt)).code == 0, "twice is no error"


async def test_a_message_that_is_not_in_flight_gets_no_other_invisible_time(tmp_path: Path) -> None:
    async with popping(tmp_path) as peer:
        await peer.send(b"a")
        [(record, receipt)] = await peer.pop()
        await peer.ack(record, receipt)
        reply = await peer.change(record, receipt, 1_000)
        assert reply.code == ResponseCode.NO_MESSAGE
        assert "not in flight" in (reply.remark or "")


async def test_a_batch_of_acknowledgements_names_messages_by_bits(tmp_path: Path) -> None:
    async with popping(tmp_path) as peer:
        await peer.send(*(b"%d" % number for number in range(10)))
        [(_, receipt), *_rest] = await peer.pop()
        bits = (0b11_1111_0111).to_bytes(2, "little")
        ack = BatchAck(
            offsets=bits,
            consumer_group=GROUP,
            topic=TOPIC,
            queue_id=0,
            retry="0",
            start_offset=0,
            pop_time=receipt.pop_ms,
            invisible_time=receipt.invisible_ms,
        )
        body = encode_body(BatchAckRequest(acks=[ack], broker_name=BROKER))
        assert (await peer.peer.ask(RequestCode.BATCH_ACK_MESSAGE, None, body)).code == 0
        assert (peer.in_flight, peer.committed()) == (1, 3)
        empty = encode_body(BatchAckRequest(broker_name=BROKER))
        assert (await peer.peer.ask(RequestCode.BATCH_ACK_MESSAGE, None, empty)).code == ResponseCode.NO_MESSAGE


async def test_a_filter_hands_out_only_what_matches_and_the_rest_counts_as_consumed(tmp_path: Path) -> None:
    async with popping(tmp_path) as peer:
        for number in range(6):
            await peer.send(b"%d" % number, tag="even" if number % 2 == 0 else "odd")
        found = await peer.pop(exp="odd", exp_type="TAG")
        assert [record.body for record, _ in found] == [b"1", b"3", b"5"]
        assert peer.committed() == 1
        for record, receipt in found:
            await peer.ack(record, receipt)
        assert peer.committed() == 6


async def test_a_rare_match_behind_thousands_of_others_is_found_without_a_new_message(tmp_path: Path) -> None:
    async with popping(tmp_path) as peer:
        for _ in range(40):
            await asyncio.gather(*(peer.send(b"x", tag="other") for _ in range(100)))
        await peer.send(b"here", tag="rare")
        found = await peer.pop(exp="rare", exp_type="TAG", poll_time=10_000)
        assert [record.body for record, _ in found] == [b"here"]


async def test_a_new_message_answers_a_held_pop_and_one_pop_only(tmp_path: Path) -> None:
    async with popping(tmp_path, queues=4) as peer:
        held = [peer.peer.start(RequestCode.POP_MESSAGE, peer.pop_header(poll_time=3_000)) for _ in range(5)]
        await asyncio.sleep(0.05)
        info = PollingInfoHeader(consumer_group=GROUP, topic=TOPIC, queue_id=-1)
        reply = await peer.peer.ask(RequestCode.POLLING_INFO, info)
        assert reply.header(PollingInfoReplyHeader).polling_num == 5
        await peer.send(b"a", queue_id=2)
        done, _ = await asyncio.wait(held, return_when=asyncio.FIRST_COMPLETED)
        assert [popped(reply.result())[0][0].body for reply in done] == [b"a"]
        replies = await asyncio.gather(*held)
        assert sorted(reply.code for reply in replies) == [0, *[ResponseCode.POLLING_TIMEOUT] * 4]


async def test_a_pop_that_comes_too_late_is_not_served(tmp_path: Path) -> None:
    async with popping(tmp_path) as peer:
        await peer.send(b"a")
        reply = await peer.pop_reply(born_time=peer.clock() - 5_000, poll_time=1_000)
        assert reply.code == ResponseCode.POLLING_TIMEOUT
        assert await peer.bodies(poll_time=1_000) == [b"a"], "without a born time it is served"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"max_msg_nums": 33}, ResponseCode.INVALID_PARAMETER),
        ({"max_msg_nums": 0}, ResponseCode.INVALID_PARAMETER),
        ({"queue_id": 1}, ResponseCode.INVALID_PARAMETER),
        ({"invisible_time": -1}, ResponseCode.INVALID_PARAMETER),
        ({"invisible_time": 1 << 62}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "Nothing"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"exp": "a >", "exp_type": "SQL92"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"consumer_group": "g" * 250}, ResponseCode.INVALID_PARAMETER),
    ],
)
async def test_a_pop_that_cannot_be_served_is_refused(
    tmp_path: Path, fields: dict[str, object], code: ResponseCode
) -> None:
    async with popping(tmp_path) as peer:
        assert (await peer.pop_reply(**fields)).code == code


@pytest.mark.parametrize(
    "receipt", ["", "x", "1 2 3", "0 a b 0 0 broker-a 0 0", "9" * 2_000, "0 0 0 0 0 broker-a 0 1e9"]
)
async def test_a_broken_receipt_is_refused_and_changes_nothing(tmp_path: Path, receipt: str) -> None:
    async with popping(tmp_path) as peer:
        await peer.send(b"a")
        [(record, good)] = await peer.pop()
        assert (await peer.ack(record, good, extra_info=receipt)).code == ResponseCode.SYSTEM_ERROR
        assert peer.in_flight == 1


async def test_a_receipt_of_another_broker_or_outside_the_queue_is_refused(tmp_path: Path) -> None:
    async with popping(tmp_path) as peer:
        await peer.send(b"a")
        [(record, good)] = await peer.pop()
        other = good.encode().replace(BROKER, "broker-b")
        assert (await peer.ack(record, good, extra_info=other)).code == ResponseCode.MESSAGE_ILLEGAL
        assert (await peer.ack(record, good, offset=5)).code == ResponseCode.NO_MESSAGE
        assert (await peer.ack(record, good, queue_id=9)).code == ResponseCode.MESSAGE_ILLEGAL
        assert (await peer.ack(record, good, topic="Nothing")).code == ResponseCode.TOPIC_NOT_EXIST
        assert peer.in_flight == 1


async def test_peeking_changes_nothing_and_a_notification_says_when_a_pop_would_find_something(tmp_path: Path) -> None:
    async with popping(tmp_path) as peer:
        asked = NotificationHeader(consumer_group=GROUP, topic=TOPIC, queue_id=-1, poll_time=10_000)
        waiting = peer.peer.start(RequestCode.NOTIFICATION, asked)
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await peer.send(b"a")
        assert (await waiting).header(NotificationReplyHeader).has_msg
        peek = PeekMessageHeader(consumer_group=GROUP, topic=TOPIC, queue_id=-1, max_msg_nums=5)
        for _ in range(2):
            reply = await peer.peer.ask(RequestCode.PEEK_MESSAGE, peek)
            assert [record.body for record, _ in popped(reply)] == [b"a"]
        assert await peer.bodies() == [b"a"]
        assert (await peer.peer.ask(RequestCode.PEEK_MESSAGE, peek)).code == ResponseCode.PULL_NOT_FOUND


async def test_an_offset_that_is_reset_backwards_or_forwards_is_followed(tmp_path: Path) -> None:
    async with popping(tmp_path) as peer:
        await peer.send(b"a", b"b", b"c", b"d")
        found = await peer.pop(max_msg_nums=3)
        peer.broker.tables.offsets.reset(GROUP, TOPIC, 0, 2)
        await peer.ack(*found[0])
        assert peer.committed() == 2, "an acknowledgement does not undo a reset"
        assert peer.in_flight == 1, "what lies before the new offset is consumed"
        assert await peer.bodies() == [b"d"]
        peer.broker.tables.offsets.reset(GROUP, TOPIC, 0, 0)
        assert await peer.bodies() == [b"a", b"b", b"c", b"d"]


async def test_a_deleted_topic_takes_its_messages_out_of_flight(tmp_path: Path) -> None:
    async with popping(tmp_path) as peer:
        await peer.send(b"a")
        await peer.pop()
        peer.broker.tables.offsets.remove_topic(TOPIC)
        assert await peer.bodies() == [b"a"], "the group starts anew"
        assert peer.in_flight == 1


async def test_a_client_that_never_acknowledges_meets_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hanabi.broker.pop.flights.QUEUE_FLIGHTS_MAX", 8)
    async with popping(tmp_path) as peer:
        await peer.send(*(b"%d" % number for number in range(20)))
        first = await peer.pop(max_msg_nums=8)
        assert len(first) == 8
        assert await peer.bodies() == []
        await peer.ack(*first[0])
        assert len(await peer.bodies()) > 0


async def test_a_pop_that_found_nothing_finds_what_a_reset_or_an_acknowledgement_brings_back(tmp_path: Path) -> None:
    async with popping(tmp_path) as peer:
        await peer.send(b"a", b"b")
        for record, receipt in await peer.pop():
            await peer.ack(record, receipt)
        assert [await peer.bodies() for _ in range(3)] == [[], [], []]
        peer.broker.tables.offsets.reset(GROUP, TOPIC, 0, 1)
        assert await peer.bodies() == [b"b"]
        assert await peer.bodies() == []
        await peer.send(b"c")
        assert await peer.bodies() == [b"c"]


@pytest.mark.parametrize("is_ordered", [False, True])
async def test_a_filter_that_rejects_everything_does_not_look_at_all_queues_in_one_turn(
    tmp_path: Path, is_ordered: bool
) -> None:
    queues, looks = 20, 0

    def reject(_record: memoryview) -> bool:
        nonlocal looks
        looks += 1
        ends = time.thread_time() + 0.006  # as long as a costly rule takes
        while time.thread_time() < ends:
            pass
        return False

    async with popping(tmp_path, queues=queues) as peer:
        for queue_id in range(queues):
            await peer.send(b"a", queue_id=queue_id)
        costly = MessageFilter(None, reject, lambda _: True)
        asked = PopRequest(
            group=GROUP, topic=TOPIC, count_max=32, invisible_ms=60_000, is_ordered=is_ordered, filter=costly
        )
        service = peer.broker.services.pop
        first = service.pop(asked)
        assert (first.count, looks) == (0, 1)
        assert first.rest > 0, "the pop is tried again"
        for _ in range(100 * queues):
            if not service.pop(asked).rest:
                break
        assert looks == queues, "each message is looked at once"
        assert sum(peer.broker.tables.offsets.of(GROUP, TOPIC).values()) == queues
