"""Our own client, as programs use it: `python -m benches.peers.hanabi_client NAMESRV`."""

import asyncio
import sys
import time

import hanabi
from benches.peers.commands import FIRST_TIMEOUT_S, Arrivals, Measured, repeat, serve
from hanabi import aio
from hanabi.remoting.loop import run

CHUNK = 2_000  # messages a call of send_many


class Client:
    def __init__(self, namesrv: str) -> None:
        self._namesrv = namesrv
        self._producer = hanabi.Producer("BenchProducers", namesrv=namesrv)
        self._producer.start()

    def send(self, seconds: str, topic: str, body_bytes: str) -> Measured:
        producer, body = self._producer, bytes(int(body_bytes))

        def once() -> int:
            producer.send(hanabi.Message(topic, body))
            return 1

        return repeat(float(seconds), once)

    def concurrent(self, seconds: str, topic: str, body_bytes: str, depth: str) -> Measured:
        return run(self._concurrent(float(seconds), topic, bytes(int(body_bytes)), int(depth)))

    async def _concurrent(self, seconds: float, topic: str, body: bytes, depth: int) -> Measured:
        async with aio.Producer("BenchAsyncProducers", namesrv=self._namesrv) as producer:
            await producer.send(hanabi.Message(topic, body))
            sent = 0
            began = time.perf_counter()
            ends = began + seconds

            async def sender() -> None:
                nonlocal sent
                while time.perf_counter() < ends:
                    await producer.send(hanabi.Message(topic, body))
                    sent += 1

            async with asyncio.TaskGroup() as group:
                for _ in range(depth):
                    group.create_task(sender())
            return sent, time.perf_counter() - began

    def many(self, seconds: str, topic: str, body_bytes: str, depth: str) -> Measured:
        body = bytes(int(body_bytes))

        def once() -> int:
            return len(self._producer.send_many(hanabi.Message(topic, body) for _ in range(CHUNK)))

        return repeat(float(seconds), once)

    def batch(self, seconds: str, topic: str, body_bytes: str, size: str) -> Measured:
        body, count = bytes(int(body_bytes)), int(size)

        def once() -> int:
            return len(self._producer.send_batch([hanabi.Message(topic, body) for _ in range(count)]))

        return repeat(float(seconds), once)

    def push(self, seconds: str, topic: str, group: str, count: str, size: str = "1") -> Measured:
        arrivals = Arrivals(count, seconds)
        consumer = hanabi.PushConsumer(group, namesrv=self._namesrv, consume_from="first", consume_batch=int(size))
        consumer.subscribe(topic)
        consumer.listener(lambda messages: arrivals.add([message.body for message in messages]))
        with consumer:
            return arrivals.wait()

    def push_async(self, seconds: str, topic: str, group: str, count: str, size: str) -> Measured:
        return run(self._push_async(topic, group, Arrivals(count, seconds), int(size)))

    async def _push_async(self, topic: str, group: str, arrivals: Arrivals, size: int) -> Measured:
        consumer = aio.PushConsumer(group, namesrv=self._namesrv, consume_from="first", consume_batch=size)
        consumer.subscribe(topic)

        async def listener(messages: list[hanabi.StoredMessage]) -> None:
            arrivals.add([message.body for message in messages])

        consumer.listener(listener)
        async with consumer:
            return await asyncio.to_thread(arrivals.wait)

    def pull(self, seconds: str, topic: str, group: str, count: str) -> Measured:
        arrivals = Arrivals(count, seconds)
        consumer = hanabi.LitePullConsumer(group, namesrv=self._namesrv, consume_from="first")
        consumer.subscribe(topic)
        with consumer:
            while not arrivals.done:
                messages = consumer.poll(timeout=FIRST_TIMEOUT_S, count=256)
                if not messages:
                    raise TimeoutError("no more messages came")
                arrivals.add([message.body for message in messages])
            return arrivals.wait()


def main() -> None:
    client = Client(sys.argv[1])
    serve(
        {
            "send": client.send,
            "concurrent": client.concurrent,
            "many": client.many,
            "batch": client.batch,
            "push": client.push,
            "push_one": client.push,
            "push_async": client.push_async,
            "pull": client.pull,
        }
    )


if __name__ == "__main__":
    main()
