"""Half messages while the process can open no file: they are asked about later, and none is forgotten."""

import logging

import pytest

from hanabi.errors import StoreError
from hanabi.wire.system_names import HALF_TOPIC, OP_HALF_TOPIC
from tests.broker.transactions.world import COMMIT, World
from tests.store.open_files import no_free_descriptors


def close_queue_files(world: World) -> None:
    world.store.flush()
    world.store._queues.descriptors.close()


def test_half_messages_are_asked_about_when_their_queue_can_be_read_again(world: World) -> None:
    for number in range(12):  # more than one file of the queue
        world.send(b"%d" % number, key=f"K{number}")
    close_queue_files(world)
    with no_free_descriptors(), pytest.raises(StoreError, match="Too many open files"):
        world.check(after_ms=6_000)
    assert world.offset(HALF_TOPIC) <= 0
    assert [question.record.body for question in world.check(after_ms=0)] == [b"%d" % number for number in range(12)]


def test_op_messages_that_cannot_be_read_are_read_later(world: World) -> None:
    half = world.send()
    world.end(half, COMMIT)
    world.restart()
    close_queue_files(world)
    with no_free_descriptors(), pytest.raises(StoreError, match="Too many open files"):
        world.check(after_ms=6_000)
    assert world.offset(OP_HALF_TOPIC) <= 0
    assert world.check(after_ms=0) == []
    assert world.offset(OP_HALF_TOPIC) == 1


async def test_a_round_that_fails_for_the_system_is_one_line_in_the_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.send()
    close_queue_files(world)
    world.clock.ms += 6_000

    async def main() -> None:
        with no_free_descriptors():
            await world.transactions._in_pieces(world.transactions.check())

    with caplog.at_level(logging.ERROR):
        await main()
    (record,) = caplog.records
    assert "Too many open files" in record.getMessage()
    assert record.exc_info is None
