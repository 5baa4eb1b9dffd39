"""Tests of what `mqadmin brokerStatus` prints."""

from pathlib import Path

import pytest

from hanabi.broker.handlers.admin.runtime import readable_bytes, runtime_handlers
from hanabi.remoting.connection.dispatch import Handler
from hanabi.testing.clock import START_MS
from hanabi.wire.bodies.route import KVTable
from hanabi.wire.codes import RequestCode
from tests.broker.handlers.admin.world import World, asking

# What Apache 4.9.8 answers, without the path in one key and the levels in another.
APACHE_KEYS = {
    "EndTransactionQueueSize", "EndTransactionThreadPoolQueueCapacity", "bootTimestamp", "brokerVersion",
    "brokerVersionDesc", "commitLogDirCapacity", "commitLogDiskRatio", "commitLogMaxOffset",
    "commitLogMinOffset", "consumeQueueDiskRatio", "dispatchBehindBytes", "dispatchMaxBuffer",
    "earliestMessageTimeStamp", "getFoundTps", "getMessageEntireTimeMax", "getMissTps", "getTotalTps",
    "getTransferedTps", "msgGetTotalTodayMorning", "msgGetTotalTodayNow", "msgGetTotalYesterdayMorning",
    "msgPutTotalTodayMorning", "msgPutTotalTodayNow", "msgPutTotalYesterdayMorning",
    "pageCacheLockTimeMills", "pullThreadPoolQueueCapacity", "pullThreadPoolQueueHeadWaitTimeMills",
    "pullThreadPoolQueueSize", "putLatency99", "putLatency999", "putMessageAverageSize",
    "putMessageDistributeTime", "putMessageEntireTimeMax", "putMessageFailedTimes", "putMessageSizeTotal",
    "putMessageTimesTotal", "putTps", "queryThreadPoolQueueCapacity",
    "queryThreadPoolQueueHeadWaitTimeMills", "queryThreadPoolQueueSize", "remainHowManyDataToFlush",
    "remainTransientStoreBufferNumbs", "runtime", "sendThreadPoolQueueCapacity",
    "sendThreadPoolQueueHeadWaitTimeMills", "sendThreadPoolQueueSize", "startAcceptSendRequestTimeStamp",
}  # fmt: skip


def handlers(world: World) -> dict[int, Handler]:
    return runtime_handlers(
        *(world.store, world.stats, world.settings, world.consumers),
        *(lambda: world.delay_offsets, lambda: 12, world.clock),
    )


async def test_every_key_of_apaches_is_there_with_the_truth(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        world.put(b"x" * 100)
        world.put(topic="SCHEDULE_TOPIC_XXXX", queue_id=2)
        world.stats.put_failed()
        world.clock.ms += 61_000
        table = (await admin.read(KVTable, RequestCode.GET_BROKER_RUNTIME_INFO)).table
        assert table.keys() >= APACHE_KEYS
        assert table["putMessageTimesTotal"] == "2"
        assert table["putMessageFailedTimes"] == "1"
        assert table["commitLogMaxOffset"] == str(world.store.max_log_offset)
        assert table["putMessageSizeTotal"] == table["commitLogMaxOffset"]
        assert table["earliestMessageTimeStamp"] == table["bootTimestamp"] == str(START_MS)
        assert table["runtime"] == "[ 0 days, 0 hours, 1 minutes, 1 seconds ]"
        assert table["scheduleMessageOffset_3"] == "5,1"
        assert table["sendThreadPoolQueueHeadWaitTimeMills"] == "12"
        assert (table["brokerVersion"], table["brokerVersionDesc"]) == ("409", "V4_9_8")
        assert 0 < float(table["commitLogDiskRatio"]) <= 1
        assert table["remainHowManyDataToFlush"].endswith(" B")
        assert table["commitLogDirCapacity"].startswith("Total : ")


async def test_an_empty_broker_has_figures_too(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (_, admin):
        table = (await admin.read(KVTable, RequestCode.GET_BROKER_RUNTIME_INFO)).table
        assert table["earliestMessageTimeStamp"] == "-1"
        assert table["putTps"] == "0.0 0.0 0.0"


async def test_groups_whose_members_subscribe_differently_are_named(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):

        async def told() -> str:
            table = (await admin.read(KVTable, RequestCode.GET_BROKER_RUNTIME_INFO)).table
            return table["groupsSubscribingDifferently"]

        for client_id in ("c1", "c2"):
            world.consumer("g", "T", client_id=client_id)
        assert await told() == "0"
        world.consumer("g", "U", client_id="c3")
        assert await told() == "1: g (1 of 3)"
        for number in range(20):
            for topic in ("T", "U"):
                world.consumer(f"h{number}", topic, client_id=topic)
        assert (await told()).startswith("21: g (1 of 3), h0 (1 of 2), ")
        assert (await told()).endswith("h8 (1 of 2), ...")


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (20 << 30, "20.0 GiB"), (5 << 60, "5.0 EiB")],
)
def test_bytes_are_told_as_java_tells_them(count: int, text: str) -> None:
    assert readable_bytes(count) == text
