"""Requests about offsets: how far a group has come, what may be committed, and where queues begin and end."""

import asyncio
from pathlib import Path

import pytest

from hanabi.testing.clock import START_MS
from hanabi.wire.codes import HeaderForm, RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.headers.offset import (
    GetEarliestMsgStoretimeHeader,
    GetEarliestMsgStoretimeReplyHeader,
    GetMaxOffsetHeader,
    GetMinOffsetHeader,
    OffsetReplyHeader,
    QueryConsumerOffsetHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from tests.broker.reading import GROUP, TOPIC, Reading, consuming, read, subscribe
from tests.broker.talk import Peer


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    return Reading(tmp_path)


async def query(peer: Peer, *, queue_id: int = 0, topic: str = TOPIC, zero: bool | None = None) -> Command:
    header = QueryConsumerOffsetHeader(consumer_group=GROUP, topic=topic, queue_id=queue_id, set_zero_if_not_found=zero)
    return await peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, header)


async def commit(peer: Peer, offset: int, *, queue_id: int = 0, topic: str = TOPIC, group: str = GROUP) -> Command:
    header = UpdateConsumerOffsetHeader(consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset)
    return await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)


def offset_in(reply: Command) -> int:
    assert (reply.code, reply.remark) == (0, None)
    return reply.header(OffsetReplyHeader).offset


# How far a group has come


@pytest.mark.parametrize("form", list(HeaderForm))
async def test_what_was_committed_is_told(reading: Reading, form: HeaderForm) -> None:
    async with consuming(reading) as peer:
        assert (await commit(peer, 7, queue_id=2)).code == 0
        header = QueryConsumerOffsetHeader(consumer_group=GROUP, topic=TOPIC, queue_id=2)
        reply = await peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, header, form=form)
        assert offset_in(reply) == 7


@pytest.mark.parametrize("messages", [0, 3])
async def test_a_new_group_starts_at_0_in_a_young_queue(reading: Reading, messages: int) -> None:
    async with consuming(reading) as peer:
        reading.put(*[b"m"] * messages)
        assert offset_in(await query(peer)) == 0
        assert offset_in(await query(peer, zero=True)) == 0


async def test_a_new_group_chooses_itself_when_the_beginning_of_the_queue_has_left_the_memory(tmp_path: Path) -> None:
    reading = Reading(tmp_path, memory_bytes=1_000)
    async with consuming(reading) as peer:
        reading.put(bytes(100), bytes(5_000))
        reply = await query(peer)
        assert (reply.code, reply.fields()) == (ResponseCode.QUERY_NOT_FOUND, {})
        assert reply.remark == "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
        assert offset_in(await query(peer, queue_id=1)) == 0  # nothing is there, nothing can be missed


async def test_a_new_group_chooses_itself_when_messages_were_deleted(reading: Reading) -> None:
    async with consuming(reading) as peer:
        reading.put(*[bytes(10_000)] * 30)
        reading.delete_old()
        assert (await query(peer)).code == ResponseCode.QUERY_NOT_FOUND


async def test_a_client_may_ask_not_to_be_sent_to_0(reading: Reading) -> None:
    async with consuming(reading) as peer:
        reply = await query(peer, zero=False)
        assert reply.code == ResponseCode.QUERY_NOT_FOUND
        assert reply.remark == "Not found, do not set to zero, maybe this group boot first"
        await commit(peer, 7)
        assert offset_in(await query(peer, zero=False)) == 7


# Committing


async def test_a_commit_of_its_own_may_go_backwards(reading: Reading) -> None:
    async with consuming(reading) as peer:
        for offset in (7, 3):  # a consumer that was reset, seeks, or was corrected says so in this way
            reply = await commit(peer, offset)
            assert (reply.code, reply.remark) == (0, None)
            assert offset_in(await query(peer)) == offset


async def test_a_commit_that_says_so_only_ever_goes_forward(reading: Reading) -> None:
    async with consuming(reading) as peer:
        for offset, kept in ((7, 7), (3, 7), (8, 8)):
            header = UpdateConsumerOffsetHeader(
                consumer_group=GROUP, topic=TOPIC, queue_id=0, commit_offset=offset, increase_only=True
            )
            assert (await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)).code == 0
            assert offset_in(await query(peer)) == kept


async def test_a_late_commit_of_the_former_owner_of_a_queue_does_not_take_the_group_back(reading: Reading) -> None:
    async with consuming(reading) as former, reading.served() as address:
        reading.put(*[b"m"] * 9)
        owner = await Peer.connect(address)
        await subscribe(owner, client_id="10.0.0.2@1")
        await read(former)
        await commit(former, 3)
        await read(owner, 3)
        await commit(owner, 7)
        reply = await commit(former, 5)
        assert reply.code == 0
        assert reply.remark is not None
        assert reply.remark.startswith("offset 5 comes late: another consumer of the group reads this queue, or ")
        assert offset_in(await query(owner)) == 7
        await commit(former, 8)  # forward is never wrong
        assert offset_in(await query(owner)) == 8
        await commit(owner, 4)  # its own it may take back
        assert offset_in(await query(owner)) == 4
        await owner.close()
        while len(reading.consumers.client_ids(GROUP)) > 1:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await commit(former, 2)  # and when it is gone, so may the other
        assert offset_in(await query(former)) == 2


async def test_a_tool_that_is_no_member_of_the_group_may_take_it_back(reading: Reading) -> None:
    async with consuming(reading) as peer, reading.served() as address:
        reading.put(b"m")
        await read(peer)
        await commit(peer, 7)
        tool = await Peer.connect(address)
        assert (await commit(tool, 1)).remark is None
        assert offset_in(await query(peer)) == 1
        await tool.close()


async def test_offsets_are_kept_only_for_topics_groups_and_queues_that_exist(reading: Reading) -> None:
    async with consuming(reading) as peer:
        reply = await commit(peer, 1, topic="Unknown")
        assert (reply.code, reply.remark) == (ResponseCode.TOPIC_NOT_EXIST, "Topic Unknown not exist!")
        reading.change(auto_create_group=False)
        reply = await commit(peer, 1, group="unknown")
        assert (reply.code, reply.remark) == (
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            "Group unknown not exist!",
        )
        for queue_id, offset in ((-1, 1), (4, 1), (2**31 - 1, 1), (0, -1)):
            reply = await commit(peer, offset, queue_id=queue_id)
            assert reply.code == ResponseCode.SYSTEM_ERROR
            assert f"offset {offset} of queueId[{queue_id}] is illegal" in (reply.remark or "")
        assert len(reading.offsets) == 0


async def test_a_queue_that_is_readable_no_more_may_still_be_committed(reading: Reading) -> None:
    async with consuming(reading) as peer:
        reading.change_topic(read_queue_nums=1)
        assert (await commit(peer, 5, queue_id=3)).code == 0


async def test_too_many_offsets_are_an_answer(reading: Reading) -> None:
    async with consuming(reading) as peer:
        reading.offsets._offsets_max = 1
        assert (await commit(peer, 1)).code == 0
        assert (await commit(peer, 1, queue_id=1)).code == ResponseCode.SYSTEM_BUSY


def test_who_read_last_is_forgotten_before_that_takes_too_much_memory(reading: Reading) -> None:
    reading.commits._readers_max = 10
    for queue_id in range(1_000):
        reading.commits.note_reader(GROUP, TOPIC, queue_id, "10.0.0.1:1")
        assert len(reading.commits._readers) <= 10
    reading.close()


# Where queues begin and end


async def test_where_a_queue_begins_and_ends(reading: Reading) -> None:
    async with consuming(reading) as peer:
        for topic in (TOPIC, "Unknown"):
            for code, header in (
                (RequestCode.GET_MIN_OFFSET, GetMinOffsetHeader(topic=topic, queue_id=1)),
                (RequestCode.GET_MAX_OFFSET, GetMaxOffsetHeader(topic=topic, queue_id=1)),
            ):
                assert offset_in(await peer.ask(code, header)) == 0
        reading.put(*[bytes(10_000)] * 30, queue_id=1)
        reading.delete_old()
        low = await peer.ask(RequestCode.GET_MIN_OFFSET, GetMinOffsetHeader(topic=TOPIC, queue_id=1))
        high = await peer.ask(RequestCode.GET_MAX_OFFSET, GetMaxOffsetHeader(topic=TOPIC, queue_id=1))
        assert 0 < offset_in(low) < offset_in(high) == 30


@pytest.mark.parametrize(
    ("after_ms", "boundary", "offset"),
    [
        (-1, None, 0),
        (1_400, None, 1),
        (1_600, None, 2),
        (9_000, None, 3),
        (1_400, "LOWER", 2),
        (1_400, "upper", 1),
        (1_400, "nonsense", 2),
        (9_000, "lower", 4),
    ],
)
async def test_the_offset_at_a_time(reading: Reading, after_ms: int, boundary: str | None, offset: int) -> None:
    async with consuming(reading) as peer:
        for _ in range(4):
            reading.put(b"m")
            reading.clock.ms += 1_000
        header = SearchOffsetHeader(topic=TOPIC, queue_id=0, timestamp=START_MS + after_ms, boundary_type=boundary)
        assert offset_in(await peer.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)) == offset


async def test_when_the_oldest_message_was_stored(reading: Reading) -> None:
    async with consuming(reading) as peer:
        header = GetEarliestMsgStoretimeHeader(topic=TOPIC, queue_id=0)
        for expected in (-1, START_MS):
            reply = await peer.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, header)
            assert reply.header(GetEarliestMsgStoretimeReplyHeader).timestamp == expected
            reading.put(b"m")
