"""After a power cut with ASYNC_FLUSH no offset stands behind the end of its queue, so no new message is passed over."""

import json
from pathlib import Path
from typing import Final

from tests.faults.broker_process import broker_process
from tests.faults.exchange import GROUP, TOPIC, Exchange, talk, wait_for
from tests.faults.power_cut import Recording

# The log is flushed at the start and then not for ten minutes, unless something asks for it.
LAZY_LOG: Final = {
    "flushDiskType": "ASYNC_FLUSH",
    "flushIntervalCommitLog": 600_000,
    "flushCommitLogTimed": "true",
    "flushConsumerOffsetInterval": 100,
    "flushDelayOffsetInterval": 100,
    "messageDelayLevel": "1s",
    "timerWheelEnable": "true",
}
COUNT: Final = 30
NEW: Final = [b"new %d" % number for number in range(10)]


def saved_offset(store: Path, group: str = GROUP, topic: str = TOPIC) -> int:
    path = store / "config" / "consumerOffset.json"
    table = json.loads(path.read_text().replace("0:", '"0":')) if path.exists() else {"offsetTable": {}}
    return int(table["offsetTable"].get(f"{topic}@{group}", {}).get("0", -1))


def test_a_saved_offset_of_a_group_lies_within_the_log_that_survives(recording: Recording, tmp_path: Path) -> None:
    store, image = tmp_path / "store", tmp_path / "image"

    async def send_and_commit(client: Exchange) -> None:
        await client.send_all([b"%d" % number for number in range(COUNT)])
        await client.commit(COUNT)

    async def consume_new(client: Exchange) -> list[bytes]:
        assert await client.end() >= COUNT
        await client.send_all(NEW)
        return await client.bodies(since=await client.committed())

    with broker_process(store, LAZY_LOG, env=recording.environment) as broker:
        talk(broker.port, send_and_commit)
        wait_for(lambda: saved_offset(store) == COUNT, "the offset is saved")
    recording.image(image)
    assert saved_offset(image) == COUNT
    with broker_process(image, LAZY_LOG) as broker:
        assert talk(broker.port, consume_new) == NEW
