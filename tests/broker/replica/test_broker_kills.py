"""Kill -9 whole brokers, a SYNC_MASTER with SYNC_FLUSH, its slave, or both, under load: both logs have every message
that a producer was told is stored, and are equal."""

import asyncio
import contextlib
import logging
import os
import random
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from hanabi.broker.config import parse_broker_config
from hanabi.store.message_store import MessageStore
from hanabi.wire.codes import ResponseCode
from hanabi.wire.message.message_id import decode_offset_id
from hanabi.wire.message.record import decode_record
from tests.broker.replica.masters import send
from tests.broker.talk import Peer
from tests.interop.ours import OurNameServer
from tests.interop.processes import ServerProcess, free_port

logger = logging.getLogger(__name__)

SENDERS: Final = 16
WAIT_SECONDS: Final = 120.0
FILE_BYTES: Final = 1 << 18
SETTINGS: Final = {
    "brokerName": "broker-a",
    "flushDiskType": "SYNC_FLUSH",
    "mappedFileSizeCommitLog": str(FILE_BYTES),
    "mappedFileSizeConsumeQueue": "20000",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    "diskMaxUsedSpaceRatio": "95",
    "slaveTimeout": "500",
    "haReconnectInterval": "100",
}
ROLES: Final = {
    "master": {"brokerRole": "SYNC_MASTER"},
    "slave": {"brokerRole": "SLAVE", "brokerId": "1"},
}


class Pair:
    """Both brokers, started again after each kill, and what was acknowledged: bodies by log offset."""

    def __init__(self, home: Path, namesrv: str, clocks: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """*clocks* has the variables that give each role a clock of its own."""
        self._home, self._namesrv, self._starts = home, namesrv, 0
        self._clocks = clocks or {}
        self.running: dict[str, ServerProcess] = {}
        self.ports = {role: free_port(beside=(-2, 1)) for role in ROLES}
        self.acked: dict[int, bytes] = {}
        self.refused: dict[int, int] = {}  # by code

    def start(self, role: str) -> None:
        self._starts += 1
        config = self._home / f"{role}.conf"
        config.write_text("".join(f"{key}={value}\n" for key, value in {**SETTINGS, **ROLES[role]}.items()))
        serve = [sys.executable, "-m", "hanabi", "serve", "broker", "-c", str(config), "--host", "127.0.0.1"]
        command = [*serve, "--home", str(self._home / role), "--port", str(self.ports[role]), "-n", self._namesrv]
        env = {**os.environ, **self._clocks.get(role, {})}
        self.running[role] = ServerProcess(role, command, self._home / f"{role}-{self._starts}.log", env)

    def kill(self, *roles: str) -> None:
        for role in roles:
            self.running[role].kill()

    async def wait_for_more(self, count: int) -> None:
        """Wait until *count* more messages are acknowledged."""
        wanted = len(self.acked) + count
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while len(self.acked) < wanted:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError([process.output()[-3_000:] for process in self.running.values()]) from None

    async def send(self, sender: int) -> None:
        """Send one message after the other to whatever master there is, until cancelled."""
        chance = random.Random(sender)
        while True:
            with contextlib.suppress(OSError, TimeoutError):
                peer = await Peer.connect(("127.0.0.1", self.ports["master"]))
                try:
                    while True:
                        await self._send_one(peer, chance.randbytes(chance.choice((1, 10, 1_000, 40_000))))
                finally:
                    await peer.close()
            await asyncio.sleep(0.01)

    async def _send_one(self, peer: Peer, body: bytes) -> None:
        async with asyncio.timeout(20):
            reply = await send(peer, body)
        if reply.code == ResponseCode.SUCCESS:
            self.acked[decode_offset_id(reply.fields()["msgId"]).log_offset] = body
        else:
            self.refused[reply.code] = self.refused.get(reply.code, 0) + 1
            await asyncio.sleep(0.05)  # or the log would fill with messages that no slave has

    def log(self, role: str) -> tuple[int, bytearray]:
        """Where the log of a store that was killed begins after its recovery, and its bytes."""
        _, config = parse_broker_config({**SETTINGS, "storePathRootDir": str(self._home / role)})
        with MessageStore.open(config, disk_ratio=lambda _: 0.1) as store:
            start, data = store.min_log_offset, bytearray()
            while piece := store.read_log(start + len(data)):
                data += piece
            return start, data


@contextlib.asynccontextmanager
async def under_load(pair: Pair) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(pair.send(sender)) for sender in range(SENDERS)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def kill_and_restart(pair: Pair, chance: random.Random, rounds: int) -> None:
    for _ in range(rounds):
        await pair.wait_for_more(chance.randrange(1, 200))
        victims = chance.choice((("master",), ("slave",), ("master", "slave")))
        pair.kill(*victims)
        for role in chance.sample(victims, len(victims)):
            pair.start(role)
        logger.info("killed %s after %d messages", " and ".join(victims), len(pair.acked))
    await pair.wait_for_more(1)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("rounds", [12, pytest.param(200, marks=pytest.mark.slow)])
async def test_both_logs_of_whole_brokers_have_every_acknowledged_message(tmp_path: Path, rounds: int) -> None:
    name_server = OurNameServer(tmp_path / "namesrv")
    await asyncio.to_thread(name_server.wait_ready)
    pair = Pair(tmp_path, name_server.address)
    pair.start("master")
    pair.start("slave")
    try:
        async with under_load(pair):
            await kill_and_restart(pair, random.Random(rounds), rounds)
    finally:
        pair.kill("master", "slave")
        name_server.process.kill()
    assert len(pair.acked) > rounds
    assert compared_logs(pair) > FILE_BYTES


def compared_logs(pair: Pair) -> int:
    """Check that both logs are equal as far as they go and have every acknowledged message; return where they end."""
    (start, ours), (copy_start, copy) = pair.log("master"), pair.log("slave")
    both = min(start + len(ours), copy_start + len(copy))
    first = max(start, copy_start)
    logger.info("%d acknowledged, other codes %s, both logs from %d to %d", len(pair.acked), pair.refused, first, both)
    assert ours[first - start : both - start] == copy[first - copy_start : both - copy_start]
    assert [offset for offset in pair.acked if not is_in(copy, copy_start, offset, pair.acked[offset])] == []
    assert [offset for offset in pair.acked if not is_in(ours, start, offset, pair.acked[offset])] == []
    return both


def is_in(log: bytearray, start: int, offset: int, body: bytes) -> bool:
    """Whether a log that begins at *start* has the message with *body* at *offset*."""
    at = offset - start
    size = int.from_bytes(log[at : at + 4], "big") if at >= 0 else 0
    return 0 < size <= len(log) - at and bytes(decode_record(memoryview(log)[at : at + size]).body) == body
