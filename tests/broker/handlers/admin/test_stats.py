"""Tests of how far groups have come, and single counters."""

from pathlib import Path

from hanabi.broker.handlers.admin.stats import stats_handlers
from hanabi.broker.handlers.admin.support.consume_progress import ConsumeProgress
from hanabi.remoting.connection.dispatch import Handler
from hanabi.testing.clock import START_MS
from hanabi.wire.bodies.groups import SubscriptionGroupConfig
from hanabi.wire.bodies.stats import BrokerStatsData, ConsumeStats, ConsumeStatsList
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.headers.admin import GetBrokerConsumeStatsHeader, ViewBrokerStatsDataHeader
from hanabi.wire.headers.group import GetConsumeStatsHeader
from tests.broker.handlers.admin.world import ADDRESS, BROKER, World, asking


def handlers(world: World) -> dict[int, Handler]:
    progress = ConsumeProgress(world.store, world.offsets, world.consumers, BROKER, lambda *_: None)
    return stats_handlers(progress, world.topics, world.groups, world.offsets, world.stats, ADDRESS)


async def test_a_groups_progress_is_told_queue_by_queue(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        world.topic("T", 2)
        for _ in range(5):
            world.pass_time(1)
            world.put()
        world.offsets.commit("g", "T", 0, 3)
        world.stats.get("g", "T", 20, 100)
        world.pass_time(10)
        header = GetConsumeStatsHeader(consumer_group="g")
        found = await admin.read(ConsumeStats, RequestCode.GET_CONSUME_STATS, header)
        busy, idle = found.offset_table[world.queue(0)], found.offset_table[world.queue(1)]
        assert (busy.broker_offset, busy.consumer_offset, busy.last_timestamp) == (5, 3, START_MS + 3000)
        assert busy.pull_offset == 3
        assert (idle.broker_offset, idle.consumer_offset, idle.last_timestamp) == (0, 0, 0)
        assert found.consume_tps == 2.0


async def test_progress_is_told_for_the_topics_asked_for(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        for topic in ("T", "U", "V"):
            world.topic(topic, 1)
            world.offsets.commit("g", topic, 0, 0)

        async def topics(header: GetConsumeStatsHeader) -> set[str]:
            found = await admin.read(ConsumeStats, RequestCode.GET_CONSUME_STATS, header)
            return {queue.topic for queue in found.offset_table}

        assert await topics(GetConsumeStatsHeader(consumer_group="g", topic="")) == {"T", "U", "V"}
        assert await topics(GetConsumeStatsHeader(consumer_group="g", topic="T")) == {"T"}
        assert await topics(GetConsumeStatsHeader(consumer_group="g", topic="T", topic_list="U;V")) == {"U", "V"}
        assert await topics(GetConsumeStatsHeader(consumer_group="g", topic="W")) == set()
        world.consumer("g", "T")  # it is here, and does not subscribe to the others any more
        assert await topics(GetConsumeStatsHeader(consumer_group="g")) == {"T"}


async def test_all_groups_are_told_with_how_far_they_are_behind_together(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        world.topic("T", 1)
        world.topic("Ordered", 1, order=True)
        for topic in ("T", "Ordered"):
            for _ in range(5):
                world.put(topic=topic)
        for group, offset in (("g", 3), ("h", 1)):
            world.groups.update(SubscriptionGroupConfig(group_name=group))
            world.offsets.commit(group, "T", 0, offset)
        world.offsets.commit("g", "Ordered", 0, 5)
        header = GetBrokerConsumeStatsHeader(is_order=False)
        found = await admin.read(ConsumeStatsList, RequestCode.GET_BROKER_CONSUME_STATS, header)
        groups = {group: stats for entry in found.consume_stats_list for group, stats in entry.items()}
        assert set(groups) == set(world.groups.names())
        assert len(groups["g"]) == 2
        assert groups["h"][0].offset_table[world.queue(0)].consumer_offset == 1
        assert (found.total_diff, found.broker_addr) == (2 + 4, ADDRESS)
        header = GetBrokerConsumeStatsHeader(is_order=True)
        found = await admin.read(ConsumeStatsList, RequestCode.GET_BROKER_CONSUME_STATS, header)
        assert found.total_diff == 0


async def test_a_counter_is_told_over_its_windows_and_an_unknown_one_is_not(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        world.stats.put("T", 30, 3000)
        world.pass_time(10)
        header = ViewBrokerStatsDataHeader(stats_name="TOPIC_PUT_SIZE", stats_key="T")
        data = await admin.read(BrokerStatsData, RequestCode.VIEW_BROKER_STATS_DATA, header)
        assert (data.stats_minute.sum, data.stats_minute.tps, data.stats_minute.avgpt) == (3000, 300.0, 3000.0)
        header = ViewBrokerStatsDataHeader(stats_name="TOPIC_PUT_SIZE", stats_key="U")
        code, remark = await admin.refused(RequestCode.VIEW_BROKER_STATS_DATA, header)
        assert (code, remark) == (ResponseCode.SYSTEM_ERROR, "The stats <TOPIC_PUT_SIZE> <U> not exist")


async def test_answers_of_many_queues_are_written_as_if_at_once(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        for topic in ("T", "U", "V"):
            world.topic(topic, 600)
            world.put(topic=topic)
            for queue_id in range(0, 600, 7):
                world.offsets.commit("g", topic, queue_id, 1)
        world.groups.update(SubscriptionGroupConfig(group_name="g"))
        world.groups.update(SubscriptionGroupConfig(group_name="without offsets"))
        reply = await admin.ask(RequestCode.GET_CONSUME_STATS, GetConsumeStatsHeader(consumer_group="g"))
        found = decode_body(reply.body, ConsumeStats)
        assert len(found.offset_table) == 1_800
        assert encode_body(found) == reply.body
        reply = await admin.ask(RequestCode.GET_BROKER_CONSUME_STATS, GetBrokerConsumeStatsHeader(is_order=False))
        everything = decode_body(reply.body, ConsumeStatsList)
        assert encode_body(everything) == reply.body
        stats = {name: found for entry in everything.consume_stats_list for name, found in entry.items()}
        assert [len(of_topic.offset_table) for of_topic in stats["g"]] == [600, 600, 600]
        assert stats["without offsets"] == []


async def test_the_progress_of_all_groups_longer_than_clients_read_is_an_error(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        topic = "T" * 127
        world.topic(topic, 16_384)
        for group in range(5):
            world.groups.update(SubscriptionGroupConfig(group_name=f"g{group}"))
            world.offsets.commit(f"g{group}", topic, 0, 1)
        header = GetBrokerConsumeStatsHeader(is_order=False)
        code, remark = await admin.refused(RequestCode.GET_BROKER_CONSUME_STATS, header)
        assert code == ResponseCode.SYSTEM_ERROR
        assert remark == "the answer exceeds the 16777216 bytes that clients read: ask for one group or topic"
