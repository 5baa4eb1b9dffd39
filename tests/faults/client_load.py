"""Messages that flow while something is killed: who sends them, and what is known of each."""

import asyncio
from typing import NamedTuple

from hanabi.client.producer.producer import Producer
from hanabi.errors import SendFailed
from hanabi.message import Message

SENDERS = 4
SEND_EVERY_S = 0.002
DEADLINE_S = 150.0


class Consumption(NamedTuple):
    """One message that a consumer got."""

    time: float
    consumer: str
    place: tuple[int, int]  # queue and offset
    message_id: str
    body: str


class Load:
    """Some senders, each one message after the other. `acknowledged` are the bodies that the broker said it has."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer, self._topic = producer, topic
        self._stopped = False
        self.acknowledged: list[str] = []
        self.refused: list[str] = []  # certainly not stored
        self.unknown: list[str] = []  # stored or not: the answer never came

    async def run(self) -> None:
        await asyncio.gather(*map(self._send, range(SENDERS)))

    async def _send(self, sender: int) -> None:
        number = 0
        while not self._stopped:
            number += 1
            body = f"{sender}-{number}"
            try:
                await self._producer.send(Message(self._topic, body.encode()))
                self.acknowledged.append(body)
            except SendFailed as error:
                (self.unknown if error.maybe_stored else self.refused).append(body)
                await asyncio.sleep(0.1)
            await asyncio.sleep(SEND_EVERY_S)

    def stop(self) -> None:
        self._stopped = True
