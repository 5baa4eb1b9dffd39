"""Load on a pair, and the record of what was acknowledged."""

import asyncio
from collections import Counter
from typing import Final

import hanabi.aio
from chaos.pair.pair import TOPIC
from hanabi.client.send_result import SendStatus
from hanabi.errors import MQError
from hanabi.message import Message

SENDERS: Final = 8
PAUSE_S: Final = 0.002
AFTER_FAILURE_S: Final = 0.05


class Load:
    """Sends until it is stopped. `safe` has the bodies that were answered with SEND_OK, with queue and offset."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._number = 0
        self.is_stopped = False
        self.safe: dict[bytes, tuple[int, int]] = {}
        self.statuses: Counter[str] = Counter()

    async def run(self, namesrv: str) -> None:
        """Send messages of several sizes, one after the other in each of the senders; none is sent twice."""
        async with hanabi.aio.Producer(
            "pair_chaos",
            namesrv=namesrv,
            retries=0,
            send_timeout_s=4.0,
            route_refresh_s=1.0,
            compress_over_bytes=1 << 22,  # bodies are looked for in the log
        ) as producer:
            await asyncio.gather(*(self._send(producer) for _ in range(SENDERS)))

    async def _send(self, producer: hanabi.aio.Producer) -> None:
        while not self.is_stopped:
            self._number += 1
            head = f"{self._name}-{self._number};".encode()
            body = head + b"x" * (40, 1_000, 10, 20_000)[self._number % 4]
            try:
                result = await producer.send(Message(TOPIC, body))
            except MQError as error:
                self.statuses[type(error).__name__] += 1
                await asyncio.sleep(AFTER_FAILURE_S)
                continue
            self.statuses[result.status.name] += 1
            if result.status is SendStatus.SEND_OK:
                self.safe[head] = (result.queue.queue_id, result.queue_offset)
            await asyncio.sleep(PAUSE_S)
