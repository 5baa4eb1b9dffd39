"""Measurement of consuming: a push consumer whose listener only counts, and the age of messages on arrival."""

import asyncio
import time
from typing import Final, Literal

import msgspec

from hanabi.aio import PushConsumer
from hanabi.bench.meter import Meter
from hanabi.bench.results import Consumed, Ended, flow_of, times_of
from hanabi.bench.run import Cpu, OnSecond, clock, reporting, wait_for_first
from hanabi.bench.send_schedule import Limits
from hanabi.client.config import ClientConfig
from hanabi.message import StoredMessage

AT_ONCE: Final = 32  # messages that a listener gets: as many as a pull brings


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The topic to read, and the group to join. `start` counts where the group has no committed offset yet."""

    topic: str
    group: str
    limits: Limits
    start: Literal["first", "last"] = "last"


async def consume(config: ClientConfig, reading: Reading, stop: asyncio.Event, on_second: OnSecond) -> Consumed:
    """Consume until so many seconds are over, so many messages have come, or *stop*."""
    limits, enough = reading.limits, asyncio.Event()
    consumer = PushConsumer(reading.group, config=config, consume_from=reading.start, consume_batch=AT_ONCE)
    consumer.subscribe(reading.topic)
    began, cpu = clock(), Cpu()
    meter = Meter("received", began)

    @consumer.listener
    async def arrived(messages: list[StoredMessage]) -> None:
        now, now_ms = clock(), time.time() * 1000
        for message in messages:
            meter.add(now, (now_ms - message.born_timestamp_ms) / 1000, 1, len(message.body))
        if limits.count is not None and meter.messages >= limits.count:
            enough.set()

    async with consumer:
        async with reporting(meter, on_second):
            await wait_for_first(stop, enough, seconds=limits.seconds)
        ended = Ended.COUNT if enough.is_set() else Ended.INTERRUPTED if stop.is_set() else Ended.TIME
        cpu_share = cpu.share
    return Consumed(
        topic=reading.topic,
        group=reading.group,
        group_removed=False,
        ended=ended,
        received=flow_of(meter.messages, meter.body_bytes, meter.last - began),
        age=times_of(meter.times),
        client_cpu=cpu_share,
    )
