"""Asks brokers again and again where each queue begins and ends and how far each group has come, past the proxies."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from chaos.history import Position, Recorder
from chaos.traffic import Kind, group_of, topic_of
from chaos.world import ORDERLY_QUEUES, QUEUES
from hanabi.client.cluster.core import Core
from hanabi.client.config import ClientConfig
from hanabi.errors import MQError
from hanabi.message import MessageQueue

EVERY_S: Final = 0.5
ANSWER_S: Final = 1.0


async def observe(path: Path, namesrv: str, addresses: Mapping[str, str], kinds: Sequence[Kind]) -> None:
    """Until it is cancelled. A broker that does not answer is asked again later."""
    recorder = Recorder(path)
    core = await Core.acquire(ClientConfig(namesrv=namesrv))
    try:
        async with asyncio.TaskGroup() as tasks:
            for broker, address in addresses.items():
                tasks.create_task(_observe_broker(core, recorder, broker, address, kinds))
    finally:
        await core.release()
        recorder.close()


async def _observe_broker(core: Core, recorder: Recorder, broker: str, address: str, kinds: Sequence[Kind]) -> None:
    queues = [
        (kind, MessageQueue(topic_of(kind), broker, number))
        for kind in kinds
        for number in range(ORDERLY_QUEUES if kind is Kind.ORDERLY else QUEUES)
    ]
    while True:
        for kind, queue in queues:
            asked = time.monotonic()
            try:
                first = await core.api.get_min_offset(address, queue, timeout=ANSWER_S)
                last = await core.api.get_max_offset(address, queue, timeout=ANSWER_S)
                committed = await core.api.query_consumer_offset(
                    address, group_of(kind), queue, ANSWER_S, set_zero_if_not_found=False
                )
            except MQError:
                break
            recorder.write(
                Position(
                    at=time.monotonic(),
                    asked=asked,
                    group=group_of(kind),
                    topic=queue.topic,
                    broker=broker,
                    queue_id=queue.queue_id,
                    first=max(first, 0),
                    last=last,
                    committed=committed,
                )
            )
        await asyncio.sleep(EVERY_S)
