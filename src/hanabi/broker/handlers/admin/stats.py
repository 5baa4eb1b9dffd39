"""Statistics: progress of groups, and counters.

    208  one group      317  all groups      315  one counter over a minute, an hour and a day

Agrees with AdminBrokerProcessor (4.9.8; 5.3.3 for clients of 5.x, see `wire/bodies/of_5.py`).
"""

from typing import Final

from hanabi.broker.handlers.admin.support.consume_progress import ConsumeProgress
from hanabi.broker.handlers.admin.support.limits import NO_BODY_BYTES_MAX
from hanabi.broker.handlers.admin.support.long_body import ENTRY_BYTES, LONGEST_BYTES, LongBody
from hanabi.broker.handlers.yielding import Yielder
from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.broker.stats.broker_stats import BrokerStats
from hanabi.broker.stats.tally import Figures
from hanabi.broker.tables.groups import Groups
from hanabi.broker.tables.topics import Topics
from hanabi.message import MessageQueue
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.wire.bodies.of_5 import OffsetWrapper5, consume_stats_of_5
from hanabi.wire.bodies.stats import BrokerStatsData, BrokerStatsItem, ConsumeStats, ConsumeStatsList, OffsetWrapper
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import V5_0_0, Command
from hanabi.wire.fastjson import encode_body
from hanabi.wire.headers.admin import GetBrokerConsumeStatsHeader, ViewBrokerStatsDataHeader
from hanabi.wire.headers.group import GetConsumeStatsHeader

COUNTED_TOPICS_MAX: Final = 100  # of a group, for estimating the size of an answer
_QUEUES: Final = dict[MessageQueue, OffsetWrapper]  # or their 5.x form


def stats_handlers(
    progress: ConsumeProgress,
    topics: Topics,
    groups: Groups,
    offsets: ConsumerOffsets,
    stats: BrokerStats,
    address: str,
) -> dict[int, Handler]:
    """Return the handlers of statistics. *address* is how clients reach this broker."""
    consume = ConsumeStatsHandlers(progress, topics, groups, offsets, stats, address)

    def view(header: ViewBrokerStatsDataHeader, _: Command, connection: Connection) -> Reply:
        found = stats.view(header.stats_name, header.stats_key)
        if found is None:
            return Reply(ResponseCode.SYSTEM_ERROR, f"The stats <{header.stats_name}> <{header.stats_key}> not exist")
        data = BrokerStatsData(
            stats_minute=_item(found.minute), stats_hour=_item(found.hour), stats_day=_item(found.day)
        )
        return Reply(body=encode_body(data))

    return {
        RequestCode.GET_CONSUME_STATS: Handler(
            GetConsumeStatsHeader, consume.of_group, NO_BODY_BYTES_MAX, answer_bytes=consume.of_group_bytes
        ),
        RequestCode.GET_BROKER_CONSUME_STATS: Handler(
            GetBrokerConsumeStatsHeader, consume.of_all_groups, NO_BODY_BYTES_MAX, answer_bytes=lambda _: LONGEST_BYTES
        ),
        RequestCode.VIEW_BROKER_STATS_DATA: Handler(ViewBrokerStatsDataHeader, view, NO_BODY_BYTES_MAX),
    }


def _item(figures: Figures) -> BrokerStatsItem:
    return BrokerStatsItem(sum=figures.sum, tps=figures.tps, avgpt=figures.average)


def _offset_form(request: Command) -> type[OffsetWrapper]:
    return OffsetWrapper5 if request.version >= V5_0_0 else OffsetWrapper


def _consume_stats(tps: float, table: LongBody) -> bytes:
    return table.within(encode_body(ConsumeStats(consume_tps=tps)), b'"offsetTable":{')


def _topics_named(header: GetConsumeStatsHeader) -> list[str]:
    several = dict.fromkeys(topic for topic in (header.topic_list or "").split(";") if topic)
    if several:
        return list(several)
    return [header.topic] if header.topic and header.topic.strip() else []


class ConsumeStatsHandlers:
    """Handlers of the progress of groups."""

    def __init__(
        self,
        progress: ConsumeProgress,
        topics: Topics,
        groups: Groups,
        offsets: ConsumerOffsets,
        stats: BrokerStats,
        address: str,
    ) -> None:
        self._progress, self._topics, self._groups, self._offsets = progress, topics, groups, offsets
        self._stats, self._address = stats, address

    async def of_group(self, header: GetConsumeStatsHeader, request: Command, connection: Connection) -> Reply:
        group, pace = header.consumer_group, Yielder()
        table, tps, form = LongBody(), 0.0, _offset_form(request)
        for topic in self._topics_asked_for(header):
            config = self._topics.find(topic)
            if config is None or not self._progress.consumes(group, topic):
                continue
            async for queues in self._progress.of(group, topic, config.read_queue_nums, pace, form):
                table.add(queues, _QUEUES)
            tps += self._stats.group_get_tps(group, topic)
        return Reply(body=_consume_stats(tps, table))

    def of_group_bytes(self, header: GetConsumeStatsHeader) -> int:
        """Return how much memory the answer of `of_group` takes; an upper bound if counting would take long."""
        asked = _topics_named(header) or self._offsets.topics_of(header.consumer_group)
        if len(asked) > COUNTED_TOPICS_MAX:
            return LONGEST_BYTES
        found = filter(None, map(self._topics.find, asked))
        return min(ENTRY_BYTES * sum(topic.read_queue_nums for topic in found), LONGEST_BYTES)

    def _topics_asked_for(self, header: GetConsumeStatsHeader) -> list[str]:
        return _topics_named(header) or sorted(self._offsets.topics_of(header.consumer_group))

    async def of_all_groups(
        self, header: GetBrokerConsumeStatsHeader, request: Command, connection: Connection
    ) -> Reply:
        """Return the progress of all groups. There is no paging: an answer longer than clients read is an error that
        names 208."""
        pace, groups, behind, form = Yielder(), LongBody(), 0, _offset_form(request)
        for group in self._groups.names():
            of_topics = LongBody()
            for topic in sorted(self._offsets.topics_of(group)):
                config = self._topics.find(topic)
                if config is None or (header.is_order and not config.order):
                    continue
                if not self._progress.consumes(group, topic):
                    continue
                table = LongBody()
                async for queues in self._progress.of(group, topic, config.write_queue_nums, pace, form):
                    behind += sum(queue.broker_offset - queue.consumer_offset for queue in queues.values())
                    table.add(queues, _QUEUES)
                of_topics.add_encoded(_consume_stats(self._stats.group_get_tps(group, topic), table))
            groups.add_encoded(b"{%b:[%b]}" % (encode_body(group), of_topics.joined()))
        total = ConsumeStatsList(broker_addr=self._address, total_diff=behind)
        empty = encode_body(consume_stats_of_5(total) if request.version >= V5_0_0 else total)
        return Reply(body=groups.within(empty, b'"consumeStatsList":['))
