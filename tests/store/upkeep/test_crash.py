"""A process that puts messages is killed at random moments: what it acknowledged is there, once and in order."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from hanabi.store.config import FlushMode
from hanabi.store.message_store import MessageStore
from tests.store.crash_child import QUEUES
from tests.store.stores import read_queue, small_config

pytestmark = pytest.mark.long

ROUNDS = 200
REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def killable() -> Iterator["subprocess.Popen[str]"]:
    """Yield the program that puts messages."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.store.crash_child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        cwd=REPOSITORY,
    )
    yield process
    process.communicate()
    assert process.returncode == 0


class Acknowledged:
    """Reports of the program, and how far we have seen that they are true."""

    def __init__(self) -> None:
        self.names: dict[tuple[int, int], str] = {}  # by queue and number
        self.checked = [0] * QUEUES

    def hear(self, line: str) -> None:
        _, queue_id, offset, name = line.split()
        place = int(queue_id), int(offset)
        assert self.names.setdefault(place, name) == name, f"{place} was acknowledged for another message"

    def check(self, store: MessageStore, *, from_the_beginning: bool = False) -> None:
        for queue_id in range(QUEUES):
            start = 0 if from_the_beginning else self.checked[queue_id]
            records = read_queue(store, queue_id=queue_id, start=start)
            names = [record.body.split()[0].decode() for record in records]
            assert [record.queue_offset for record in records] == list(range(start, start + len(records)))
            assert len(set(names)) == len(names)
            order = [tuple(map(int, name.split("-"))) for name in names]
            assert order == sorted(order)
            end = store.reader.max_offset("T", queue_id)
            for (queue, offset), name in self.names.items():
                if queue == queue_id and offset >= start:
                    assert offset < end, f"{name} was acknowledged as {queue}/{offset}, but the queue ends at {end}"
                    assert names[offset - start] == name
            for record, name in zip(records[-3:], names[-3:], strict=True):
                (found,) = store.queries.by_key("T", name, 8, 0, 2**62).records
                assert bytes(found) == record.encode()
            self.checked[queue_id] = end


def run_and_kill(process: "subprocess.Popen[str]", seed: int, root: Path, heard: Acknowledged) -> None:
    """Run one life of the program, ended after a random number of lines and a random while."""
    dice = random.Random(seed)
    commands, lines = pipes(process)
    commands.write(f"{seed} {root}\n")
    pid = int(lines.readline().split()[1])
    for _ in range(dice.choice((0, 0, 1, 2, 10, 100))):
        line = lines.readline()
        assert line != "dead\n", "the program ended by itself"
        if line.startswith("ack"):
            heard.hear(line)
    until = time.perf_counter() + dice.uniform(0, 0.003)
    while time.perf_counter() < until:
        pass
    os.kill(pid, signal.SIGKILL)
    while (line := lines.readline()) != "dead\n":
        if line.startswith("ack"):
            heard.hear(line)


def pipes(process: "subprocess.Popen[str]") -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def test_every_acknowledged_message_survives_200_kills(
    memory_directory: Path, killable: "subprocess.Popen[str]"
) -> None:
    root = memory_directory / "store"
    config = small_config(root, commit_log_segment_bytes=16_384, flush_mode=FlushMode.SYNC_FLUSH)
    heard = Acknowledged()
    crashes_seen = 0
    for seed in range(1, ROUNDS + 1):
        run_and_kill(killable, seed, root, heard)
        if seed % 3 == 0 or seed == ROUNDS:  # else the next one meets the crash itself, perhaps to die in recovery
            crashes_seen += (root / "abort").exists()
            store = MessageStore.open(config, disk_ratio=lambda _: 0.1)
            heard.check(store, from_the_beginning=seed == ROUNDS)
            store.close()
    assert crashes_seen > ROUNDS // 6
    assert len(heard.names) > 10 * ROUNDS
