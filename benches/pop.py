"""POP over remoting: messages popped and acknowledged, by our broker and by Apache's 5.3.3, and the cost of held pops.

Each connection pops 32 messages of any queue, acknowledges each of them by a request of its own, and pops again. The
load is a Python program, which may be slower than a broker: the broker's CPU time for each message is the figure to
compare on a busy machine.
"""

import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil

from benches.broker_servers import APACHE_5, RunningBroker, broker, brokers_here
from benches.report import keep_figures, publish, table
from benches.servers import OURS
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command, decode_command, encode_request
from hanabi.wire.frame import FrameDecoder
from hanabi.wire.headers.send import SendMessageV2Header
from hanabi.wire.headers.topic import CreateTopicHeader
from hanabi.wire.headers.v5.pop import AckMessageHeader, PopMessageHeader, PopMessageReplyHeader
from hanabi.wire.receipts import Receipt, parse_message_offsets, parse_start_offsets

NAMED: Final = {"brokerName": "broker-a"}  # receipts carry it
TOPIC: Final = "Popped"
GROUP: Final = "popping"
QUEUES: Final = 16
BODY: Final = b"x" * 1024
AT_ONCE: Final = 32
CONNECTIONS: Final = 8
HELD: Final = 10_000
HELD_GROUPS: Final = 20  # a broker holds 1,024 pops of one group, topic and queue
HOLD_MS: Final = 15_000
HEAD: Final = ("server", "messages/s", "broker's CPU, us a message")
LATE_HEAD: Final = ("server", "late, median ms", "late, most ms")
HELD_HEAD: Final = ("server", "connections", "held pops", "CPU of one core", "memory (RSS), MB")


def main(*, quick: bool = False) -> None:
    names, missing = brokers_here(newest=True)
    chosen = [name for name in names if name in (OURS, APACHE_5)]
    count, rounds = (20_000, 1) if quick else (100_000, 3)
    rows: list[list[str]] = []
    figures: dict[str, object] = {}
    for _ in range(rounds):
        for name in chosen:
            with tempfile.TemporaryDirectory() as folder, broker(name, Path(folder, "b"), NAMED) as server:
                rate, cost = asyncio.run(throughput(server, count))
            rows.append([name, f"{rate:,.0f}", f"{cost:.1f}"])
            figures.setdefault(name, [])
            figures[name].append([rate, cost])  # type: ignore[attr-defined]
    held: list[list[str]] = []
    late: list[list[str]] = []
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder, broker(name, Path(folder, "b"), NAMED) as server:
            late.append(asyncio.run(expiry(server, 3 if quick else 20)))
        with tempfile.TemporaryDirectory() as folder, broker(name, Path(folder, "b"), NAMED) as server:
            held.append(asyncio.run(idle(server, seconds=10 if quick else 40)))
    setting = (
        f"{count:,} messages of 1 KiB in {QUEUES} queues, {CONNECTIONS} connections, {AT_ONCE} a pop, one"
        " acknowledgement a message; the first tenth is not counted."
    )
    keep_figures("pop", figures)
    tables = table(HEAD, rows), table(LATE_HEAD, late), table(HELD_HEAD, held)
    publish("pop", "POP over remoting", setting, *tables, missing, quick=quick)


class Peer:
    """One connection; requests may be pipelined."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer, self._decoder = reader, writer, FrameDecoder()

    @classmethod
    async def connect(cls, server: RunningBroker) -> "Peer":
        return cls(*await asyncio.open_connection(server.host, server.port))

    async def answers(self, count: int) -> list[Command]:
        """Return the next *count* answers."""
        found: list[Command] = []
        while len(found) < count:
            data = await self._reader.read(1 << 18)
            if not data:
                raise AssertionError("the broker closed a connection")
            found.extend(decode_command(frame) for frame in self._decoder.feed(data))
        return found


async def throughput(server: RunningBroker, count: int) -> tuple[float, float]:
    """Return messages a second, and microseconds of the broker's CPU for each."""
    await fill(server, count)
    peers = [await Peer.connect(server) for _ in range(CONNECTIONS)]
    progress = Progress(count)
    process = psutil.Process(server.pid)
    consuming = [asyncio.create_task(consume(peer, progress)) for peer in peers]
    await progress.warm.wait()
    began, cpu, before = time.perf_counter(), sum(process.cpu_times()[:2]), progress.done
    await asyncio.gather(*consuming)
    seconds, used = time.perf_counter() - began, sum(process.cpu_times()[:2]) - cpu
    for peer in peers:
        peer.writer.close()
    return (progress.done - before) / seconds, used / (progress.done - before) * 1e6


class Progress:
    """Messages that all connections have acknowledged. `warm` after the first tenth."""

    def __init__(self, wanted: int) -> None:
        self.wanted, self.done = wanted, 0
        self.warm = asyncio.Event()

    def add(self, count: int) -> None:
        self.done += count
        if self.done >= self.wanted // 10:
            self.warm.set()


async def consume(peer: Peer, progress: Progress) -> None:
    """Pop and acknowledge until all messages are done."""
    try:
        opaque = 0
        while progress.done < progress.wanted:
            opaque = await consume_some(peer, progress, opaque + 1)
    finally:
        progress.warm.set()  # a failure is reported, not waited for


async def consume_some(peer: Peer, progress: Progress, opaque: int) -> int:
    """Pop once, and acknowledge what came; return the last number of a request."""
    peer.writer.write(encode_request(RequestCode.POP_MESSAGE, opaque, pop_header(poll_ms=200)))
    (reply,) = await peer.answers(1)
    if reply.code:
        return opaque
    acks = list(acknowledgements(reply, opaque))
    peer.writer.write(b"".join(acks))
    for answer in await peer.answers(len(acks)):
        if answer.code:
            raise AssertionError(f"an acknowledgement is refused: {answer.code} {answer.remark}")
    progress.add(len(acks))
    return opaque + len(acks)


def pop_header(*, poll_ms: int, invisible_ms: int = 60_000, group: str = GROUP) -> PopMessageHeader:
    return PopMessageHeader(
        consumer_group=group,
        topic=TOPIC,
        queue_id=-1,
        max_msg_nums=AT_ONCE,
        invisible_time=invisible_ms,
        poll_time=poll_ms,
        born_time=int(time.time() * 1_000),
        init_mode=0,
        exp_type="TAG",
        exp="*",
    )


def acknowledgements(reply: Command, opaque: int) -> Iterator[bytes]:
    header = reply.header(PopMessageReplyHeader)
    starts = parse_start_offsets(header.start_offset_info)
    for (mark, queue_id), offsets in parse_message_offsets(header.msg_offset_info).items():
        start = starts[mark, queue_id]
        for offset in offsets:
            opaque += 1
            receipt = Receipt(
                *(start, header.pop_time, header.invisible_time, header.revive_qid, mark, "broker-a", queue_id, offset)
            )
            ack = AckMessageHeader(
                consumer_group=GROUP, topic=TOPIC, queue_id=queue_id, extra_info=receipt.encode(), offset=offset
            )
            yield encode_request(RequestCode.ACK_MESSAGE, opaque, ack)


async def expiry(server: RunningBroker, rounds: int) -> list[str]:
    """Return one row: how long after the end of its invisible time a message comes again, to a pop that waits."""
    late_ms: list[float] = []
    peer = await Peer.connect(server)
    await fill(server, 1)
    opaque, due_ms, invisible_ms = 0, 0, 1_000
    while len(late_ms) < rounds:
        opaque += 1
        header = pop_header(poll_ms=10_000, invisible_ms=invisible_ms)
        peer.writer.write(encode_request(RequestCode.POP_MESSAGE, opaque, header))
        (reply,) = await peer.answers(1)
        if reply.code:
            continue
        if due_ms:
            late_ms.append(time.time() * 1_000 - due_ms)
        due_ms = reply.header(PopMessageReplyHeader).pop_time + invisible_ms
    peer.writer.close()
    return [server.name, f"{statistics.median(late_ms):,.0f}", f"{max(late_ms):,.0f}"]


async def fill(server: RunningBroker, count: int) -> None:
    """Create the topic, and send *count* messages to its queues in turn."""
    peer = await Peer.connect(server)
    topic = CreateTopicHeader(
        topic=TOPIC,
        default_topic="TBW102",
        read_queue_nums=QUEUES,
        write_queue_nums=QUEUES,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        order=False,
    )
    peer.writer.write(encode_request(RequestCode.UPDATE_AND_CREATE_TOPIC, 1, topic))
    await peer.answers(1)
    at_once = 500
    for first in range(0, count, at_once):
        frames = [_send(number) for number in range(first, min(first + at_once, count))]
        peer.writer.write(b"".join(frames))
        for answer in await peer.answers(len(frames)):
            if answer.code:
                raise AssertionError(f"a message is refused: {answer.code} {answer.remark}")
    peer.writer.close()


def _send(number: int) -> bytes:
    header = SendMessageV2Header(
        producer_group="p",
        topic=TOPIC,
        default_topic="TBW102",
        default_topic_queue_nums=QUEUES,
        queue_id=number % QUEUES,
        sys_flag=0,
        born_timestamp=int(time.time() * 1_000),
        flag=0,
        properties=f"UNIQ_KEY\x01{number:032X}",
    )
    return encode_request(RequestCode.SEND_MESSAGE_V2, number, header, BODY)


async def idle(server: RunningBroker, *, seconds: int, connections: int = 100) -> list[str]:
    """Return one row: the CPU time of the server while all pops wait, and its memory then."""
    await fill(server, 0)
    groups = [f"{GROUP}{number % HELD_GROUPS}" for number in range(connections)]
    waiting = [asyncio.create_task(_hold(server, HELD // connections, group)) for group in groups]
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
    return [server.name, f"{connections:,}", f"{HELD:,}", f"{share:.1%}", f"{memory_mb:.0f}"]


async def _hold(server: RunningBroker, pops: int, group: str) -> None:
    peer = await Peer.connect(server)
    with contextlib.closing(peer.writer):
        peer.writer.write(b"".join(_held_pop(opaque, group) for opaque in range(pops)))
        while True:
            for answer in await peer.answers(1):
                if answer.code != ResponseCode.POLLING_TIMEOUT:
                    raise AssertionError(f"{server.name} does not hold a pop: {answer.code} {answer.remark}")
                peer.writer.write(_held_pop(answer.opaque, group))


def _held_pop(opaque: int, group: str) -> bytes:
    return encode_request(RequestCode.POP_MESSAGE, opaque, pop_header(poll_ms=HOLD_MS, group=group))


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
