"""Deleting now what would be deleted later, or never."""

from pathlib import Path

from hanabi.broker.handlers.admin.cleaning import cleaning_handlers
from hanabi.broker.handlers.admin.support.queue_removal import QueueRemoval
from hanabi.remoting.connection.dispatch import Handler
from hanabi.wire.codes import RequestCode
from tests.broker.handlers.admin.world import World, asking
from tests.store.stores import SEGMENT_BYTES, bodies

OWN_TOPICS = (
    "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "rmq_sys_wheel_timer",
)


def handlers(world: World) -> dict[int, Handler]:
    return cleaning_handlers(world.store, QueueRemoval(world.store), world.topics, world.offsets, world.stats)


def fill_a_log_file(world: World, topic: str) -> None:
    for _ in range(8):
        world.put(b"x" * (SEGMENT_BYTES // 8), topic=topic)


async def test_queues_of_unknown_topics_go_and_those_of_the_broker_stay(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        world.topic("Known")
        for topic in ("Known", "Unknown", *OWN_TOPICS):
            world.put(topic=topic)
        await admin.ask(RequestCode.CLEAN_UNUSED_TOPIC)
        assert {topic for topic, _ in world.store.queues()} == {"Known", *OWN_TOPICS}
        assert world.stats.view("TOPIC_PUT_NUMS", "Unknown") is None
        assert bodies(world.store, "Known") == [b"x"]


async def test_old_log_files_go_when_asked_for_and_then_their_empty_queues(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        fill_a_log_file(world, "Old")
        for topic in OWN_TOPICS:
            world.put(topic=topic)
        world.offsets.commit("G", "Old", 0, 8)
        world.offsets.commit("G", "New", 0, 8)
        world.clock.ms += 80 * 3_600_000
        world.store.retention.run_round()
        assert world.store.min_log_offset == 0, "it is not the hour to delete"
        fill_a_log_file(world, "New")
        fill_a_log_file(world, "New")
        await admin.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
        assert {topic for topic, _ in world.store.queues()} == {"Old", "New", *OWN_TOPICS}
        world.clock.ms += 80 * 3_600_000
        await admin.ask(RequestCode.DELETE_EXPIRED_COMMITLOG)
        world.store.retention.run_round()  # what the store's thread does soon
        assert world.store.min_log_offset > 0
        await admin.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
        assert {topic for topic, _ in world.store.queues()} == {"New", *OWN_TOPICS}
        # The queue begins at 0 again, and what comes there is not passed over.
        assert (world.offsets.find("G", "Old", 0), world.offsets.find("G", "New", 0)) == (0, 8)
