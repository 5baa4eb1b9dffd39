"""The normal client: sends, consumes, asks; and notes what was refused, lost or slow."""

import asyncio
import time
from contextlib import suppress
from typing import Final

import hanabi.aio
from hanabi.errors import MQError
from hanabi.message import Message, StoredMessage

TOPIC: Final = "FuzzWitness"
GROUP: Final = "fuzz_witness"
EVERY_S: Final = 0.05
LATE_S: Final = 30.0  # for the last ones to arrive
TIMEOUT_S: Final = 15.0


class Witness:
    """Runs until `stop`; then what it saw is in its attributes."""

    def __init__(self, namesrv: str) -> None:
        self._namesrv = namesrv
        self._sent: dict[int, float] = {}
        self._stopped = False
        self.refused: list[str] = []
        self.send_s: list[float] = []
        self.delivery_s: list[float] = []
        self._seen: set[int] = set()
        self._news = asyncio.Event()

    @property
    def missing(self) -> list[int]:
        return sorted(self._sent.keys() - self._seen)

    @property
    def sent(self) -> int:
        return len(self._sent)

    async def run(self) -> None:
        consumer = hanabi.aio.PushConsumer(GROUP, namesrv=self._namesrv, consume_from="first")
        consumer.subscribe(TOPIC)
        consumer.listener(self._got)
        async with hanabi.aio.Producer(GROUP, namesrv=self._namesrv, send_timeout_s=TIMEOUT_S) as producer:
            await producer.send(Message(TOPIC, b"0"))  # makes the topic
            async with consumer:
                await self._keep_sending(producer)
                with suppress(TimeoutError):
                    async with asyncio.timeout(LATE_S):
                        await self._everything_came()

    async def _everything_came(self) -> None:
        while self.missing:
            self._news.clear()
            await self._news.wait()

    def stop(self) -> None:
        self._stopped = True

    async def _keep_sending(self, producer: hanabi.aio.Producer) -> None:
        number = 0
        while not self._stopped:
            number += 1
            began = time.monotonic()
            try:
                await producer.send(Message(TOPIC, b"%d" % number, keys=[str(number)]))
            except MQError as error:
                self.refused.append(f"{number}: {type(error).__name__}: {error}")
            else:
                self._sent[number] = began
                self.send_s.append(time.monotonic() - began)
            await asyncio.sleep(EVERY_S)

    async def _got(self, messages: list[StoredMessage]) -> None:
        for message in messages:
            number = int(message.body)
            if number in self._seen:
                continue
            self._seen.add(number)
            self._news.set()
            if number in self._sent:
                self.delivery_s.append(time.monotonic() - self._sent[number])
