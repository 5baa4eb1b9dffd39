"""Run the client library for a long time, and fail if the process grows: python -m tests.soak.client --minutes 30

A producer and two groups of consumers stay all the time. Beside them clients come and go (`visitors`), and the servers,
which run in a process of their own with small files, are killed and started again. Between two rounds, when all
visitors have gone, memory, objects, descriptors, tasks and threads are read (`vitals`). At the end everything that was
acknowledged must have been consumed.
"""

import argparse
import asyncio
import contextlib
import logging
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

import hanabi.aio as aio
from hanabi.client.consumer.offsets.offset_store import DIRECTORY_VARIABLE
from hanabi.errors import MQError, SendFailed
from hanabi.message import Message, StoredMessage
from hanabi.remoting.loop import loop_factory
from hanabi.wire.message.hosts import decode_host, encode_host
from tests.faults.our_servers import OurServers
from tests.soak.ledger import Ledger
from tests.soak.visitors import GROUP, OTHER_TOPIC, TOPIC, VISITS, Visit
from tests.soak.vitals import Vitals, ends, growth, read

SEND_EVERY_S: Final = 0.1
REST_S: Final = 0.3  # for goodbyes that were begun by brokers' notices
BETWEEN_VISITS_S: Final = 0.05
DRAIN_S: Final = 60.0
FAILS_EVERY: Final = 50  # messages, of the group that fails now and then
SERVERS: Final = {"transactionCheckInterval": 1_000, "transactionTimeOut": 1_000, "messageDelayLevel": "1s 1s 1s 1s"}


class Soak:
    """One run. `readings` are of the moments between rounds, `errors` of visits and sends while servers were away."""

    def __init__(self, servers: OurServers, *, rounds: int, round_s: float, restart_every: int, rate: int) -> None:
        self._servers, self._rounds, self._round_s = servers, rounds, round_s
        self._restart_every, self._batch = restart_every, max(1, int(rate * SEND_EVERY_S))
        self.ledger = Ledger()
        self.readings: list[Vitals] = []
        self.errors: Counter[str] = Counter()
        self.visits = self.restarts = 0
        self._stopped = asyncio.Event()
        self._quiet = asyncio.Lock()  # held while messages are on their way to the servers

    async def run(self) -> None:
        began = time.monotonic()
        async with contextlib.AsyncExitStack() as stack:
            producer = await stack.enter_async_context(
                aio.Producer("SoakProducers", namesrv=self._servers.namesrv, send_timeout_s=10.0)
            )
            await self._first_messages(producer)
            for consumer in (self._counting(), self._failing()):
                await stack.enter_async_context(consumer)
            sending = asyncio.create_task(self._send(producer))
            while len(self.readings) < self._rounds:
                await self._round()
                await asyncio.sleep(REST_S)
                async with self._quiet:
                    self.readings.append(read())
                self._tell(began)
            self._stopped.set()
            await sending
            await self._drain()

    @staticmethod
    async def _first_messages(producer: aio.Producer) -> None:
        """Create the topics."""
        for topic in (TOPIC, OTHER_TOPIC):
            await producer.send(Message(topic, b"0"))

    # What stays

    def _counting(self) -> aio.PushConsumer:
        consumer = aio.PushConsumer(GROUP, namesrv=self._servers.namesrv, consume_from="first")
        consumer.subscribe(TOPIC)

        @consumer.listener
        async def count(messages: list[StoredMessage]) -> None:
            self._arrived(messages)

        return consumer

    def _failing(self) -> aio.PushConsumer:
        """Return its listener runs in threads and raises now and then, so that messages are sent back and come
        again."""
        consumer = aio.PushConsumer(
            "SoakFailing", namesrv=self._servers.namesrv, consume_from="first", concurrency=4, max_reconsume_times=2
        )
        consumer.subscribe(OTHER_TOPIC)
        seen = 0

        @consumer.listener
        def fail(messages: list[StoredMessage]) -> None:
            nonlocal seen
            seen += len(messages)
            if seen % FAILS_EVERY == 0:
                raise ValueError("now and then")

        return consumer

    def _arrived(self, messages: list[StoredMessage]) -> None:
        for message in messages:
            self.ledger.arrived(int(message.body))

    async def _send(self, producer: aio.Producer) -> None:
        while not self._stopped.is_set():
            numbers = [self.ledger.begin() for _ in range(self._batch)]
            messages = [Message(TOPIC, str(number).encode(), tags="t") for number in numbers]
            async with self._quiet:
                results = await producer.send_many(messages, return_exceptions=True)
            for number, result in zip(numbers, results, strict=True):
                if isinstance(result, SendFailed):
                    self.ledger.failed(number, maybe_stored=result.maybe_stored)
                elif isinstance(result, Exception):
                    raise result
                else:
                    self.ledger.stored()
            await asyncio.sleep(SEND_EVERY_S)

    # What comes and goes

    async def _round(self) -> None:
        number = len(self.readings) + 1
        ends_at = time.monotonic() + self._round_s
        async with asyncio.TaskGroup() as group:
            for visit in VISITS:
                group.create_task(self._visit_until(ends_at, visit))
            if number % self._restart_every == 0:
                group.create_task(self._restart())

    async def _visit_until(self, ends_at: float, visit: Visit) -> None:
        while time.monotonic() < ends_at:
            try:
                await visit(self._servers.namesrv, self._arrived)
            except MQError as error:
                self.errors[f"{visit.__name__}: {type(error).__name__}"] += 1
            self.visits += 1
            await asyncio.sleep(BETWEEN_VISITS_S)

    async def _restart(self) -> None:
        await asyncio.sleep(self._round_s / 3)
        await asyncio.to_thread(self._servers.process.kill)
        await asyncio.to_thread(self._servers.start_again)
        self.restarts += 1

    async def _drain(self) -> None:
        deadline = time.monotonic() + DRAIN_S
        while self.ledger.outstanding and time.monotonic() < deadline:  # noqa: ASYNC110 - consumers tell nobody
            await asyncio.sleep(0.05)

    # What is told

    def _tell(self, began: float) -> None:
        passed = time.monotonic() - began
        print(f"{passed:7.1f} s {self.readings[-1]} visits={self.visits} {self.ledger}", flush=True)  # noqa: T201

    def faults(self) -> list[str]:
        """Return what is wrong; nothing is good."""
        lost = [f"{len(self.ledger.outstanding)} acknowledged messages were not consumed"]
        return growth(self.readings) + (lost if self.ledger.outstanding else [])

    def summary(self) -> str:
        before, after = ends(self.readings)
        return (
            f"{len(self.readings)} rounds, {self.visits} visits, {self.restarts} kills of the servers; {self.ledger}\n"
            f"after the warm-up {before}\nat the end       {after}\n"
            f"errors of visits: {dict(self.errors) or 'none'}"
        )


def fill_caches() -> None:
    """Fill the memory of where messages came from, which has a limit: filled now, or it would look like a leak for
    hours."""
    for port in range(decode_host.cache_parameters()["maxsize"] or 0):
        decode_host(encode_host("192.0.2.1", port))


def soak(*, rounds: int, round_s: float, restart_every: int, rate: int) -> Soak:
    """Run it, with servers of its own, and return what came of it."""
    fill_caches()
    logger = logging.getLogger("hanabi")
    level_before = logger.level
    logger.setLevel(logging.ERROR)  # what fails on purpose would fill the disk
    with tempfile.TemporaryDirectory(prefix="hanabi-soak-") as home:
        before, os.environ[DIRECTORY_VARIABLE] = os.environ.get(DIRECTORY_VARIABLE), str(Path(home) / "offsets")
        servers = OurServers(Path(home) / "servers", SERVERS)
        try:
            servers.wait_ready()

            async def main() -> Soak:
                run = Soak(servers, rounds=rounds, round_s=round_s, restart_every=restart_every, rate=rate)
                await run.run()
                return run

            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                return runner.run(main())
        finally:
            servers.process.kill()
            logger.setLevel(level_before)
            del os.environ[DIRECTORY_VARIABLE]
            if before is not None:
                os.environ[DIRECTORY_VARIABLE] = before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--round", type=float, default=10.0, help="seconds between two readings")
    parser.add_argument("--restart-every", type=int, default=6, help="rounds between two kills of the servers")
    parser.add_argument("--rate", type=int, default=200, help="messages a second, about")
    options = parser.parse_args()
    run = soak(
        rounds=round(options.minutes * 60 / (options.round + REST_S)),
        round_s=options.round,
        restart_every=options.restart_every,
        rate=options.rate,
    )
    print(run.summary())  # noqa: T201
    if faults := run.faults():
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
