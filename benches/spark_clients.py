"""Plain programs on our client, with which Spark is compared on the same broker.

    python -m benches.spark_clients pull NAMESRV TOPIC COUNT

They run as processes of their own and print one line: messages and seconds.
"""

import asyncio
import os
import subprocess
import sys
import time
from dataclasses import dataclass

import hanabi
from benches.spark_data import BODY_BYTES
from hanabi.client.producer.producer import Producer
from hanabi.message import Message

BATCH, IN_FLIGHT = 128, 8  # as the sink's defaults


@dataclass(frozen=True)
class Told:
    """Result that a program printed."""

    messages: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.messages / self.seconds


def start(*words: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "benches.spark_clients", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def finish(process: "subprocess.Popen[str]") -> Told:
    output, _ = process.communicate()
    assert process.returncode == 0, output
    messages, seconds = output.split()
    return Told(int(messages), float(seconds))


def pull(namesrv: str, topic: str, count: int) -> Told:
    """Return a plain loop: pull, look at each message, until *count* were seen."""
    seen = body_bytes = 0
    with hanabi.PullConsumer("plain-loop", namesrv=namesrv) as consumer:
        began = time.perf_counter()
        for queue in consumer.queues_of(topic):
            offset, mine = 0, 0
            while mine < count // 4:
                found = consumer.pull(queue, offset, count=32)
                if not found.messages:
                    break
                for message in found.messages:
                    body_bytes += len(message.body)
                mine += len(found.messages)
                offset = found.next_offset
            seen += mine
        seconds = time.perf_counter() - began
    assert body_bytes == seen * BODY_BYTES
    return Told(seen, seconds)


async def send(namesrv: str, topic: str, count: int) -> Told:
    """Our client at its best: batches, several under way."""
    messages = [Message(topic, os.urandom(BODY_BYTES)) for _ in range(BATCH)]
    async with Producer("plain-send", namesrv=namesrv, send_timeout_s=30.0) as producer:
        await producer.send_batch(messages)
        room = asyncio.Semaphore(IN_FLIGHT)

        async def one() -> None:
            async with room:
                await producer.send_batch(messages)

        began = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(count // BATCH)))
        return Told(count // BATCH * BATCH, time.perf_counter() - began)


def main() -> None:
    kind, namesrv, topic, count = sys.argv[1:]
    told = pull(namesrv, topic, int(count)) if kind == "pull" else asyncio.run(send(namesrv, topic, int(count)))
    print(told.messages, told.seconds)


if __name__ == "__main__":
    main()
