"""A producer in a process of its own, which may be killed at any moment.

    python -m chaos.producing NAMESRV FILE NAME KINDS

Sends every kind of traffic until SIGTERM. What it is about to send, and what came of it, becomes a line of FILE.
"""

import asyncio
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import hanabi.aio
from chaos.history import Acknowledged, Attempted, Failed, Recorder
from chaos.traffic import (
    ROUTES_S,
    Kind,
    Label,
    Outcome,
    body_of,
    delay_level_of,
    delay_s_of,
    label_of,
    outcome_of,
    topic_of,
)
from hanabi.client.send_result import SendResult, TransactionState
from hanabi.errors import MQError, SendFailed
from hanabi.message import Message, MessageQueue, StoredMessage

# Senders of each kind, and the pause of each between two messages.
SENDERS: Final = {Kind.PLAIN: 3, Kind.DELAYED: 1, Kind.TRANSACTION: 2, Kind.RETRY: 1}
PAUSES_S: Final = {Kind.PLAIN: 0.03, Kind.ORDERLY: 0.05, Kind.DELAYED: 0.08, Kind.TRANSACTION: 0.1, Kind.RETRY: 0.12}
AFTER_FAILURE_S: Final = 0.2
BATCH: Final = 5
BATCH_EVERY: Final = 20
GROUP: Final = "chaos_producers"

SendOne = Callable[[Message], Awaitable[SendResult]]


class Sending:
    """All senders of one process."""

    def __init__(self, name: str, recorder: Recorder, producer: hanabi.aio.TransactionProducer) -> None:
        self._name, self._recorder, self._producer = name, recorder, producer
        self._numbers = dict.fromkeys(Kind, 0)
        self.stopped = False

    async def run(self, kinds: list[Kind]) -> None:
        ways: dict[Kind, SendOne] = {
            Kind.PLAIN: self._producer.send,
            Kind.RETRY: self._producer.send,
            Kind.DELAYED: self._producer.send,
            Kind.TRANSACTION: self._in_transaction,
        }
        async with asyncio.TaskGroup() as tasks:
            for kind, send in ways.items():
                for _ in range(SENDERS[kind] if kind in kinds else 0):
                    tasks.create_task(self._keep_sending(kind, send))
            if Kind.ORDERLY in kinds:
                tasks.create_task(self._keep_order())

    async def _keep_sending(self, kind: Kind, send: SendOne) -> None:
        while not self.stopped:
            label = self._next(kind)
            if kind is Kind.PLAIN and label.number % BATCH_EVERY == 0:
                good = await self._try_batch([label, *(self._next(kind) for _ in range(BATCH - 1))])
            else:
                good = await self._try(label, send)
            await asyncio.sleep(PAUSES_S[kind] if good else AFTER_FAILURE_S)

    async def _keep_order(self) -> None:
        """One sender for each queue there is; a message that was not acknowledged is sent again before the next."""
        queues = await self._queues(topic_of(Kind.ORDERLY))
        async with asyncio.TaskGroup() as tasks:
            for queue in queues:
                tasks.create_task(self._keep_order_of(queue))

    async def _queues(self, topic: str) -> list[MessageQueue]:
        """Return all there are; none if it is stopped before it finds out."""
        while not self.stopped:
            try:
                return await self._producer.queues(topic)
            except MQError:  # no name server answers, or no broker is there yet
                await asyncio.sleep(AFTER_FAILURE_S)
        return []

    async def _keep_order_of(self, queue: MessageQueue) -> None:
        async def send(message: Message) -> SendResult:
            return await self._producer.send(message, queue=queue)

        while not self.stopped:
            label = self._next(Kind.ORDERLY)
            good = await self._try(label, send)
            while not good and not self.stopped:
                await asyncio.sleep(AFTER_FAILURE_S)
                good = await self._try(label, send)
            await asyncio.sleep(PAUSES_S[Kind.ORDERLY])

    async def _in_transaction(self, message: Message) -> SendResult:
        result = await self._producer.send_in_transaction(message, lambda sent, _: _decide(sent.body))
        return result.send

    def _next(self, kind: Kind) -> Label:
        self._numbers[kind] += 1
        return Label(kind, self._name, self._numbers[kind])

    async def _try(self, label: Label, send: SendOne) -> bool:
        self._recorder.write(Attempted(at=time.monotonic(), **label._asdict()))
        try:
            result = await send(_message(label))
        except (SendFailed, MQError) as error:
            self._failed(label, error)
            return False
        self._acknowledged(label, result)
        return True

    async def _try_batch(self, labels: list[Label]) -> bool:
        for label in labels:
            self._recorder.write(Attempted(at=time.monotonic(), **label._asdict()))
        try:
            results = await self._producer.send_batch([_message(label) for label in labels])
        except MQError as error:
            for label in labels:
                self._failed(label, error)
            return False
        for label, result in zip(labels, results, strict=True):
            self._acknowledged(label, result)
        return True

    def _acknowledged(self, label: Label, result: SendResult) -> None:
        self._recorder.write(
            Acknowledged(
                at=time.monotonic(),
                **label._asdict(),
                broker=result.queue.broker_name,
                queue_id=result.queue.queue_id,
                offset=result.queue_offset,
                status=result.status.value,
            )
        )

    def _failed(self, label: Label, error: MQError) -> None:
        # A batch of many requests may be half stored: nobody knows which half.
        maybe = error.maybe_stored if isinstance(error, SendFailed) else True
        self._recorder.write(
            Failed(
                at=time.monotonic(),
                **label._asdict(),
                maybe_stored=maybe,
                error=f"{type(error).__name__}: {error}"[:300],
            )
        )


def _message(label: Label) -> Message:
    message = Message(topic_of(label.kind), body_of(label), keys=[f"{label.producer}-{label.number}"])
    if label.kind is Kind.DELAYED:
        level = delay_level_of(label.number)
        if level:
            message.delay_level = level
        else:
            message.deliver_time_ms = time.time_ns() // 1_000_000 + int(delay_s_of(label.number) * 1_000)
    return message


_FIRST_WORD: Final = {
    Outcome.COMMIT: TransactionState.COMMIT,
    Outcome.ROLLBACK: TransactionState.ROLLBACK,
    Outcome.CHECKED_COMMIT: TransactionState.UNKNOWN,
    Outcome.CHECKED_ROLLBACK: TransactionState.UNKNOWN,
}
_LAST_WORD: Final = {
    Outcome.COMMIT: TransactionState.COMMIT,
    Outcome.ROLLBACK: TransactionState.ROLLBACK,
    Outcome.CHECKED_COMMIT: TransactionState.COMMIT,
    Outcome.CHECKED_ROLLBACK: TransactionState.ROLLBACK,
}


def _decide(body: bytes) -> TransactionState:
    label = label_of(body)
    assert label is not None
    return _FIRST_WORD[outcome_of(label.number)]


async def _check(message: StoredMessage) -> TransactionState:
    """Of any producer's message: the broker asks whoever of the group is there."""
    label = label_of(message.body)
    return TransactionState.UNKNOWN if label is None else _LAST_WORD[outcome_of(label.number)]


async def main(namesrv: str, path: str, name: str, kinds: str) -> None:
    recorder = Recorder(Path(path))
    producer = hanabi.aio.TransactionProducer(GROUP, namesrv=namesrv, check=_check, route_refresh_s=ROUTES_S)
    async with producer:
        sending = Sending(name, recorder, producer)

        def stop() -> None:
            sending.stopped = True

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
        await sending.run([Kind(kind) for kind in kinds.split(",")])
        # Whoever left now would leave half transactions behind; the runner ends us when everything has arrived.
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
