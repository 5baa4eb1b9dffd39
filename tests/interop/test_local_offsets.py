"""The file of a broadcasting consumer's offsets: ours is read by Apache's own class, and what that writes by ours."""

import subprocess
from pathlib import Path

import pytest

from hanabi.client.consumer.offsets.offset_store import LocalOffsets
from hanabi.message import MessageQueue
from tests.interop.apache import QUICK_START, java, java_environment
from tests.interop.jars import ADMIN_4, ALL_5, JAVA, classpath

_SOURCE = JAVA / "judges" / "LocalOffsetsJudge.java"
_OFFSETS = {
    MessageQueue("Orders", "broker-a", 0): 0,
    MessageQueue("Orders", "broker-a", 11): 41,
    MessageQueue("Orders", "broker-b", 0): 1 << 40,
    MessageQueue("shop%Ünïcode", 'broker "\\b"', 7): 5,
}


@pytest.mark.parametrize("jar_set", [ADMIN_4, ALL_5])
async def test_apache_goes_on_with_our_file_and_we_with_apaches(
    apache_jars: None, tmp_path: Path, jar_set: str
) -> None:
    folder = tmp_path / ".rocketmq_offsets"
    ours = LocalOffsets("10.0.0.1@4711", "billing", directory=folder)
    for queue, offset in _OFFSETS.items():
        ours.update(queue, offset, increase_only=True)
    await ours.persist(_OFFSETS)

    said = _apache(tmp_path, jar_set, "10.0.0.1@4711", "billing")
    assert {queue: int(offset) for queue, offset in said.items()} == _OFFSETS

    again = LocalOffsets("10.0.0.1@4711", "billing", directory=folder)
    await again.load()
    assert {queue: again.memory(queue) for queue in _OFFSETS} == {
        queue: offset + 1 for queue, offset in _OFFSETS.items()
    }


def _apache(home: Path, jar_set: str, client_id: str, group: str) -> dict[MessageQueue, str]:
    """Return what Apache's store reads, before it adds one to each offset."""
    done = subprocess.run(
        java(home, classpath(jar_set), str(_SOURCE), client_id, group, jvm=(*QUICK_START, "-Dfile.encoding=UTF-8")),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        env=java_environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.removeprefix("= ").split("\t") for line in done.stdout.splitlines() if line.startswith("= ")]
    return {MessageQueue(topic, broker, int(number)): offset for topic, broker, number, offset in lines}
