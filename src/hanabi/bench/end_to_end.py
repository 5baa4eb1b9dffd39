"""Measurement of end-to-end latency from `send` to a listener, with a check that each message comes once.

Producer and consumer are in this process, so there is one clock. Messages have a tag of this measurement, which brokers
filter by: what else is in the topic does not come.
"""

import asyncio
import os
import secrets
from collections.abc import Callable
from typing import Final

import msgspec

from hanabi.aio import Producer, PushConsumer
from hanabi.bench.consume import AT_ONCE
from hanabi.bench.journeys import Journeys
from hanabi.bench.meter import Meter
from hanabi.bench.produce import GROUP, SETTINGS
from hanabi.bench.results import Ended, EndToEnd, flow_of, times_of
from hanabi.bench.run import Cpu, OnSecond, clock, reporting, run_workers, wait_for_first
from hanabi.bench.send_schedule import Limits, SendSchedule
from hanabi.client.config import ClientConfig
from hanabi.errors import ConfigError, InvalidMessage, MQError
from hanabi.message import Message, StoredMessage

NUMBER: Final = "BENCH_NUMBER"
WARM_UP_SECONDS: Final = 15.0  # for a message to each queue, before anything is measured


class Trip(msgspec.Struct, frozen=True, kw_only=True):
    """The messages to send, their rate, and how long the last ones are waited for."""

    topic: str
    group: str
    limits: Limits
    size: int = 1024
    concurrency: int = 64
    wait_seconds: float = 5.0

    def __post_init__(self) -> None:
        if self.limits.rate is None:
            raise ConfigError("rate: say how many messages a second")


async def end_to_end(
    config: ClientConfig, trip: Trip, stop: asyncio.Event, on_second: OnSecond, *, topic_created: bool = False
) -> EndToEnd:
    """Send at the rate of *trip* and wait for everything to come."""
    tag, listening = f"bench_{secrets.token_hex(4)}", _Listening()
    consumer = PushConsumer(trip.group, config=config, consume_from="last", consume_batch=AT_ONCE)
    consumer.subscribe(trip.topic, tag)
    consumer.listener(listening.arrived)
    async with Producer(GROUP, config=config, settings=SETTINGS) as producer, consumer:
        sending = _Sending(producer, trip.topic, tag, os.urandom(trip.size), listening.journeys)
        await _warm_up(sending, listening, stop)
        began, cpu = clock(), Cpu()
        listening.meter, sending.meter = Meter("received", began), Meter("acknowledged", began)
        pace = SendSchedule(trip.limits, began, size=trip.size)
        async with reporting(listening.meter, on_second):
            await run_workers(pace, trip.concurrency, stop, sending.send)
            seconds = clock() - began
            await listening.until(lambda: not listening.journeys.missing, stop, trip.wait_seconds)
        cpu_share = cpu.share
    sent, journeys = sending.meter, listening.journeys
    return EndToEnd(
        topic=trip.topic,
        topic_created=topic_created,
        group=trip.group,
        group_removed=False,
        ended=Ended.INTERRUPTED if stop.is_set() or pace.ended is None else pace.ended,
        rate=trip.limits.rate or 0.0,
        sent=flow_of(sent.messages, sent.body_bytes, seconds),
        received=journeys.received,
        lost=0 if stop.is_set() else journeys.missing,  # a stopped run does not wait: messages in flight are not lost
        duplicated=journeys.duplicated,
        latency=times_of(listening.meter.times),
        send_latency=times_of(sent.times),
        failed=sent.failed,
        failures=sent.failures,
        client_cpu=cpu_share,
    )


class _Listening:
    """Arrivals. Numbers below 0 are those of the warm-up."""

    def __init__(self) -> None:
        self.journeys, self.meter = Journeys(), Meter("received", clock())
        self.warm: set[int] = set()
        self._came = asyncio.Event()

    async def arrived(self, messages: list[StoredMessage]) -> None:
        now = clock()
        for message in messages:
            number = int(message.properties[NUMBER])
            if number < 0:
                self.warm.add(number)
            elif self.journeys.arrived(number):
                self.meter.add(now, now - self.journeys.begun[number], 1, len(message.body))
        self._came.set()

    async def until(self, true: Callable[[], bool], stop: asyncio.Event, seconds: float) -> None:
        """Wait until *true*, which is checked whenever messages came; or *stop*, or the end of so many *seconds*."""
        ends = clock() + seconds
        while not true() and not stop.is_set() and (left := ends - clock()) > 0:
            self._came.clear()
            await wait_for_first(self._came, stop, seconds=left)


class _Sending:
    """Sends messages with numbers."""

    def __init__(self, producer: Producer, topic: str, tag: str, body: bytes, journeys: Journeys) -> None:
        self.producer, self.topic = producer, topic
        self.meter = Meter("acknowledged", clock())
        self._tag, self._body, self._journeys = tag, body, journeys

    def numbered(self, number: int) -> Message:
        return Message(self.topic, self._body, tags=self._tag, properties={NUMBER: str(number)})

    async def send(self, begin: float, _: int) -> None:
        number = self._journeys.begin(begin)
        try:
            await self.producer.send(self.numbered(number))
        except (ConfigError, InvalidMessage):
            raise
        except MQError as error:
            self.meter.fail(error, 1)
            return
        now = clock()
        self._journeys.acknowledged(number)
        self.meter.add(now, now - begin, 1, len(self._body))


async def _warm_up(sending: _Sending, listening: _Listening, stop: asyncio.Event) -> None:
    """Send a message to each queue and wait for it, so that connections and the consumer are ready."""
    queues = await sending.producer.queues(sending.topic)
    numbers = {-number: queue for number, queue in enumerate(queues, start=1)}
    for number, queue in numbers.items():
        await sending.producer.send(sending.numbered(number), queue=queue)
    await listening.until(lambda: listening.warm == numbers.keys(), stop, WARM_UP_SECONDS)
    if listening.warm != numbers.keys() and not stop.is_set():
        raise MQError(
            f"of {len(numbers)} messages, one to each queue of topic {sending.topic}, {len(listening.warm)} came within"
            f" {WARM_UP_SECONDS:g} s: nothing was measured"
        )
