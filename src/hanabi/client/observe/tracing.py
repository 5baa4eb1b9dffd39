"""Traces of one producer or consumer: the hooks that record its work, and the producer that sends the traces.

    hooks ──> trace_data (a line each) ──> dispatcher (many lines a message) ──> producer

Same coverage as Java's SendMessageTraceHookImpl, ConsumeMessageTraceHookImpl and EndTransactionTraceHookImpl: the
traces themselves, and messages that a broker does not want traced, are excluded. Each message of a batch has its line.
"""

import ipaddress
import os
import random
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from hanabi.client.config import ClientConfig
from hanabi.client.hooks import ConsumeContext, EndTransactionContext, SendContext
from hanabi.client.local_address import local_address
from hanabi.client.observe.trace_data import (
    DEFAULT_REGION,
    Traced,
    consumed_line,
    consuming_line,
    ended_line,
    sent_line,
)
from hanabi.client.observe.trace_dispatcher import Dispatcher
from hanabi.client.send_result import SendStatus
from hanabi.clock import wall_ms
from hanabi.message import Message, StoredMessage
from hanabi.wire.message import property_names as names
from hanabi.wire.message.message_id import UniqueIds
from hanabi.wire.system_names import TRACE_TOPIC

GROUP_PREFIX: Final = "_INNER_TRACE_PRODUCER"
_NOTE: Final = "trace"


class TraceProducer(Protocol):
    """Producer that sends traces; `hanabi.aio.Producer` is one."""

    async def start(self) -> None: ...
    async def send(self, message: Message, /) -> object: ...
    async def shutdown(self) -> None: ...


MakeProducer = Callable[[str, ClientConfig], TraceProducer]  # for a group


class Tracing:
    """Hook for sends, consumption and ends of transactions. `start` it before, `close` it after.

    *topic* is a custom trace topic, if there is one. Names in traces carry no namespace. *make_producer* is a
    parameter, as a producer may itself be traced.
    """

    def __init__(self, config: ClientConfig, group: str, make_producer: MakeProducer, topic: str | None = None) -> None:
        self.topic = topic or TRACE_TOPIC
        self._group, self._make_producer = group, make_producer
        # Apache's tools look for traces outside of every namespace.
        self._config = msgspec.structs.replace(config, namespace="") if config.namespace else config
        self._producer: TraceProducer | None = None
        self._dispatcher: Dispatcher | None = None
        self._ids = UniqueIds(
            wall_ms,
            ip=ipaddress.ip_address(local_address()).packed,
            process_id=os.getpid(),
            loader_hash=random.getrandbits(32),
        )

    @property
    def dropped(self) -> int:
        """Return the number of lost lines: the queue was full, or no broker accepted them."""
        return self._dispatcher.dropped if self._dispatcher is not None else 0

    async def start(self) -> None:
        """Start. Needs no broker: lines wait until one can be reached."""
        producer = self._make_producer(f"{GROUP_PREFIX}-{self._group}"[:255], self._config)
        await producer.start()
        self._producer, self._dispatcher = producer, Dispatcher(self.topic, producer.send)
        self._dispatcher.start()

    async def close(self, seconds: float | None = None) -> None:
        """Send pending lines, within *seconds* (default: 5), and stop."""
        producer, self._producer = self._producer, None
        if producer is None or self._dispatcher is None:
            return
        try:
            await self._dispatcher.close(seconds)
        finally:
            await producer.shutdown()

    # Hooks

    def before_send(self, context: SendContext) -> None:
        """Do nothing: there is nothing to trace before a send."""

    def after_send(self, context: SendContext) -> None:
        result, dispatcher = context.result, self._dispatcher
        if dispatcher is None or result is None or result.region is None or not result.trace_on:
            return
        if context.topic.startswith(self.topic):
            return
        cost_ms = (wall_ms() - context.began_ms) // len(context.messages)
        ids = context.message_id.split(",")
        offset_ids = result.offset_message_id.split(",")
        for index, message in enumerate(context.messages):
            dispatcher.add(
                sent_line(
                    Traced(message.topic, ids[index] if index < len(ids) else "", message.tags, message.keys),
                    time_ms=context.began_ms,
                    region=result.region,
                    group=context.group,
                    store_host=context.broker_address,
                    body_bytes=context.body_bytes if len(context.messages) == 1 else len(message.body),
                    cost_ms=cost_ms,
                    kind=context.kind,
                    offset_message_id=offset_ids[index] if index < len(offset_ids) else "",
                    success=result.status is SendStatus.SEND_OK,
                )
            )

    def before_consume(self, context: ConsumeContext) -> None:
        dispatcher = self._dispatcher
        traced = [message for message in context.messages if message.properties.get(names.TRACE_ON) != "false"]
        if dispatcher is None or not traced or context.queue.topic.startswith(self.topic):
            return
        request_id, time_ms = self._ids.make(), wall_ms()
        context.notes[_NOTE] = (request_id, time_ms, traced)
        for message in traced:
            dispatcher.add(
                consuming_line(
                    _traced(message),
                    time_ms=time_ms,
                    region=message.properties.get(names.MESSAGE_REGION),
                    group=context.group,
                    request_id=request_id,
                    retries=message.reconsume_times,
                )
            )

    def after_consume(self, context: ConsumeContext) -> None:
        note, dispatcher = context.notes.get(_NOTE), self._dispatcher
        if dispatcher is None or note is None:
            return
        request_id, began_ms, traced = note
        time_ms = wall_ms()
        for message in traced:
            dispatcher.add(
                consumed_line(
                    _traced(message),
                    time_ms=time_ms,
                    group=context.group,
                    request_id=request_id,
                    cost_ms=(time_ms - began_ms) // len(context.messages),
                    outcome=context.outcome,
                )
            )

    def end_transaction(self, context: EndTransactionContext) -> None:
        message, dispatcher = context.message, self._dispatcher
        if dispatcher is None or message.topic.startswith(self.topic):
            return
        dispatcher.add(
            ended_line(
                Traced(message.topic, context.message_id, message.tags, message.keys),
                time_ms=context.began_ms,
                region=_region(message),
                group=context.group,
                store_host=context.broker_address,
                transaction_id=context.transaction_id,
                state=context.state,
                from_check=context.from_check,
            )
        )


async def tracing(trace: bool | str, config: ClientConfig, group: str, make_producer: MakeProducer) -> Tracing | None:
    """Start the tracing that the setting `trace` asks for: none, to the default topic, or to the one named."""
    if not trace:
        return None
    started = Tracing(config, group, make_producer, trace if isinstance(trace, str) else None)
    await started.start()
    return started


def _traced(message: StoredMessage) -> Traced:
    return Traced(message.topic, message.message_id, message.tags, message.keys)


def _region(message: Message | StoredMessage) -> str:
    return message.properties.get(names.MESSAGE_REGION) or DEFAULT_REGION
