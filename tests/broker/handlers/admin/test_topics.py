"""Topics by administration: made, changed, deleted, shown."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from hanabi.broker.handlers.admin.support.queue_removal import QueueRemoval
from hanabi.broker.handlers.admin.topics import topic_change_handlers, topic_view_handlers
from hanabi.remoting.connection.dispatch import Handler
from hanabi.testing.clock import START_MS
from hanabi.testing.topics import plain_topic
from hanabi.wire.bodies.groups import GroupList
from hanabi.wire.bodies.route import TopicList
from hanabi.wire.bodies.stats import TopicStatsTable
from hanabi.wire.bodies.topics import TopicConfig, TopicConfigList, TopicConfigTable
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.headers.topic import (
    CreateTopicHeader,
    DeleteTopicHeader,
    GetTopicConfigHeader,
    GetTopicStatsInfoHeader,
    QueryTopicConsumeByWhoHeader,
)
from tests.broker.handlers.admin.world import World, asking
from tests.store.stores import bodies


def handlers(world: World) -> dict[int, Handler]:
    removal = QueueRemoval(world.store)
    changes = topic_change_handlers(world.topics, world.settings, removal, world.offsets, world.stats, world.registered)
    views = topic_view_handlers(world.topics, world.settings, world.store, world.stats, world.consumers, world.offsets)
    return {**changes, **views}


def create(topic: str = "Orders", **fields: object) -> CreateTopicHeader:
    return msgspec.structs.replace(plain_topic(topic, 4), **fields)


async def test_a_topic_is_made_and_changed_and_the_name_servers_know_before_the_answer(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        await admin.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, create())
        assert world.topics.find("Orders") == TopicConfig(
            topic_name="Orders", read_queue_nums=4, write_queue_nums=4, perm=6
        )
        assert world.registrations == 1
        await admin.ask(
            RequestCode.UPDATE_AND_CREATE_TOPIC, create(read_queue_nums=8, perm=4, topic_sys_flag=3, order=True)
        )
        assert world.topics.find("Orders") == TopicConfig(
            topic_name="Orders", read_queue_nums=8, write_queue_nums=4, perm=4, topic_sys_flag=3, order=True
        )


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (create(""), "blank"),
        (create("a b"), "illegal characters"),
        (create("x" * 128), "longer"),
        (create("TBW102"), "The topic[TBW102] is conflict with system topic."),
        (create("broker-a"), "conflict with system topic"),
        (create(read_queue_nums=-1), "-1 queues"),
        (create(write_queue_nums=2**31 - 1), "limit 16384"),
    ],
)
async def test_an_impossible_topic_is_refused_with_a_sentence(
    tmp_path: Path, header: CreateTopicHeader, says: str
) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        before = world.topics.table()
        code, remark = await admin.refused(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        assert code == ResponseCode.SYSTEM_ERROR
        assert says in remark
        assert world.topics.table() == before


async def test_a_slave_changes_no_topics(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers, broker_role="SLAVE") as (_, admin):
        for code, header in (
            (RequestCode.UPDATE_AND_CREATE_TOPIC, create()),
            (RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicHeader(topic="Orders")),
        ):
            assert "from slave broker" in (await admin.refused(code, header))[1]


async def test_attributes_are_set_changed_and_taken_away(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):

        async def change(attributes: str) -> dict[str, str] | None:
            await admin.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, create(attributes=attributes))
            topic = world.topics.find("Orders")
            assert topic is not None
            return topic.attributes

        assert await change("+message.type=FIFO,+queue.type=SimpleCQ") == {
            "message.type": "FIFO",
            "queue.type": "SimpleCQ",
        }
        assert await change("+message.type=NORMAL") == {"message.type": "NORMAL", "queue.type": "SimpleCQ"}
        assert await change("-message.type") == {"queue.type": "SimpleCQ"}
        assert await change("") == {"queue.type": "SimpleCQ"}


async def test_many_topics_are_made_at_once_or_none_is(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        good = TopicConfig(topic_name="A", attributes={"+message.type": "DELAY"})
        bad = TopicConfig(topic_name="not good")
        body = encode_body(TopicConfigList(topic_config_list=[good, bad]))
        await admin.refused(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body)
        assert world.topics.find("A") is None
        body = encode_body(TopicConfigList(topic_config_list=[good, TopicConfig(topic_name="B")]))
        await admin.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body)
        made = world.topics.find("A")
        assert made is not None
        assert made.attributes == {"message.type": "DELAY"}
        assert world.topics.find("B") is not None
        assert world.registrations == 1


async def test_a_deleted_topic_takes_its_queues_offsets_and_figures_along_and_begins_anew(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        for topic in ("T", "U"):
            world.topic(topic, 2)
            for queue_id in (0, 1):
                world.put(b"old", topic=topic, queue_id=queue_id)
            world.offsets.commit("g", topic, 0, 1)
        await admin.ask(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicHeader(topic="T"))
        assert world.topics.find("T") is None
        assert world.store.queues_of("T") == []
        assert world.offsets.find("g", "T", 0) == -1
        assert world.stats.view("TOPIC_PUT_NUMS", "T") is None
        assert world.registrations == 1
        assert bodies(world.store, "U") == [b"old"]
        assert world.offsets.find("g", "U", 0) == 1
        assert world.stats.view("TOPIC_PUT_NUMS", "U") is not None
        world.topic("T")
        world.put(b"new")
        assert bodies(world.store) == [b"new"]


async def test_deleting_what_is_not_there_is_no_error_and_system_topics_stay(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        await admin.ask(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicHeader(topic="Nobody"))
        for topic in ("SCHEDULE_TOPIC_XXXX", "broker-a", ""):
            await admin.refused(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicHeader(topic=topic))
        assert world.topics.find("SCHEDULE_TOPIC_XXXX") is not None


async def test_a_queue_in_use_again_is_not_deleted_under_its_new_messages(tmp_path: Path) -> None:
    world = World(tmp_path)
    for queue_id in (0, 1):
        world.put(b"old", queue_id=queue_id)
    removal = asyncio.create_task(QueueRemoval(world.store).remove_topic("T"))
    await asyncio.sleep(0)  # it knows now what it will delete, and has not begun
    world.put(b"new", queue_id=1)
    assert await removal == 1
    assert world.store.queues_of("T") == [1]
    assert bodies(world.store, queue_id=1) == [b"old", b"new"]
    world.close()


async def test_a_removal_ends_even_if_nobody_waits_for_it_any_more(tmp_path: Path) -> None:
    world = World(tmp_path)
    for queue_id in range(50):
        world.put(queue_id=queue_id)
    asked = asyncio.create_task(QueueRemoval(world.store).remove_topic("T"))
    await asyncio.sleep(0)
    asked.cancel()
    async with asyncio.timeout(60):
        while world.store.queues_of("T"):  # noqa: ASYNC110 - a store has no events
            await asyncio.sleep(0)
    world.close()


async def test_all_topics_and_one_topic_are_shown(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        world.topic("T", 3)
        table = await admin.read(TopicConfigTable, RequestCode.GET_ALL_TOPIC_CONFIG)
        assert table == world.topics.table()
        one = await admin.read(TopicConfig, RequestCode.GET_TOPIC_CONFIG, GetTopicConfigHeader(topic="T"))
        assert (one.read_queue_nums, one.attributes) == (3, {})  # which 5.x always tells
        code, remark = await admin.refused(RequestCode.GET_TOPIC_CONFIG, GetTopicConfigHeader(topic="U"))
        assert (code, remark) == (ResponseCode.TOPIC_NOT_EXIST, "No topic in this broker. topic: U")


async def test_the_topics_of_the_broker_itself_are_listed(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        world.topic("Mine")
        listed = (await admin.read(TopicList, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)).topic_list
        assert {"TBW102", "SCHEDULE_TOPIC_XXXX", "broker-a", "C", "RMQ_SYS_TRANS_HALF_TOPIC"} <= set(listed)
        assert "Mine" not in listed


async def test_the_queues_of_a_topic_tell_what_they_hold_and_when_that_came(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        world.topic("T", 2)
        for _ in range(3):
            world.clock.ms += 1000
            world.put()
        header = GetTopicStatsInfoHeader(topic="T")
        table = await admin.read(TopicStatsTable, RequestCode.GET_TOPIC_STATS_INFO, header)
        busy, idle = table.offset_table[world.queue(0)], table.offset_table[world.queue(1)]
        assert (busy.min_offset, busy.max_offset, busy.last_update_timestamp) == (0, 3, START_MS + 3000)
        assert (idle.min_offset, idle.max_offset, idle.last_update_timestamp) == (0, 0, 0)
        code, remark = await admin.refused(RequestCode.GET_TOPIC_STATS_INFO, GetTopicStatsInfoHeader(topic="U"))
        assert (code, remark) == (ResponseCode.TOPIC_NOT_EXIST, "topic[U] not exist")


async def test_a_topic_is_consumed_by_who_subscribes_and_by_who_has_an_offset(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        world.consumer("online", "T")
        world.consumer("elsewhere", "U", client_id="c2")
        world.offsets.commit("offline", "T", 0, 1)
        header = QueryTopicConsumeByWhoHeader(topic="T")
        found = await admin.read(GroupList, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header)
        assert found.group_list == ["offline", "online"]


async def test_a_wide_topics_queues_are_told_as_if_at_once(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        world.topic("T", 1_000)
        world.put(queue_id=999)
        reply = await admin.ask(RequestCode.GET_TOPIC_STATS_INFO, GetTopicStatsInfoHeader(topic="T"))
        found = decode_body(reply.body, TopicStatsTable)
        assert [queue.queue_id for queue in found.offset_table] == list(range(1_000))
        assert found.offset_table[world.queue(999)].max_offset == 1
        assert encode_body(found) == reply.body


async def test_eight_hundred_requests_about_a_wide_topic_are_not_answered_at_once(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        world.topic("T", 16_384)
        before = len(asyncio.all_tasks())
        header = GetTopicStatsInfoHeader(topic="T")
        answers = [admin.peer.start(RequestCode.GET_TOPIC_STATS_INFO, header) for _ in range(800)]
        assert len((await answers[0]).body) > 1_000_000
        assert len(asyncio.all_tasks()) - before <= 1
