"""Power cuts while messages flow, with SYNC_FLUSH: what was acknowledged is in each image that the cut may leave."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from hanabi.wire.codes import ResponseCode
from tests.faults.broker_process import broker_process
from tests.faults.exchange import TOPIC, Exchange, talk
from tests.faults.power_cut import PAGE_BYTES, Recording, Survives

SETTINGS: Final = {
    "flushDiskType": "SYNC_FLUSH",
    "mappedFileSizeCommitLog": 1 << 18,
    "flushConsumerOffsetInterval": 50,
    "flushIntervalConsumeQueue": 50,
    "flushConsumeQueueThoroughInterval": 200,
    "waitTimeMillsInSendQueue": 60_000,
}
AT_ONCE: Final = 16
SEEDS: Final = [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)]


def nothing(path: Path, page: int) -> bool:
    return False


def everything(path: Path, page: int) -> bool:
    return True


def by_chance(seed: int) -> Survives:
    """Half of the pages that were written without a sync, the same ones for a seed."""
    return lambda path, page: random.Random(f"{seed} {path} {page}").random() < 0.5


async def send_many(client: Exchange, dice: random.Random, count: int) -> dict[int, bytes]:
    """Send messages of many sizes, several at once; return the acknowledged ones by their queue offset."""
    acknowledged: dict[int, bytes] = {}
    numbers = iter(range(count))

    async def send() -> None:
        for number in numbers:
            body = b"%d:" % number + dice.randbytes(dice.choice((0, 10, 3000, 9000)))
            answer = await client.send(body, {"KEYS": f"k{number}", "zeros": "\0" * dice.choice((0, 600))})
            if answer.code == ResponseCode.SUCCESS:
                acknowledged[int(answer.fields()["queueOffset"])] = body
                if number % 10 == 0:
                    await client.commit(int(answer.fields()["queueOffset"]))

    await asyncio.gather(*(send() for _ in range(AT_ONCE)))
    return acknowledged


async def records(client: Exchange) -> tuple[dict[int, bytes], int]:
    """Return all messages by their queue offset, and the group's offset."""
    found: dict[int, bytes] = {}
    at, end = 0, await client.end()
    while at < end:
        pulled = await client.pull(at)
        assert pulled, f"nothing at {at} of {TOPIC}, which ends at {end}"
        found.update((record.queue_offset, record.body) for record in pulled)
        at = pulled[-1].queue_offset + 1
    return found, await client.committed()


def images(recording: Recording, folder: Path, seed: int) -> Iterator[Path]:
    for name, survives in {"nothing": nothing, "chance": by_chance(seed), "everything": everything}.items():
        recording.image(folder / name, survives=survives)
        yield folder / name
    recording.image(folder / "no sizes", sizes=False)
    yield folder / "no sizes"


@pytest.mark.parametrize("seed", SEEDS)
def test_with_sync_flush_what_was_acknowledged_is_in_every_image(
    recording: Recording, tmp_path: Path, seed: int
) -> None:
    with broker_process(tmp_path / "store", SETTINGS, env=recording.environment) as broker:
        acknowledged = talk(broker.port, lambda client: send_many(client, random.Random(seed), 400))
    assert len(acknowledged) > 300
    for image in images(recording, tmp_path, seed):
        with broker_process(image, SETTINGS) as broker:
            found, committed = talk(broker.port, records)
        assert {offset: found.get(offset) for offset in acknowledged} == acknowledged, image
        assert committed <= max(found) + 1


@pytest.mark.parametrize("seed", SEEDS)
def test_with_async_flush_a_power_cut_takes_the_newest_messages_and_leaves_no_gap_and_no_offset_behind_the_end(
    recording: Recording, tmp_path: Path, seed: int
) -> None:
    settings = {**SETTINGS, "flushDiskType": "ASYNC_FLUSH", "flushIntervalCommitLog": 200}
    with broker_process(tmp_path / "store", settings, env=recording.environment) as broker:
        acknowledged = talk(broker.port, lambda client: send_many(client, random.Random(seed), 400))
    assert len(acknowledged) > 300
    for image in images(recording, tmp_path, seed):
        with broker_process(image, settings) as broker:
            found, committed = talk(broker.port, records)
        assert found == {offset: acknowledged[offset] for offset in range(len(found))}, image
        assert committed <= max(found, default=-1) + 1


def test_with_async_flush_a_page_that_is_lost_within_a_message_ends_the_log(
    recording: Recording, tmp_path: Path
) -> None:
    # The kernel may have written every other page, so a whole message follows: it is given up, to leave no gap.
    lazy = {"flushIntervalCommitLog": 600_000, "flushConsumerOffsetInterval": 600_000, "flushCommitLogTimed": "true"}
    settings = {**SETTINGS, **lazy, "flushDiskType": "ASYNC_FLUSH"}
    sent = [random.Random(number).randbytes(9000) for number in range(10)]

    async def send(client: Exchange) -> int:
        await client.send_all(sent)
        return (await client.pull(5))[0].log_offset

    with broker_process(tmp_path / "store", settings, env=recording.environment) as broker:
        lost = talk(broker.port, send) // PAGE_BYTES + 1  # within the body of the message with offset 5
    image = tmp_path / "image"
    recording.image(image, survives=lambda path, page: path.parent.name != "commitlog" or page != lost)
    with broker_process(image, settings) as broker:
        found, _ = talk(broker.port, records)
    assert found == dict(enumerate(sent[:5]))
