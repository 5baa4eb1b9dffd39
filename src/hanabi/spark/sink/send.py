"""Sending of rows: several batches in flight; rows with one ordering key go to one queue, one after another."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

from hanabi.client.producer.producer import Producer
from hanabi.client.producer.routing.selectors import by_hash
from hanabi.client.validation import check_message
from hanabi.errors import InvalidMessage, MQError, SendFailed, TopicNotExist, TransportError
from hanabi.message import MessageQueue
from hanabi.spark.broker.retrying import patiently
from hanabi.spark.sink.columns import SinkRow
from hanabi.spark.sink.options import SinkOptions
from hanabi.wire.system_names import RETRY_PREFIX


class BrokerAway(TransportError):
    """A temporary failure: brokers did not accept messages but may soon."""


class RowSender:
    """Sender of rows through one producer. Returns when brokers have stored all rows; raises the first failure.

    Waits for a broker that restarts. Messages that the broker may already have stored are sent again with the same
    stamps.
    """

    def __init__(self, producer: Producer, options: SinkOptions) -> None:
        self._producer, self._options = producer, options
        self._room = asyncio.Semaphore(options.batches_in_flight)
        self._known = {options.topic}  # topics that existed recently: worth waiting for

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
            raise _at([row], error) from error

    async def _batch(self, rows: Sequence[SinkRow], queue: MessageQueue | None = None) -> None:
        messages = [row.message for row in rows]
        await self._patiently(rows, lambda: self._producer.send_batch(messages, queue=queue))

    async def _in_order(self, queue: MessageQueue, rows: Sequence[SinkRow]) -> None:
        """Send *rows* one request after another. Delayed messages cannot be batched."""
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
        await self._patiently([row], lambda: self._producer.send(row.message, queue=queue))

    async def _patiently(self, rows: Sequence[SinkRow], send: Callable[[], Awaitable[object]]) -> None:
        topic = rows[0].message.topic

        async def attempt() -> None:
            try:
                await send()
            except MQError as error:
                if self._is_away(topic, error):
                    raise BrokerAway(str(error)) from error
                raise

        async with self._room:
            try:
                await patiently(attempt, self._options.retry_s)
            except MQError as error:
                raise _at(rows, error) from error
        self._known.add(topic)

    def _is_away(self, topic: str, error: MQError) -> bool:
        """Return whether waiting may help: a server is down, as opposed to an invalid message or topic."""
        last = error.attempts[-1].error if isinstance(error, SendFailed) and error.attempts else error
        if isinstance(last, SendFailed | TopicNotExist):  # no queue is writable, or no broker serves the topic
            return topic in self._known
        return isinstance(last, MQError) and last.retriable


def _at(rows: Sequence[SinkRow], error: MQError) -> MQError:
    """Return *error* with the number of the row that caused it; of a failed batch, the first row that fails alone."""
    row = next((each for each in rows if isinstance(error, InvalidMessage) and not _is_valid(each)), rows[0])
    return MQError(f"row {row.number}, topic {row.message.topic}: {error}")


def _is_valid(row: SinkRow) -> bool:
    try:
        check_message(row.message)
    except InvalidMessage:
        return False
    return True
