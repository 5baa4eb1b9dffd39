"""Sending rows: several batches under way, those with one ordering key one after another to one queue."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Sequence

from hanabi.client.namespace import RETRY_PREFIX
from hanabi.client.producer import Producer
from hanabi.client.selectors import by_hash
from hanabi.errors import MQError
from hanabi.message import MessageQueue
from hanabi.spark.sink_columns import SinkRow
from hanabi.spark.sink_options import SinkOptions


class RowSender:
    """Sends rows through one producer. Returns when brokers have all of them; the first failure is raised."""

    def __init__(self, producer: Producer, options: SinkOptions) -> None:
        self._producer, self._options = producer, options
        self._room = asyncio.Semaphore(options.batches_in_flight)

    async def send(self, rows: Sequence[SinkRow]) -> None:
        tasks = [asyncio.ensure_future(work) for work in await self._work(rows)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _work(self, rows: Sequence[SinkRow]) -> list[Awaitable[None]]:
        plain: dict[str, list[SinkRow]] = defaultdict(list)
        ordered: dict[MessageQueue, list[SinkRow]] = defaultdict(list)
        alone: list[SinkRow] = []
        for row in rows:
            if row.ordering_key is not None:
                ordered[await self._queue_of(row, row.ordering_key)].append(row)
            elif row.is_delayed or row.message.topic.startswith(RETRY_PREFIX):
                alone.append(row)
            else:
                plain[row.message.topic].append(row)
        size = self._options.batch_messages
        return [
            *(self._batch(each[at : at + size]) for each in plain.values() for at in range(0, len(each), size)),
            *(self._in_order(queue, each) for queue, each in ordered.items()),
            *(self._one(row) for row in alone),
        ]

    async def _queue_of(self, row: SinkRow, key: str | int) -> MessageQueue:
        try:
            return by_hash(await self._producer.queues(row.message.topic), row.message, key)
        except MQError as error:
            raise _at(row, error) from error

    async def _batch(self, rows: Sequence[SinkRow], queue: MessageQueue | None = None) -> None:
        async with self._room:
            try:
                await self._producer.send_batch([row.message for row in rows], queue=queue)
            except MQError as error:
                raise _at(rows[0], error) from error

    async def _in_order(self, queue: MessageQueue, rows: Sequence[SinkRow]) -> None:
        """One request after another. What is delayed cannot be part of a batch."""
        size, run = self._options.batch_messages, list[SinkRow]()
        for row in rows:
            if row.is_delayed or len(run) == size:
                if run:
                    await self._batch(run, queue)
                run = []
            if row.is_delayed:
                await self._one(row, queue)
            else:
                run.append(row)
        if run:
            await self._batch(run, queue)

    async def _one(self, row: SinkRow, queue: MessageQueue | None = None) -> None:
        async with self._room:
            try:
                await self._producer.send(row.message, queue=queue)
            except MQError as error:
                raise _at(row, error) from error


def _at(row: SinkRow, error: MQError) -> MQError:
    return MQError(f"row {row.number}, topic {row.message.topic}: {error}")
