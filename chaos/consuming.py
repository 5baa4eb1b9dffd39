"""Consumers in a process of their own, which may be killed at any moment.

    python -m chaos.consuming NAMESRV FILE NAME KINDS

One member of the group of each kind of traffic, until SIGTERM, at which they leave in order. Every call of a listener
becomes a line of FILE before the listener returns.
"""

import asyncio
import logging
import signal
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import hanabi.aio
from chaos.history import Damaged, Delivered, Recorder, Returned
from chaos.traffic import ROUTES_S, Kind, failures_of, group_of, label_of, topic_of
from hanabi.message import StoredMessage

SAVE_S: Final = 1.0  # offsets; and routes: both more often than by default, so that more faults hit running traffic
ORDERED_WORK_S: Final = 0.004  # so that two members at one queue would be seen


class NotYet(Exception):
    """What the listener of the retry traffic raises on purpose."""


class Recording:
    """The listeners of one process."""

    def __init__(self, name: str, recorder: Recorder) -> None:
        self._name, self._recorder = name, recorder

    def consumer(self, kind: Kind, namesrv: str) -> hanabi.aio.PushConsumer:
        consumer = hanabi.aio.PushConsumer(
            group_of(kind),
            namesrv=namesrv,
            consume_from="first",
            persist_offsets_s=SAVE_S,
            route_refresh_s=ROUTES_S,
            max_reconsume_times=1_000,
        )
        consumer.subscribe(topic_of(kind))
        if kind is Kind.ORDERLY:
            consumer.listener(ordered=True)(self._in_order)
        else:
            consumer.listener(self._any)
        return consumer

    async def _any(self, messages: list[StoredMessage]) -> None:
        refused = [message for message in messages if not self._record(message)]
        if refused:
            raise NotYet

    async def _in_order(self, messages: list[StoredMessage]) -> None:
        for message in messages:
            self._record(message)
            await asyncio.sleep(ORDERED_WORK_S)
            self._recorder.write(
                Returned(
                    at=time.monotonic(),
                    consumer=self._name,
                    broker=message.broker_name,
                    queue_id=message.queue_id,
                    offset=message.queue_offset,
                )
            )

    def _record(self, message: StoredMessage) -> bool:
        """Return whether the listener takes it."""
        label = label_of(message.body)
        where = {
            "consumer": self._name,
            # The client gives back the topic it was sent to; the place is one in the topic of retries.
            "topic": f"%RETRY%{message.topic}" if message.reconsume_times else message.topic,
            "broker": message.broker_name,
            "queue_id": message.queue_id,
            "offset": message.queue_offset,
        }
        if label is None:
            self._recorder.write(Damaged(at=time.monotonic(), **where))  # type: ignore[arg-type]
            return True
        accepted = label.kind is not Kind.RETRY or message.reconsume_times >= failures_of(label.number)
        self._recorder.write(
            Delivered(at=time.monotonic(), **label._asdict(), **where, accepted=accepted)  # type: ignore[arg-type]
        )
        return accepted


async def main(namesrv: str, path: str, name: str, kinds: str) -> None:
    recording = Recording(name, Recorder(Path(path)))
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with AsyncExitStack() as consumers:
        for kind in kinds.split(","):
            await consumers.enter_async_context(recording.consumer(Kind(kind), namesrv))
        await stopped.wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    asyncio.run(main(*sys.argv[1:]))
