"""Kill -9 a master, its slave, or both, while messages flow: both logs have what was acknowledged, and are equal."""

import random
import sys
import time
from pathlib import Path

import pytest

from tests.interop.processes import ServerProcess, free_port
from tests.replication.pair_process import FILE_BYTES, open_pair_store

WAIT_SECONDS = 60.0


class Pair:
    """Both processes, started again after each kill."""

    def __init__(self, home: Path) -> None:
        self.home, self.acked_file = home, home / "acked"
        self._port, self._starts = free_port(), 0
        self._running: dict[str, ServerProcess] = {}

    def start(self, role: str) -> None:
        self._starts += 1
        more = [str(self.acked_file)] if role == "master" else []
        module = [sys.executable, "-m", "tests.replication.pair_process"]
        command = [*module, role, str(self.home / role), str(self._port), *more]
        self._running[role] = ServerProcess(role, command, self.home / f"{role}-{self._starts}.log")

    def kill(self, *roles: str) -> None:
        for role in roles:
            self._running[role].kill()

    def acked(self) -> list[tuple[int, int]]:
        whole, _, _ = (self.acked_file.read_text() if self.acked_file.exists() else "").rpartition("\n")
        return [(int(offset), int(size)) for offset, _, size in (line.partition(" ") for line in whole.splitlines())]

    def wait_for_more(self, count: int) -> None:
        """Wait until *count* more messages are acknowledged."""
        wanted = len(self.acked()) + count
        deadline = time.monotonic() + WAIT_SECONDS
        while len(self.acked()) < wanted:
            assert time.monotonic() < deadline, [process.output()[-2000:] for process in self._running.values()]
            time.sleep(0.01)

    def log(self, role: str) -> tuple[int, bytearray]:
        """Return where the log of a store that was killed begins after its recovery, and its bytes."""
        store = open_pair_store(self.home / role)
        try:
            start, data = store.min_log_offset, bytearray()
            while (piece := store.read_log(start + len(data))) is not None and len(piece):
                data += piece
            return start, data
        finally:
            store.close()


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("rounds", [12, pytest.param(200, marks=pytest.mark.slow)])
def test_both_logs_have_every_acknowledged_message(tmp_path: Path, rounds: int) -> None:
    chance, pair = random.Random(rounds), Pair(tmp_path)
    pair.start("slave")
    pair.start("master")
    try:
        for _ in range(rounds):
            pair.wait_for_more(chance.randrange(1, 200))
            victims = chance.choice((("master",), ("slave",), ("master", "slave")))
            pair.kill(*victims)
            for role in chance.sample(victims, len(victims)):
                pair.start(role)
        pair.wait_for_more(1)
    finally:
        pair.kill("master", "slave")
    (start, ours), (copy_start, copy) = pair.log("master"), pair.log("slave")
    assert (start, copy_start) == (0, 0)
    acked = pair.acked()
    assert len(acked) > rounds
    assert len(ours) > FILE_BYTES
    both = min(len(ours), len(copy))
    assert ours[:both] == copy[:both]
    assert [place for place in acked if sum(place) > both] == []
