"""Driver's requests to a cluster: its queues, their first and end offsets, and offsets by timestamp."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar

from hanabi.client.blocking.loop_thread import LoopThread
from hanabi.client.cluster.api import PullReply
from hanabi.client.cluster.core import Core
from hanabi.client.cluster.queue_access import QueueAccess
from hanabi.client.consumer.offsets.commit_order import commit_rounds
from hanabi.client.consumer.subscription import ALL, Expression, subscription_data
from hanabi.errors import ConfigError, ConnectError, MQError, TopicNotExist
from hanabi.message import MessageQueue
from hanabi.spark.broker.options import ReadOptions
from hanabi.spark.broker.retrying import patiently
from hanabi.spark.broker.time_search import first_not_older
from hanabi.spark.shared.bounds import Bound
from hanabi.spark.shared.offsets import Offsets, describe
from hanabi.spark.shared.queue_marks import Mark, Marks
from hanabi.wire.codes import ResponseCode
from hanabi.wire.message.record import decode_dispatch

T = TypeVar("T")
A = TypeVar("A")

AT_ONCE: Final = 64  # requests in flight


class Cluster:
    """Client for requests to one cluster. Unreachable servers are retried for *patience_s*."""

    def __init__(self, core: Core, options: ReadOptions, patience_s: float) -> None:
        self._core, self._options, self._patience_s = core, options, patience_s
        self._access = QueueAccess(core)
        self._seconds = core.config.request_timeout_s
        self._limit = asyncio.Semaphore(AT_ONCE)

    async def queues(self) -> list[MessageQueue]:
        """Return all selected readable queues, sorted. Topics selected by name must exist."""
        wanted = self._options.wanted
        is_pattern = wanted.pattern is not None
        topics = wanted.matching(await self.topics()) if is_pattern else sorted(wanted.topics)
        routes = await self._each(topics, self._read_queues)
        return sorted(queue for queues in routes.values() for queue in queues if wanted.has(queue))

    async def topics(self) -> list[str]:
        """Return all topics that a name server knows."""
        error: MQError | None = None
        for address in self._core.config.namesrv_addresses:
            try:
                return list(await self._core.api.topic_list(address, self._seconds))
            except MQError as refused:
                error = refused
        raise error or ConnectError("there is no name server")

    async def first_offsets(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the oldest retained offset of each queue."""
        return await self._each(queues, self._first_offset)

    async def end_offsets(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the offset that the next message of each queue will get."""
        return await self._each(queues, self._end_offset)

    async def resolve(self, bound: Bound, queues: list[MessageQueue], first: Offsets, end: Offsets) -> Offsets:
        """Return the offset of *bound* in each of *queues*, which hold the messages from *first* to *end*."""
        if unknown := sorted(bound.named - set(queues)):
            raise ConfigError(
                f"option {bound.option}: there is no {describe(unknown[0])} among the queues that are read"
            )

        async def find(queue: MessageQueue) -> int:
            time_ms = bound.time_of(queue)
            if time_ms is None:
                return bound.resolve(queue, first[queue], end[queue])
            found = await self._at(queue, time_ms, first[queue], end[queue])
            if found == end[queue] and bound.late == "error":
                raise ConfigError(
                    f"option {bound.option}: {describe(queue)} has no message of {time_ms} or later; "
                    "startingOffsetsByTimestampStrategy=latest begins at its end instead"
                )
            return found

        return await self._each(queues, find)

    async def marks(self, offsets: Mapping[MessageQueue, int]) -> Marks:
        """Return the message before each offset; queues without one are left out."""
        found = await self._each(
            [queue for queue, offset in offsets.items() if offset], lambda queue: self._mark(queue, offsets[queue] - 1)
        )
        return {queue: mark for queue, mark in found.items() if mark is not None}

    async def since(self, times_ms: Mapping[MessageQueue, int], first: Offsets, end: Offsets) -> Offsets:
        """Return the first offset of each queue stored at its time or later; the queue's end if there is none."""
        return await self._each(times_ms, lambda queue: self._at(queue, times_ms[queue], first[queue], end[queue]))

    async def check_readable(self, start: Offsets) -> None:
        """Pull a message of each topic, so that a broker that refuses the group or the filter does so now."""
        a_queue = {queue.topic: queue for queue in sorted(start, reverse=True)}

        async def pull(queue: MessageQueue) -> None:
            await self._pull_one(queue, start[queue], self._options.expression)

        await self._each(a_queue.values(), pull)

    async def commit(self, group: str, offsets: Offsets) -> None:
        """Commit *offsets* for *group* to the brokers."""

        async def tell(queue: MessageQueue) -> None:
            await self._access.commit_offset(group, queue, offsets[queue])

        for queues in commit_rounds(offsets):
            await self._each(queues, tell)

    async def commit_progress(self, group: str, offsets: Offsets, pulled: set[str]) -> None:
        """Commit *offsets* for *group* to brokers of any version.

        Apache's brokers since 5.0 refuse the commits of a group that never pulled from them. So brokers that are not in
        *pulled* are pulled from first, and added to it.
        """
        for broker in sorted({queue.broker_name for queue in offsets} - pulled):
            queue = min(queue for queue in offsets if queue.broker_name == broker)
            await self.check_readable({queue: offsets[queue]})
            pulled.add(broker)
        await self.commit(group, offsets)

    async def _each(self, things: Iterable[A], ask: Callable[[A], Awaitable[T]]) -> dict[A, T]:
        async def one(thing: A) -> T:
            async with self._limit:
                return await patiently(lambda: ask(thing), self._patience_s)

        keys = list(things)
        tasks = [asyncio.ensure_future(one(thing)) for thing in keys]
        try:
            return dict(zip(keys, await asyncio.gather(*tasks), strict=True))
        finally:
            for task in tasks:
                task.cancel()

    async def _read_queues(self, topic: str) -> list[MessageQueue]:
        try:
            route = await self._core.routes.find(topic, fresh=True)
        except TopicNotExist:
            if self._options.wanted.pattern is None:
                raise
            return []  # deleted since the topics were listed
        if self._options.wanted.pattern is not None and _is_servers_own(
            topic, route.brokers, route.source.broker_datas
        ):
            return []
        return route.read_queues

    async def _first_offset(self, queue: MessageQueue) -> int:
        return max(0, await self._access.first_offset(queue))

    async def _end_offset(self, queue: MessageQueue) -> int:
        return max(0, await self._access.end_offset(queue))

    async def _at(self, queue: MessageQueue, time_ms: int, first: int, end: int) -> int:
        if first >= end:
            return end
        hint = await self._access.offset_at(queue, time_ms)

        async def is_older(offset: int) -> bool:
            stored_ms = await self._store_time_ms(queue, offset)
            return stored_ms is None or stored_ms < time_ms

        return await first_not_older(first, end, hint, is_older)

    async def _store_time_ms(self, queue: MessageQueue, offset: int) -> int | None:
        """Return the store time of the message at *offset*; None if it no longer exists."""
        reply = await self._pull_one(queue, offset, ALL)
        if reply.code != ResponseCode.SUCCESS:
            return None
        return decode_dispatch(reply.body[: int.from_bytes(reply.body[:4])]).store_timestamp_ms

    async def _mark(self, queue: MessageQueue, offset: int) -> Mark | None:
        """Return the mark of the message at *offset*; None if it does not exist (any more)."""
        reply = await self._pull_one(queue, offset, ALL)
        if reply.code != ResponseCode.SUCCESS:
            return None
        record = decode_dispatch(reply.body[: int.from_bytes(reply.body[:4])])
        return Mark(record.log_offset, record.store_timestamp_ms) if record.queue_offset == offset else None

    async def _pull_one(self, queue: MessageQueue, offset: int, expression: Expression) -> PullReply:
        subscription = subscription_data(queue.topic, expression, 0)
        return await self._access.pull(self._options.pulling_group, queue, offset, 1, subscription)


def _is_servers_own(topic: str, brokers: Iterable[str], datas: Iterable[Any]) -> bool:
    """Return whether *topic* is named after a broker or a cluster: each has a topic of its own name."""
    return topic in set(brokers) or topic in {data.cluster for data in datas}


def ask_cluster(
    options: ReadOptions, question: Callable[[Cluster], Coroutine[Any, Any, T]], patience_s: float = 0.0
) -> T:
    """Run one request from a program without an event loop, and return its result."""

    async def ask() -> T:
        core = await Core.acquire(options.client)
        try:
            return await question(Cluster(core, options, patience_s))
        finally:
            await core.release()

    loop = LoopThread.acquire()
    try:
        return loop.run(ask())
    finally:
        loop.release()
