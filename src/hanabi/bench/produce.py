"""Measurement of sending: many sends at once, or at a rate, and the latency of each."""

import asyncio
import os
from collections import Counter
from typing import Final

import msgspec

from hanabi.aio import Producer
from hanabi.bench.meter import Meter
from hanabi.bench.results import Ended, Produced, flow_of, times_of
from hanabi.bench.run import Cpu, OnSecond, clock, reporting, run_workers
from hanabi.bench.send_schedule import Limits, SendSchedule
from hanabi.client.config import ClientConfig
from hanabi.client.producer.config import ProducerConfig
from hanabi.errors import ConfigError, InvalidMessage, MQError
from hanabi.message import Message

GROUP: Final = "hanabi_bench"
RECORD_BYTES: Final = 256  # what a message of a batch has beside its body, generously

# A try that fails is a failure here, and bytes are sent as they are.
SETTINGS: Final = ProducerConfig(retries=0, compress_over_bytes=1 << 30)


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The messages to send. `batch` is the number of messages in one request."""

    topic: str
    limits: Limits
    size: int = 1024
    concurrency: int = 64
    batch: int = 1

    def __post_init__(self) -> None:
        if self.batch > 1 and self.batch * (self.size + RECORD_BYTES) > SETTINGS.batch_bytes_max:
            raise ConfigError(
                f"--batch {self.batch} of {self.size} bytes each is more than one request carries"
                f" ({SETTINGS.batch_bytes_max} bytes)"
            )


async def produce(
    config: ClientConfig, load: Load, stop: asyncio.Event, on_second: OnSecond, *, topic_created: bool = False
) -> Produced:
    """Send until the limits of *load* are reached, or *stop*."""
    body = os.urandom(load.size)
    statuses: Counter[str] = Counter()
    async with Producer(GROUP, config=config, settings=SETTINGS) as producer:
        await producer.queues(load.topic)  # the question where to send is no send
        began, cpu = clock(), Cpu()
        meter = Meter("sent", began)
        pace = SendSchedule(load.limits, began, size=load.size, per_turn=load.batch)

        async def send(begin: float, count: int) -> None:
            try:
                if load.batch > 1:
                    results = await producer.send_batch([Message(load.topic, body) for _ in range(count)])
                    statuses[results[0].status.value] += count
                else:
                    result = await producer.send(Message(load.topic, body))
                    statuses[result.status.value] += 1
            except (ConfigError, InvalidMessage):
                raise
            except MQError as error:
                meter.fail(error, count)
                return
            now = clock()
            meter.add(now, now - begin, count, count * load.size)

        async with reporting(meter, on_second):
            await run_workers(pace, load.concurrency, stop, send)
        seconds = clock() - began
        cpu_share = cpu.share
    return Produced(
        topic=load.topic,
        topic_created=topic_created,
        ended=pace.ended or Ended.INTERRUPTED,
        sent=flow_of(meter.messages, meter.body_bytes, seconds),
        latency=times_of(meter.times),
        statuses=dict(statuses),
        failed=meter.failed,
        failures=meter.failures,
        client_cpu=cpu_share,
    )
