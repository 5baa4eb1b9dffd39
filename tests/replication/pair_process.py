"""One half of a pair, in a process of its own, until it is killed. Stores flush each message (SYNC_FLUSH).

    python -m tests.replication.pair_process master ROOT PORT ACKED
    python -m tests.replication.pair_process slave ROOT PORT

The master puts messages and waits for its disk and its slave; it adds the log offset and the size of each message that
both have to the file ACKED, a line each.
"""

import asyncio
import os
import random
import sys
from pathlib import Path

from hanabi.remoting.loop import loop_factory
from hanabi.replication.config import ReplicationConfig
from hanabi.replication.log_access import StoreLog
from hanabi.replication.master import Master
from hanabi.replication.rules.put_rules import joint_status
from hanabi.replication.slave import Slave
from hanabi.store.config import FlushMode, StoreConfig
from hanabi.store.message_store import MessageStore, PutStatus
from tests.store.stores import message

HOST = "127.0.0.1"
FILE_BYTES = 1 << 18
CONFIG = ReplicationConfig(reconnect_interval_ms=50, slave_timeout_ms=500)
SENDERS = 16


def store_config(root: Path) -> StoreConfig:
    return StoreConfig(
        root=str(root),
        commit_log_segment_bytes=FILE_BYTES,
        consume_queue_segment_bytes=20_000,
        index_slots=1_000,
        index_entries=4_000,
        flush_mode=FlushMode.SYNC_FLUSH,
    )


def open_pair_store(root: Path) -> MessageStore:
    return MessageStore.open(store_config(root), disk_ratio=lambda _: 0.1)


async def run_master(root: Path, port: int, acked: Path) -> None:
    with open_pair_store(root) as store:
        master = Master(StoreLog(store), CONFIG, CONFIG.put_rule(is_sync=True))
        await master.start(HOST, port)
        descriptor = os.open(acked, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        await asyncio.gather(*(send(store, master, descriptor, sender) for sender in range(SENDERS)))


async def send(store: MessageStore, master: Master, descriptor: int, sender: int) -> None:
    """Put messages one after the other, for ever."""
    chance = random.Random(os.getpid() * SENDERS + sender)
    while True:
        while not master.slaves():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        body = chance.randbytes(chance.choice((1, 10, 1_000, 40_000)))
        result = store.put(message(body, queue_id=sender, properties={"KEYS": f"k{sender}"}))
        assert result.status is PutStatus.PUT_OK, result.reason
        master.appended()
        if await _status(store, master, result.end_offset) is PutStatus.PUT_OK:
            place = result.appended[0]
            os.write(descriptor, f"{place.log_offset} {place.size}\n".encode())


async def _status(store: MessageStore, master: Master, end_offset: int) -> PutStatus:
    loop = asyncio.get_running_loop()
    replicated: asyncio.Future[PutStatus] = loop.create_future()
    flushed: asyncio.Future[PutStatus] = loop.create_future()
    master.acks.wait(end_offset, replicated.set_result)

    def tell(status: PutStatus) -> None:
        loop.call_soon_threadsafe(flushed.set_result, status)

    store.await_flush(end_offset, tell)
    return joint_status(await flushed, await replicated)


async def run_slave(root: Path, port: int) -> None:
    with open_pair_store(root) as store:
        slave = Slave(StoreLog(store), CONFIG)
        slave.start()
        slave.follow(f"{HOST}:{port}")
        await asyncio.Event().wait()


def main(role: str, home: str, port: str, *rest: str) -> None:
    work = run_slave(Path(home), int(port)) if role == "slave" else run_master(Path(home), int(port), Path(*rest))
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(work)


if __name__ == "__main__":
    main(*sys.argv[1:])
