"""After a power cut with ASYNC_FLUSH no offset stands behind the end of its queue, so no new message is passed over."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from hanabi.testing.waiting import wait_until
from hanabi.wire.codes import ResponseCode
from hanabi.wire.message import sysflag
from hanabi.wire.system_names import HALF_TOPIC, TRANSACTION_GROUP
from tests.faults.broker_process import broker_process
from tests.faults.exchange import GROUP, TOPIC, Exchange, talk
from tests.faults.power_cut import Recording
from tests.faults.shim import Faults

# The log is flushed at the start and then not for ten minutes, unless something asks for it.
LAZY_LOG: Final = {
    "flushDiskType": "ASYNC_FLUSH",
    "flushIntervalCommitLog": 600_000,
    "flushCommitLogTimed": "true",
    "flushConsumerOffsetInterval": 100,
    "flushDelayOffsetInterval": 600_000,
    "waitTimeMillsInSendQueue": 60_000,  # no send is refused on a busy machine
}
OLD: Final = [b"old %d" % number for number in range(30)]
NEW: Final = [b"new %d" % number for number in range(10)]


def saved_offset(store: Path, group: str = GROUP, topic: str = TOPIC) -> int:
    path = store / "config" / "consumerOffset.json"
    table = json.loads(path.read_text().replace("0:", '"0":')) if path.exists() else {"offsetTable": {}}
    return int(table["offsetTable"].get(f"{topic}@{group}", {}).get("0", -1))


def wait_saved(recording: Recording, store: Path, offset: int, group: str = GROUP, topic: str = TOPIC) -> None:
    """Wait until the file has *offset*, and a power cut would leave it so."""
    file = store / "config" / "consumerOffset.json"
    wait_until(lambda: saved_offset(store, group, topic) == offset and recording.is_durable(file), f"{offset} is saved")


async def send(client: Exchange) -> None:
    await client.send_all(OLD)


async def send_and_commit(client: Exchange) -> None:
    await send(client)
    await client.commit(len(OLD))


async def consume_new(client: Exchange) -> list[bytes]:
    """Send new messages; return what the group gets that goes on where it was."""
    await client.send_all(NEW)
    return await client.bodies(since=await client.committed())


def test_a_saved_offset_of_a_group_lies_within_the_log_that_survives(recording: Recording, tmp_path: Path) -> None:
    store, image = tmp_path / "store", tmp_path / "image"
    with broker_process(store, LAZY_LOG, env=recording.environment) as broker:
        talk(broker.port, send_and_commit)
        wait_saved(recording, store, len(OLD))
    recording.image(image)
    assert saved_offset(image) == len(OLD)
    with broker_process(image, LAZY_LOG) as broker:
        assert talk(broker.port, lambda client: client.end()) == len(OLD)
        assert talk(broker.port, consume_new) == NEW
        assert "lay behind the end" not in broker.process.output()


def test_a_power_cut_before_the_sync_of_the_directory_leaves_the_offset_of_the_save_before(
    faults: Faults, recording: Recording, tmp_path: Path
) -> None:
    store, image = tmp_path / "store", tmp_path / "image"
    with broker_process(store, LAZY_LOG, env={**faults.environment, **recording.environment}) as broker:
        talk(broker.port, send)
        talk(broker.port, lambda client: client.commit(5))
        wait_saved(recording, store, 5)
        with faults.rule("fsync", path=str(store / "config"), delay_s=3600) as sync:
            talk(broker.port, lambda client: client.commit(len(OLD)))
            wait_until(lambda: saved_offset(store) == len(OLD), "the new file has its name")
            sync.wait_hit()
            broker.process.kill()
    recording.image(image)
    assert saved_offset(image) == 5
    with broker_process(image, LAZY_LOG) as broker:
        assert talk(broker.port, lambda client: client.end()) == len(OLD)
        assert talk(broker.port, consume_new) == OLD[5:] + NEW


def test_a_mapped_offset_that_outlived_its_messages_becomes_the_end_of_the_queue(
    recording: Recording, tmp_path: Path
) -> None:
    # The kernel may write the page of the newest offsets whenever it likes, so before the log.
    store, image = tmp_path / "store", tmp_path / "image"
    unsaved = {**LAZY_LOG, "flushConsumerOffsetInterval": 600_000}
    with broker_process(store, unsaved, env=recording.environment) as broker:
        talk(broker.port, send_and_commit)
    recording.image(image, survives=lambda path, page: path.name == "consumerOffset.marks")
    with broker_process(image, unsaved) as broker:
        assert talk(broker.port, lambda client: client.end()) == 0
        assert talk(broker.port, consume_new) == NEW
        assert f"TopicTest@Readers queue 0: {len(OLD)} became 0" in broker.process.output()
    with broker_process(image, unsaved) as broker:  # killed before the next save: the correction was saved
        assert talk(broker.port, lambda client: client.committed()) == 0


def test_what_check_back_has_dealt_with_lies_within_the_log_that_survives(recording: Recording, tmp_path: Path) -> None:
    store, image = tmp_path / "store", tmp_path / "image"
    settings = {**LAZY_LOG, "transactionCheckInterval": 100, "transactionTimeOut": 100}

    async def begin_and_roll_back(client: Exchange) -> None:
        for body in OLD:
            half = await client.send_half(body)
            answer = await client.end_transaction(half, sysflag.TRANSACTION_ROLLBACK)
            assert answer.code == ResponseCode.SUCCESS, answer

    with broker_process(store, settings, env=recording.environment) as broker:
        talk(broker.port, begin_and_roll_back)
        wait_saved(recording, store, len(OLD), TRANSACTION_GROUP, HALF_TOPIC)
    recording.image(image)
    assert saved_offset(image, TRANSACTION_GROUP, HALF_TOPIC) == len(OLD)
    with broker_process(image, settings) as broker:
        assert talk(broker.port, lambda client: client.end(topic=HALF_TOPIC)) >= len(OLD)


class Delay(NamedTuple):
    """A kind of delay: settings of the broker, properties of a message, and the file of what is delivered."""

    settings: dict[str, object]
    properties: dict[str, str]
    file: str
    counts_all: Callable[
        [str, int], bool
    ]  # whether this content counts all of OLD, up to this log offset, as delivered


DELAYS: Final = {
    "level": Delay(
        {"messageDelayLevel": "1s", "flushDelayOffsetInterval": 100},
        {"DELAY": "1"},
        "config/delayOffset.json",
        lambda content, last: f"1:{len(OLD)}" in content,
    ),
    "timer": Delay(
        {"timerWheelEnable": "true"},
        {"TIMER_DELAY_MS": "1000"},
        "timer/checkpoint.json",
        lambda content, last: int(json.loads(content)["logOffset"]) > last,
    ),
}


@pytest.mark.parametrize("kind", DELAYS)
def test_what_counts_as_delivered_lies_in_the_log_that_survives(
    recording: Recording, tmp_path: Path, kind: str
) -> None:
    store, image = tmp_path / "store", tmp_path / "image"
    delay = DELAYS[kind]
    settings, file = {**LAZY_LOG, **delay.settings}, store / delay.file

    def is_saved(last: int) -> bool:
        return file.exists() and delay.counts_all(file.read_text(), last) and recording.is_durable(file)

    with broker_process(store, settings, env=recording.environment) as broker:
        talk(broker.port, lambda client: client.send_all(OLD, delay.properties))
        wait_until(lambda: talk(broker.port, lambda client: client.end()) == len(OLD), "all is delivered")
        (delivered,) = talk(broker.port, lambda client: client.pull(len(OLD) - 1))
        wait_until(lambda: is_saved(delivered.log_offset), "that is saved")
    recording.image(image)
    with broker_process(image, settings) as broker:
        assert talk(broker.port, lambda client: client.bodies()) == OLD


async def next_offset(client: Exchange, offset: int) -> int:
    """Return where a consumer at *offset* is sent that lies behind the end of the queue."""
    answer = await client.ask_pull(offset)
    assert answer.code == ResponseCode.PULL_OFFSET_MOVED
    return int(answer.fields()["nextBeginOffset"])


@pytest.mark.parametrize("lane", ["", "1"])
def test_a_consumer_that_lived_through_the_power_cut_passes_over_no_new_message(
    recording: Recording, tmp_path: Path, lane: str
) -> None:
    # It stands behind the end of its queue, and messages come before it pulls again.
    store, image = tmp_path / "store", tmp_path / "image"
    kept = OLD[:5]

    async def keep_some(client: Exchange) -> None:
        await client.send_all(kept)
        await client.commit(len(kept))  # a save of offsets brings the log to the disk

    async def go_on(client: Exchange) -> list[bytes]:
        await client.commit(len(OLD))  # what it has consumed; its group stays where it is
        assert await client.committed() == len(kept)
        await client.send_all(NEW)
        return await client.bodies(since=await next_offset(client, len(OLD)))

    with broker_process(store, LAZY_LOG, env=recording.environment) as broker:
        talk(broker.port, keep_some)
        wait_saved(recording, store, len(kept))
        talk(broker.port, lambda client: client.send_all(OLD[5:]))
    recording.image(image)
    with broker_process(image, LAZY_LOG, env={"HANABI_PURE_PYTHON": lane}) as broker:
        assert talk(broker.port, lambda client: client.end()) == len(kept)
        assert talk(broker.port, go_on) == NEW


def test_after_a_clean_stop_a_consumer_behind_the_end_is_sent_to_the_end(tmp_path: Path) -> None:
    with broker_process(tmp_path / "store") as broker:
        talk(broker.port, send)
        broker.process.stop()
    with broker_process(tmp_path / "store") as broker:
        talk(broker.port, send)
        assert talk(broker.port, lambda client: next_offset(client, 1_000)) == 2 * len(OLD)
