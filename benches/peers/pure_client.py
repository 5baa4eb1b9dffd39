"""`pyrocketmq` of GitHub's tt67wq: a client in pure Python. `python -m benches.peers.pure_client NAMESRV`."""

import asyncio
import sys
import threading
import time
from typing import Any

from benches.peers.commands import Arrivals, Measured, repeat, serve

# It writes `threading.RLock | None`, and before Python 3.13 that RLock is a function; this is what the function makes.
threading.RLock = type(threading.RLock())  # type: ignore[assignment,misc,unused-ignore]

import pyrocketmq.logging  # type: ignore[import-not-found,unused-ignore] # noqa: E402
from pyrocketmq.consumer import (  # type: ignore[import-not-found,unused-ignore] # noqa: E402
    create_async_concurrent_consumer,
    create_async_message_listener,
    create_concurrent_consumer,
    create_message_listener,
)
from pyrocketmq.model import SUBSCRIBE_ALL, ConsumeResult  # type: ignore[import-not-found,unused-ignore] # noqa: E402
from pyrocketmq.model.message import Message  # type: ignore[import-not-found,unused-ignore] # noqa: E402
from pyrocketmq.producer import (  # type: ignore[import-not-found,unused-ignore] # noqa: E402
    create_async_producer,
    create_producer,
)

# As quick as its settings allow: no trace messages, no pause between pulls.
WITHOUT_TRACE = {"enable_trace": False}
CONSUMING = {
    "enable_trace": False,
    "pull_interval": 0,
    "consume_from_where": "CONSUME_FROM_FIRST_OFFSET",
    "max_cache_count_per_queue": 65_535,
}


class Client:
    def __init__(self, namesrv: str) -> None:
        self._namesrv = namesrv
        pyrocketmq.logging.setup_logging(pyrocketmq.logging.LoggingConfig(level="ERROR"))
        self._producer = create_producer("BenchPureProducers", namesrv, **WITHOUT_TRACE)
        self._producer.start()

    def send(self, seconds: str, topic: str, body_bytes: str) -> Measured:
        body = bytes(int(body_bytes))

        def once() -> int:
            self._producer.send(Message(topic=topic, body=body))
            return 1

        return repeat(float(seconds), once)

    def concurrent(self, seconds: str, topic: str, body_bytes: str, depth: str) -> Measured:
        return asyncio.run(self._concurrent(float(seconds), topic, bytes(int(body_bytes)), int(depth)))

    async def _concurrent(self, seconds: float, topic: str, body: bytes, depth: int) -> Measured:
        producer = create_async_producer("BenchPureAsyncProducers", self._namesrv, **WITHOUT_TRACE)
        await producer.start()
        try:
            await producer.send(Message(topic=topic, body=body))
            sent = 0
            began = time.perf_counter()
            ends = began + seconds

            async def sender() -> None:
                nonlocal sent
                while time.perf_counter() < ends:
                    await producer.send(Message(topic=topic, body=body))
                    sent += 1

            async with asyncio.TaskGroup() as group:
                for _ in range(depth):
                    group.create_task(sender())
            return sent, time.perf_counter() - began
        finally:
            await producer.shutdown()

    def batch(self, seconds: str, topic: str, body_bytes: str, size: str) -> Measured:
        body, count = bytes(int(body_bytes)), int(size)

        def once() -> int:
            self._producer.send_batch(*(Message(topic=topic, body=body) for _ in range(count)))
            return count

        return repeat(float(seconds), once)

    def push(self, seconds: str, topic: str, group: str, count: str, size: str = "1") -> Measured:
        arrivals = Arrivals(count, seconds)

        def listener(messages: list[Any]) -> Any:
            arrivals.add([message.body for message in messages])
            return ConsumeResult.SUCCESS

        consumer = create_concurrent_consumer(group, self._namesrv, consume_batch_size=int(size), **CONSUMING)
        consumer.subscribe(topic, SUBSCRIBE_ALL, create_message_listener(listener))
        consumer.start()
        try:
            return arrivals.wait()
        finally:
            consumer.shutdown()

    def push_async(self, seconds: str, topic: str, group: str, count: str, size: str) -> Measured:
        return asyncio.run(self._push_async(topic, group, Arrivals(count, seconds), int(size)))

    async def _push_async(self, topic: str, group: str, arrivals: Arrivals, size: int) -> Measured:
        async def listener(messages: list[Any]) -> Any:
            arrivals.add([message.body for message in messages])
            return ConsumeResult.SUCCESS

        consumer = create_async_concurrent_consumer(group, self._namesrv, consume_batch_size=size, **CONSUMING)
        await consumer.subscribe(topic, SUBSCRIBE_ALL, create_async_message_listener(listener))
        await consumer.start()
        try:
            return await asyncio.to_thread(arrivals.wait)
        finally:
            await consumer.shutdown()


def main() -> None:
    client = Client(sys.argv[1])
    serve(
        {
            "send": client.send,
            "concurrent": client.concurrent,
            "batch": client.batch,
            "push": client.push,
            "push_one": client.push,
            "push_async": client.push_async,
        }
    )


if __name__ == "__main__":
    main()
