"""`pyrocketmq` of PyPI: Apache's Java client in this process, behind JPype.

python -m benches.peers.jpype_client NAMESRV CLASSPATH
"""

import sys
import threading
import time
from typing import Any

import jpype  # type: ignore[import-not-found,unused-ignore]
import jpype.imports  # type: ignore[import-not-found,unused-ignore]

from benches.peers.commands import Arrivals, Measured, repeat, serve

jpype.startJVM(classpath=[sys.argv[2]])  # the package wants it running before it is imported

from pyrocketmq.client.consumer.consumer import PushConsumer  # type: ignore[import-not-found,unused-ignore] # noqa: E402
from pyrocketmq.client.consumer.listener import (  # type: ignore[import-not-found,unused-ignore] # noqa: E402
    ConsumeConcurrentlyStatus,
    MessageListenerConcurrently,
)
from pyrocketmq.client.producer import (  # type: ignore[import-not-found,unused-ignore] # noqa: E402
    Producer,
    SendCallback,
    SendStatus,
)
from pyrocketmq.common.common import ConsumeFromWhere  # type: ignore[import-not-found,unused-ignore] # noqa: E402
from pyrocketmq.common.message import Message  # type: ignore[import-not-found,unused-ignore] # noqa: E402


class Counting(MessageListenerConcurrently):  # type: ignore[misc,unused-ignore]
    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals

    def _consumeMessage(self, messages: list[Any], context: Any) -> Any:  # noqa: N802 - its name for it
        self._arrivals.add([message.body for message in messages])
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS


class Callback(SendCallback):  # type: ignore[misc,unused-ignore]
    def __init__(self, room: threading.Semaphore, errors: list[str]) -> None:
        self._room, self._errors = room, errors

    def _onSuccess(self, send_result: Any) -> None:  # noqa: N802
        self._room.release()

    def _onException(self, e: Any) -> None:  # noqa: N802
        self._errors.append(str(e))
        self._room.release()


class Client:
    def __init__(self, namesrv: str) -> None:
        self._namesrv = namesrv
        self._producer = Producer("BenchJpypeProducers")
        self._producer.setNamesrvAddr(namesrv)
        self._producer.start()

    def send(self, seconds: str, topic: str, body_bytes: str) -> Measured:
        body = bytes(int(body_bytes))

        def once() -> int:
            if self._producer.send(Message(topic=topic, body=body)).sendStatus != SendStatus.SEND_OK:
                raise RuntimeError("not stored")
            return 1

        return repeat(float(seconds), once)

    def concurrent(self, seconds: str, topic: str, body_bytes: str, depth: str) -> Measured:
        body = bytes(int(body_bytes))
        room = threading.Semaphore(int(depth))
        errors: list[str] = []
        callback = Callback(room, errors)

        def once() -> int:
            room.acquire()
            self._producer.send(Message(topic=topic, body=body), send_callback=callback)
            return 1

        began = time.perf_counter()
        messages, _ = repeat(float(seconds), once)
        for _ in range(int(depth)):
            room.acquire()
        if errors:
            raise RuntimeError(f"{len(errors)} sends failed: {errors[0]}")
        return messages, time.perf_counter() - began

    def batch(self, seconds: str, topic: str, body_bytes: str, size: str) -> Measured:
        body, count = bytes(int(body_bytes)), int(size)

        def once() -> int:
            self._producer.send([Message(topic=topic, body=body) for _ in range(count)])
            return count

        return repeat(float(seconds), once)

    def push(self, seconds: str, topic: str, group: str, count: str, size: str = "1") -> Measured:
        arrivals = Arrivals(count, seconds)
        consumer = PushConsumer(group)
        consumer.setNamesrvAddr(self._namesrv)
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        consumer.setConsumeMessageBatchMaxSize(int(size))
        consumer.registerMessageListener(Counting(arrivals))
        consumer.subscribe(topic, "*")
        consumer.start()
        try:
            return arrivals.wait()
        finally:
            consumer.shutdown()


def main() -> None:
    client = Client(sys.argv[1])
    serve(
        {
            "send": client.send,
            "concurrent": client.concurrent,
            "batch": client.batch,
            "push": client.push,
            "push_one": client.push,
        }
    )


if __name__ == "__main__":
    main()
