"""Offsets by administration: copied whole, cloned, compared, told as times."""

from pathlib import Path

from hanabi.broker.handlers.admin.offsets import NEVER, group_progress_handlers, offset_table_handlers
from hanabi.remoting.connection.dispatch import Handler
from hanabi.testing.clock import START_MS
from hanabi.wire.bodies.offsets import ConsumerOffsetTable, ConsumeTimeSpans, CorrectionOffsets, DelayOffsetTable
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import V5_0_0
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.headers.group import QueryConsumeTimeSpanHeader
from hanabi.wire.headers.offset import CloneGroupOffsetHeader, QueryCorrectionOffsetHeader
from tests.broker.handlers.admin.world import World, asking


def handlers(world: World) -> dict[int, Handler]:
    tables = offset_table_handlers(world.offsets, lambda: world.delay_offsets, world.clock)
    progress = group_progress_handlers(
        world.offsets, world.store, world.topics, world.consumers, world.settings, world.clock
    )
    return {**tables, **progress}


async def test_a_slave_can_copy_all_offsets(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        world.offsets.commit("g", "T", 0, 7)
        world.offsets.commit("h", "T", 1, 9)
        table = await admin.read(ConsumerOffsetTable, RequestCode.GET_ALL_CONSUMER_OFFSET)
        assert table.offset_table == {"T@g": {0: 7}, "T@h": {1: 9}}
        delays = await admin.read(DelayOffsetTable, RequestCode.GET_ALL_DELAY_OFFSET)
        assert delays.offset_table == {1: 0, 3: 5}


async def test_a_slave_of_5_is_told_a_version_with_each_copy(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        world.offsets.commit("g", "T", 0, 7)
        world.offsets.commit("g", "U", 1, 9)
        now = b"%d" % world.clock()
        version = b'"dataVersion":{"counter":0,"stateVersion":0,"timestamp":%b}' % now
        offsets = await admin.ask(RequestCode.GET_ALL_CONSUMER_OFFSET, version=V5_0_0)
        table = b'"offsetTable":{"T@g":{0:7},"U@g":{1:9}}'
        assert offsets.body == b'{%b,"groupTopicMap":{"g":["T","U"]},%b}' % (version, table)
        delays = await admin.ask(RequestCode.GET_ALL_DELAY_OFFSET, version=V5_0_0)
        assert delays.body == b'{%b,"offsetTable":{1:0,3:5}}' % version
        before_5 = await admin.ask(RequestCode.GET_ALL_CONSUMER_OFFSET, version=V5_0_0 - 1)
        assert before_5.body == b"{%b}" % table


async def test_offsets_are_cloned_in_one_topic_or_in_all(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        for topic in ("T", "U", "V"):
            world.topic(topic)
            world.offsets.commit("old", topic, 0, 7)
        await admin.ask(
            RequestCode.CLONE_GROUP_OFFSET, CloneGroupOffsetHeader(src_group="old", dest_group="new", topic="T")
        )
        assert world.offsets.topics_of("new") == {"T"}
        assert world.offsets.find("new", "T", 0) == 7
        world.topics.delete("V")
        header = CloneGroupOffsetHeader(src_group="old", dest_group="newer")
        await admin.ask(RequestCode.CLONE_GROUP_OFFSET, header)
        assert world.offsets.topics_of("newer") == {"T", "U"}


async def test_offsets_of_a_topic_that_the_group_left_are_cloned_only_offline(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        world.topic("T")
        world.offsets.commit("old", "T", 0, 7)
        world.consumer("old", "U")
        header = CloneGroupOffsetHeader(src_group="old", dest_group="new", topic="T")
        await admin.ask(RequestCode.CLONE_GROUP_OFFSET, header)
        assert world.offsets.find("new", "T", 0) == -1
        header = CloneGroupOffsetHeader(src_group="old", dest_group="new", topic="T", offline=True)
        await admin.ask(RequestCode.CLONE_GROUP_OFFSET, header)
        assert world.offsets.find("new", "T", 0) == 7


async def test_the_lowest_offsets_leave_some_groups_out_and_forget_nothing(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        for group, offset in (("a", 5), ("b", 3), ("c", 1)):
            world.offsets.commit(group, "T", 0, offset)
        world.offsets.commit("a", "T", 1, 8)
        world.offsets.commit("z", "T", 0, 4)
        world.offsets.commit("z", "T", 1, 7)
        header = QueryCorrectionOffsetHeader(compare_group="nobody", topic="T", filter_groups="c,z")
        found = await admin.read(CorrectionOffsets, RequestCode.QUERY_CORRECTION_OFFSET, header)
        assert found.correction_offsets == {0: 3, 1: 8}
        header = QueryCorrectionOffsetHeader(compare_group="z", topic="T", filter_groups="c,z")
        found = await admin.read(CorrectionOffsets, RequestCode.QUERY_CORRECTION_OFFSET, header)
        assert found.correction_offsets == {0: 3, 1: NEVER}
        assert world.offsets.find("c", "T", 0) == 1


async def test_time_spans_tell_where_a_group_is_in_time(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        world.topic("T", 2)
        for _ in range(4):
            world.clock.ms += 1000
            world.put()
        world.offsets.commit("g", "T", 0, 2)
        world.clock.ms += 500
        header = QueryConsumeTimeSpanHeader(topic="T", group="g")
        spans = await admin.read(ConsumeTimeSpans, RequestCode.QUERY_CONSUME_TIME_SPAN, header)
        busy, idle = sorted(spans.consume_time_span_set, key=lambda span: span.message_queue)
        assert (busy.min_time_stamp, busy.max_time_stamp) == (START_MS + 1000, START_MS + 4000)
        assert busy.consume_time_stamp == START_MS + 2000
        assert busy.delay_time == 1500
        assert (idle.min_time_stamp, idle.max_time_stamp, idle.delay_time) == (-1, -1, 0)
        code, _ = await admin.refused(
            RequestCode.QUERY_CONSUME_TIME_SPAN, QueryConsumeTimeSpanHeader(topic="U", group="g")
        )
        assert code == ResponseCode.TOPIC_NOT_EXIST


async def test_the_times_of_many_queues_are_told_as_if_at_once(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        world.topic("T", 600)
        world.put(queue_id=599)
        header = QueryConsumeTimeSpanHeader(topic="T", group="g")
        reply = await admin.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, header)
        found = decode_body(reply.body, ConsumeTimeSpans)
        assert [span.message_queue.queue_id for span in found.consume_time_span_set] == list(range(600))
        assert found.consume_time_span_set[599].min_time_stamp == START_MS
        assert encode_body(found) == reply.body
