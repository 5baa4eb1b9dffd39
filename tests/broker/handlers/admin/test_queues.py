"""The entries of a queue, and what a group's filter makes of them."""

import json
from pathlib import Path

from hanabi.broker.handlers.admin.queues import bits_text, queue_handlers
from hanabi.remoting.connection.dispatch import Handler
from hanabi.wire.bodies.heartbeat import SubscriptionData
from hanabi.wire.bodies.stats import ConsumeQueueReply
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.headers.query import QueryConsumeQueueHeader
from hanabi.wire.message.tags import tags_code
from tests.broker.clients.people import a_client, a_consumer, subscribed
from tests.broker.handlers.admin.world import Admin, World, asking


def handlers(world: World) -> dict[int, Handler]:
    return queue_handlers(world.store, world.consumers, world.filters, world.settings)


async def look(admin: Admin, *, index: int = 0, count: int = 10, group: str | None = None) -> ConsumeQueueReply:
    header = QueryConsumeQueueHeader(topic="T", queue_id=0, index=index, count=count, consumer_group=group)
    return await admin.read(ConsumeQueueReply, RequestCode.QUERY_CONSUME_QUEUE, header)


async def test_the_entries_of_a_queue_are_shown_from_where_one_asks(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        places = [world.put(b"%d" % number, TAGS="a") for number in range(5)]
        shown = await look(admin, index=1, count=3)
        assert (shown.min_queue_index, shown.max_queue_index) == (0, 5)
        assert shown.queue_data is not None
        assert [entry.physic_offset for entry in shown.queue_data] == places[1:4]
        assert {entry.tags_code for entry in shown.queue_data} == {tags_code("a")}
        assert not any(entry.eval for entry in shown.queue_data)
        assert (shown.filter_data, shown.subscription_data) == (None, None)


async def test_tags_decide_what_a_group_takes(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        for tag in ("a", "b", "a"):
            world.put(TAGS=tag)
        subscription = SubscriptionData(topic="T", sub_string="a", tags_set=["a"], code_set=[tags_code("a")])
        world.consumers.heartbeat(a_client("c1"), a_consumer("g", subscription))
        shown = await look(admin, group="g")
        assert shown.queue_data is not None
        assert [entry.eval for entry in shown.queue_data] == [True, False, True]
        assert shown.filter_data == "null"
        assert shown.subscription_data is not None
        assert shown.subscription_data.sub_string == "a"


async def test_an_expression_is_asked_of_the_message_itself(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        for amount in ("5", "50"):
            world.put(amount=amount)
        subscription = subscribed("T", "amount > 10", kind="SQL92")
        world.consumers.heartbeat(a_client("c1"), a_consumer("g", subscription))
        world.filters.register("g", [subscription])
        shown = await look(admin, group="g")
        assert shown.queue_data is not None
        assert [entry.eval for entry in shown.queue_data] == [False, True]
        assert shown.filter_data is not None
        assert json.loads(shown.filter_data)["expression"] == "amount > 10"


async def test_a_group_that_is_not_there_is_said_to_be_offline(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        world.put()
        shown = await look(admin, group="g")
        assert shown.filter_data == "g@T is not online!"


async def test_a_place_without_entries_and_a_queue_that_is_not_there(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        world.put()
        header = QueryConsumeQueueHeader(topic="T", queue_id=0, index=7, count=1)
        reply = await admin.ask(RequestCode.QUERY_CONSUME_QUEUE, header)
        assert reply.remark == "Index 7 of 0@T is not exist!"
        assert (await look(admin, index=7)).queue_data == []
        assert (await look(admin, count=-5)).queue_data == []
        header = QueryConsumeQueueHeader(topic="T", queue_id=3, index=0, count=1)
        code, remark = await admin.refused(RequestCode.QUERY_CONSUME_QUEUE, header)
        assert (code, remark) == (ResponseCode.SYSTEM_ERROR, "3@T is not exist!")


def test_bits_are_shown_as_java_shows_them() -> None:
    assert bits_text(b"\x01\x80") == "1000000000000001\n"
