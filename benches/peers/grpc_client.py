"""`rocketmq-python-client` of PyPI: Apache's gRPC client. `python -m benches.peers.grpc_client PROXY`."""

import sys
import threading
import time
from concurrent.futures import Future
from typing import Any

from rocketmq import (  # type: ignore[import-not-found,unused-ignore]
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
)

from benches.peers.commands import Arrivals, Measured, repeat, serve


class Counting(MessageListener):  # type: ignore[misc,unused-ignore]
    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals

    def consume(self, message: Any) -> Any:
        self._arrivals.add((message.body,))
        return ConsumeResult.SUCCESS


class Client:
    def __init__(self, proxy: str) -> None:
        self._configuration = ClientConfiguration(proxy, Credentials(), request_timeout=20)
        self._producer = Producer(self._configuration, ("BenchSends",))
        self._producer.startup()

    def _message(self, topic: str, body: bytes) -> Any:
        message = Message()
        message.topic, message.body = topic, body
        return message

    def send(self, seconds: str, topic: str, body_bytes: str) -> Measured:
        body = bytes(int(body_bytes))

        def once() -> int:
            self._producer.send(self._message(topic, body))
            return 1

        return repeat(float(seconds), once)

    def concurrent(self, seconds: str, topic: str, body_bytes: str, depth: str) -> Measured:
        body = bytes(int(body_bytes))
        room = threading.Semaphore(int(depth))
        errors: list[BaseException] = []

        def done(sent: Future[Any]) -> None:
            if (error := sent.exception()) is not None:
                errors.append(error)
            room.release()

        def once() -> int:
            room.acquire()
            self._producer.send_async(self._message(topic, body)).add_done_callback(done)
            return 1

        began = time.perf_counter()
        messages, _ = repeat(float(seconds), once)
        for _ in range(int(depth)):
            room.acquire()
        if errors:
            raise RuntimeError(f"{len(errors)} sends failed: {errors[0]}")
        return messages, time.perf_counter() - began

    def push_one(self, seconds: str, topic: str, group: str, count: str) -> Measured:
        arrivals = Arrivals(count, seconds)
        subscription = {topic: FilterExpression()}
        consumer = PushConsumer(self._configuration, group, Counting(arrivals), subscription)
        consumer.startup()
        try:
            return arrivals.wait()
        finally:
            consumer.shutdown()


def main() -> None:
    client = Client(sys.argv[1])
    serve({"send": client.send, "concurrent": client.concurrent, "push_one": client.push_one})


if __name__ == "__main__":
    main()
