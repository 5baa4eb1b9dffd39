"""Messages by key and by place, over the wire."""

from pathlib import Path

import pytest

from hanabi.broker.handlers.query import Search, newest_within, query_handlers
from hanabi.broker.handlers.worker_pool import Workers
from hanabi.remoting.connection.dispatch import Handler
from hanabi.testing.clock import START_MS
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.headers.query import QueryMessageHeader, QueryMessageReplyHeader, ViewMessageHeader
from hanabi.wire.message.record import decode_records
from tests.broker.handlers.admin.world import World, asking


def handlers(world: World) -> dict[int, Handler]:
    return query_handlers(world.store, world.settings, Workers("key queries", threads=2, waiting_max=9))


def by_key(
    key: str, *, max_num: int = 32, begin: int = 0, end: int = 2**62, unique: bool | None = None
) -> QueryMessageHeader:
    return QueryMessageHeader(
        topic="T", key=key, max_num=max_num, begin_timestamp=begin, end_timestamp=end, by_unique_key=unique
    )


def bodies(reply: Command) -> list[bytes]:
    return [bytes(record.body) for record in decode_records(memoryview(reply.body))]


async def test_messages_are_found_by_key_within_their_time(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        for number in range(3):
            world.put(b"%d" % number, KEYS="k other")
            world.clock.ms += 10_000
        reply = await admin.ask(RequestCode.QUERY_MESSAGE, by_key("k"))
        assert bodies(reply) == [b"0", b"1", b"2"]
        told = reply.header(QueryMessageReplyHeader)
        assert told.index_last_update_timestamp == START_MS + 20_000
        assert told.index_last_update_phyoffset > 0
        assert bodies(await admin.ask(RequestCode.QUERY_MESSAGE, by_key("k", max_num=2))) == [b"1", b"2"]
        assert bodies(await admin.ask(RequestCode.QUERY_MESSAGE, by_key("k", end=START_MS + 5_000))) == [b"0"]


async def test_a_unique_key_finds_the_message_with_that_id_only(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        world.put(b"mine", UNIQ_KEY="id1")
        world.put(b"about it", KEYS="id1", UNIQ_KEY="id2")
        reply = await admin.ask(RequestCode.QUERY_MESSAGE, by_key("id1", max_num=1, unique=True))
        assert bodies(reply) == [b"mine"]
        reply = await admin.ask(RequestCode.QUERY_MESSAGE, by_key("id1"))
        assert bodies(reply) == [b"mine", b"about it"]


async def test_nothing_found_is_said_in_apaches_words(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (_, admin):
        code, remark = await admin.refused(RequestCode.QUERY_MESSAGE, by_key("nobody"))
        assert (code, remark) == (
            ResponseCode.QUERY_NOT_FOUND,
            "can not find message, maybe time range not correct",
        )


async def test_no_number_asked_for_is_too_large_or_too_small(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        for number in range(70):
            world.put(b"%d" % number, KEYS="k")
        assert len(bodies(await admin.ask(RequestCode.QUERY_MESSAGE, by_key("k", max_num=2**31 - 1)))) == 64
        assert len(bodies(await admin.ask(RequestCode.QUERY_MESSAGE, by_key("k", max_num=-1)))) == 1


async def test_a_search_that_is_stopped_says_so_in_the_answer_and_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seconds = iter([0.0, 1.0, 1.0, 1.0, 15.0, 15.0, 30.0])  # enough for three messages, and then for none

    def impatient(world: World) -> dict[int, Handler]:
        workers = Workers("key queries", threads=1, waiting_max=9)
        return query_handlers(world.store, world.settings, workers, lambda: next(seconds))

    async with asking(tmp_path, impatient) as (world, admin):
        for number in range(5):
            world.put(b"%d" % number, KEYS="k")
        reply = await admin.ask(RequestCode.QUERY_MESSAGE, by_key("k"))
        assert bodies(reply) == [b"2", b"3", b"4"]
        assert reply.remark == "the search stopped after 15 s: older messages may have the key, too"
        code, remark = await admin.refused(RequestCode.QUERY_MESSAGE, by_key("k"))
        assert (code, remark) == (ResponseCode.QUERY_NOT_FOUND, reply.remark)
        assert caplog.text.count("key 'k' of topic T: the search stopped") == 2


def test_a_search_ends_soon_when_its_client_goes_away() -> None:
    search = Search(lambda: 0.0)
    assert search.goes_on()
    search.give_up()
    assert not search.goes_on()


def test_a_reply_that_would_be_too_long_has_the_newest_messages() -> None:
    records = [memoryview(bytes(size)) for size in (30, 20, 10)]
    assert [len(record) for record in newest_within(records, 100)] == [30, 20, 10]
    assert [len(record) for record in newest_within(records, 59)] == [20, 10]
    assert [len(record) for record in newest_within(records, 5)] == [10]
    assert newest_within([], 5) == []


async def test_a_message_is_found_by_its_place(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        world.put(b"first")
        place = world.put(b"second")
        assert bodies(await admin.ask(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageHeader(offset=place))) == [b"second"]
        for offset in (place + 1, 2**40, -1):
            code, remark = await admin.refused(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageHeader(offset=offset))
            assert code == ResponseCode.SYSTEM_ERROR
            assert remark == f"can not find message by the offset, {offset}"
