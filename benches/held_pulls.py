"""Cost of 10,000 consumers that wait for messages which do not come: polls of 15 s, asked again when they end."""

import asyncio
import contextlib
import tempfile
from pathlib import Path

import psutil

from benches.broker_servers import RunningBroker, broker, brokers_here
from benches.report import publish, table
from benches.servers import APACHE, OURS
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import decode_command, encode_request
from hanabi.wire.frame import FrameDecoder
from hanabi.wire.headers.pull import PullMessageHeader

PULLS = 10_000
HOLD_MS = 15_000
SUSPEND_AND_SUBSCRIBE = 2 | 4  # of a pull's sysFlag
HEAD = ("server", "connections", "held pulls", "CPU of one core", "memory (RSS), MB")


def main(*, quick: bool = False) -> None:
    names, missing = brokers_here()
    rows: list[list[str]] = []
    for name in [name for name in names if name in (OURS, APACHE)]:
        for connections in (100,) if quick else (100, 1_000):
            with tempfile.TemporaryDirectory() as folder, broker(name, Path(folder, "b")) as server:
                rows.append(asyncio.run(measure(server, connections, seconds=10 if quick else 40)))
    setting = f"{PULLS:,} pulls on one empty queue, each held for {HOLD_MS // 1000} s and asked again."
    publish("held_pulls", "Idle held pulls", setting, table(HEAD, rows), missing, quick=quick)


async def measure(server: RunningBroker, connections: int, *, seconds: int) -> list[str]:
    """Return one row: the CPU time of the server while all pulls wait, and its memory then."""
    waiting = [asyncio.create_task(_wait(server, PULLS // connections)) for _ in range(connections)]
    process = psutil.Process(server.pid)
    await asyncio.sleep(8)  # until all are there, and what that cost is over
    before = sum(process.cpu_times()[:2])
    await asyncio.sleep(seconds)
    share = (sum(process.cpu_times()[:2]) - before) / seconds
    memory_mb = process.memory_info().rss / 1e6
    for task in waiting:
        if task.done():
            task.result()  # a connection that was lost is a failed measurement
        task.cancel()
    await asyncio.wait(waiting)
    return [server.name, f"{connections:,}", f"{PULLS:,}", f"{share:.1%}", f"{memory_mb:.0f}"]


async def _wait(server: RunningBroker, pulls: int) -> None:
    reader, writer = await asyncio.open_connection(server.host, server.port)
    with contextlib.closing(writer):
        writer.write(b"".join(_pull(opaque) for opaque in range(pulls)))
        decoder = FrameDecoder()
        while data := await reader.read(1 << 16):
            answered = [decode_command(frame).opaque for frame in decoder.feed(data)]
            writer.write(b"".join(map(_pull, answered)))
        raise AssertionError(f"{server.name} closed a connection")


def _pull(opaque: int) -> bytes:
    header = PullMessageHeader(
        consumer_group="waiting",
        topic="TBW102",
        queue_id=0,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=SUSPEND_AND_SUBSCRIBE,
        commit_offset=0,
        suspend_timeout_millis=HOLD_MS,
        subscription="*",
        sub_version=0,
    )
    return encode_request(RequestCode.PULL_MESSAGE, opaque, header)


if __name__ == "__main__":
    main()
