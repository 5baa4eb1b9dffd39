"""`rocketmq` of PyPI: Apache's C++ client behind ctypes. `python -m benches.peers.native_client NAMESRV`."""

import sys
import threading
import time
from typing import Any

from rocketmq.client import Message, Producer, PushConsumer  # type: ignore[import-not-found,unused-ignore]

from benches.peers.commands import Arrivals, Measured, repeat, serve


class Client:
    def __init__(self, namesrv: str) -> None:
        self._namesrv = namesrv
        self._producer = Producer("BenchNativeProducers")
        self._producer.set_namesrv_addr(namesrv)
        self._producer.start()

    def _message(self, topic: str, body: bytes) -> Any:
        message = Message(topic)
        message.set_body(body)
        return message

    def send(self, seconds: str, topic: str, body_bytes: str) -> Measured:
        body = b"x" * int(body_bytes)  # it cuts bodies at the first zero

        def once() -> int:
            self._producer.send_sync(self._message(topic, body))
            return 1

        return repeat(float(seconds), once)

    def concurrent(self, seconds: str, topic: str, body_bytes: str, depth: str) -> Measured:
        body = b"x" * int(body_bytes)
        room = threading.Semaphore(int(depth))
        errors: list[object] = []

        def failed(error: object) -> None:
            errors.append(error)
            room.release()

        def once() -> int:
            room.acquire()
            self._producer.send_async(self._message(topic, body), lambda result: room.release(), failed)
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
        consumer = PushConsumer(group)
        consumer.set_namesrv_addr(self._namesrv)
        consumer.subscribe(topic, lambda message: arrivals.add((message.body,)))
        consumer.start()
        try:
            return arrivals.wait()
        finally:
            consumer.shutdown()


def main() -> None:
    client = Client(sys.argv[1])
    serve({"send": client.send, "concurrent": client.concurrent, "push_one": client.push_one})


if __name__ == "__main__":
    main()
