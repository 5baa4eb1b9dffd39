"""Producer for asyncio. `hanabi.Producer` is the same for blocking programs.

Connects encoding (outgoing), queue choice (publishing), sending (sender) and replies (request_reply). Same behaviour
and defaults as Java's DefaultMQProducer.
"""

import asyncio
import math
import os
import random
import time
from collections.abc import Awaitable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeGuard, Unpack, overload

import msgspec

from hanabi.client.cluster.core import Core
from hanabi.client.config import ClientConfig, client_config
from hanabi.client.hooks import EndTransactionHook, MessageKind, SendHook, SendHooks
from hanabi.client.namespace import unwrap
from hanabi.client.observe.tracing import Tracing, tracing
from hanabi.client.options import ProducerOptions
from hanabi.client.participant import Participant
from hanabi.client.producer.back_pressure import BackPressure
from hanabi.client.producer.batching import (
    Part,
    batch_of,
    check_batch,
    note_stored,
    pack_parts,
    parts_by_queue,
    results_of,
    split,
)
from hanabi.client.producer.config import ProducerConfig, producer_config
from hanabi.client.producer.ordered_sends import OrderedSends
from hanabi.client.producer.outgoing import SEND_REPLY, Outgoing, Packing
from hanabi.client.producer.pipelining import pipelined
from hanabi.client.producer.recalling import recall
from hanabi.client.producer.request_reply import PendingRequests, reply_properties, request_properties
from hanabi.client.producer.routing.fault_tolerance import FaultTolerance
from hanabi.client.producer.routing.selectors import Choose, Selector, chooser
from hanabi.client.producer.send_hooks import hooked_send, kind_of
from hanabi.client.producer.sender import SendEnded, Sender
from hanabi.client.producer.topic_publisher import TopicPublishers
from hanabi.client.send_result import SendResult
from hanabi.client.validation import check_group
from hanabi.clock import wall_ms
from hanabi.errors import ConnectionLostError, MQError, RequestTimeoutError, SendFailed
from hanabi.message import Message, MessageQueue, StoredMessage
from hanabi.wire.headers.send import ReplyMessageHeader
from hanabi.wire.headers.transaction import CheckTransactionStateHeader
from hanabi.wire.message.message_id import UniqueIds

TRACE_SEND_TIMEOUT_SECONDS: Final = 5.0
TRACE_END_SECONDS: Final = 1.0  # for the last traces, even if the shutdown timeout has expired


class Running(NamedTuple):
    """Parts of a producer between start and shutdown."""

    core: Core
    publishings: TopicPublishers
    gate: BackPressure
    packing: Packing
    sender: Sender
    hooks: SendHooks
    end_hooks: tuple[EndTransactionHook, ...]
    trace: Tracing | None

    def master_of(self, queue: MessageQueue) -> str:
        """Return the address of the master of *queue*."""
        return self.core.routes.master_of(queue.broker_name) or ""

    async def pack(
        self, message: Message, seconds: float, extra: Mapping[str, str] | None = None, sys_flag: int = 0
    ) -> Outgoing:
        """Encode *message*; a large one may wait for room, within *seconds*."""
        outgoing = self.packing.pack(message, extra, sys_flag)
        return await self.compressed(outgoing, seconds) if outgoing.to_compress else outgoing

    async def compressed(self, outgoing: Outgoing, seconds: float) -> Outgoing:
        """Compress a large *outgoing*. Meanwhile it counts as in flight: `shutdown` waits for it."""
        size = len(outgoing.body)
        await self.gate.enter(size, seconds)
        try:
            return await self.packing.compressed(outgoing)
        finally:
            self.gate.leave(size)


class Producer(Participant):
    """Sends messages for a group of producers.

        async with Producer("orders", namesrv="127.0.0.1:9876") as producer:
            result = await producer.send(Message("Orders", b"...", tags="created", keys=["42"]))

    *options* are fields of `ClientConfig` (how to reach the cluster) and of `ProducerConfig` (how to send); both may be
    given whole, as *config* and *settings*. *hooks* are called for every send (see `hanabi.client.hooks`). Any number
    of tasks of one event loop may use it at once.
    """

    def __init__(
        self,
        group: str,
        *,
        config: ClientConfig | None = None,
        settings: ProducerConfig | None = None,
        hooks: Sequence[SendHook | EndTransactionHook] = (),
        **options: Unpack[ProducerOptions],
    ) -> None:
        check_group(group)
        self.settings, others = producer_config(settings, options)
        super().__init__("producer", group, client_config(config, others, self.settings.__struct_fields__))
        self._hooks = tuple(hooks)
        self._requests = PendingRequests()
        self._running: Running | None = None

    # Start and shutdown

    async def start(self) -> None:
        """Join the cluster. Needs no name server yet: the first send does."""
        await super().start()

    async def _join(self, undo: AsyncExitStack) -> None:
        core = await Core.acquire(self.config)
        undo.push_async_callback(core.release)
        await core.add_producer(self._wire_group, self)
        undo.push_async_callback(core.remove_producer, self._wire_group, self)
        trace = await tracing(self.settings.trace, self.config, self.group, trace_producer)
        self._running = self._parts(core, trace)

    def _parts(self, core: Core, trace: Tracing | None) -> Running:
        settings, namespace = self.settings, self.config.namespace
        clock = asyncio.get_running_loop().time
        faults = FaultTolerance(clock) if settings.latency_fault_tolerance else None
        publishings = TopicPublishers(core.routes, settings, faults, lambda topic: unwrap(namespace, topic))
        gate = BackPressure(settings.in_flight_max, settings.in_flight_bytes_max)
        ids = UniqueIds(
            wall_ms,
            ip=core.own_ip,
            process_id=os.getpid(),
            loader_hash=random.getrandbits(32),  # one per producer, as a process may have several
            utc_offset_ms=time.localtime().tm_gmtoff * 1000,
        )
        packing = Packing(settings, namespace, ids.make)
        sender = Sender(core.api, publishings, gate, settings, self._wire_group, faults)
        hooks = self._hooks if trace is None else (trace, *self._hooks)
        send_hooks = SendHooks([hook for hook in hooks if _hears_sends(hook)])
        end_hooks = tuple(hook for hook in hooks if _hears_ends(hook))
        return Running(core, publishings, gate, packing, sender, send_hooks, end_hooks, trace)

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Finish sends in flight, within *timeout* seconds (default: that of a send), and leave the cluster."""
        await super().shutdown(timeout)

    async def _leave(self, seconds: float | None) -> None:
        running, self._running = self._must_run(), None
        clock = asyncio.get_running_loop().time
        ends = clock() + (self.settings.send_timeout_s if seconds is None else seconds)
        try:
            await self._finish(ends - clock())
            await running.gate.until_empty(ends - clock())
        except asyncio.CancelledError:
            ends = clock()
            raise
        finally:
            self._requests.fail_all(ConnectionLostError(f"{self.what} is shut down"))
            await running.publishings.close()
            if running.trace is not None:
                await running.trace.close(max(ends - clock(), TRACE_END_SECONDS))

    def _drop(self) -> None:
        self._running, self._requests = None, PendingRequests()

    async def _finish(self, seconds: float) -> None:
        """Finish the additional work of a subclass, within *seconds*."""

    @property
    def client_id(self) -> str:
        """Return the id by which brokers know this client."""
        return self._must_run().core.client_id

    def _must_run(self) -> Running:
        if self._running is None:
            raise self._not_running("start() it, and send before shutdown()")
        return self._running

    # Sending

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        timeout: float | None = None,  # noqa: ASYNC109 - it covers all attempts
    ) -> SendResult:
        """Send *message*; return where it is stored. Raise `SendFailed` after the last attempt, or at the deadline.

        It goes to *queue*, to the one that *selector* picks by *arg*, or to the one of its ordering key, and to no
        other. Otherwise the queues take turns, and if a broker fails another one is tried.
        """
        running = self._running or self._must_run()
        seconds = self.settings.send_timeout_s if timeout is None else timeout
        if running.hooks:
            choose = chooser(message, queue, selector, arg)
            return await self._send(running, message, kind_of(message), seconds, queue=queue, choose=choose)
        outgoing = running.packing.pack(message)
        choose = None
        if queue is not None or selector is not None or arg is not None or message.ordering_key is not None:
            choose = chooser(message, queue, selector, arg)
        if outgoing.to_compress:
            outgoing = await running.compressed(outgoing, seconds)
        return await running.sender.deliver(outgoing, seconds, queue, choose)

    def begin_send(
        self,
        message: Message,
        ended: SendEnded,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        timeout: float | None = None,
    ) -> Coroutine[Any, Any, SendResult] | None:
        """Send without a waiting task, for the blocking producer. Call *ended* with the result, unless something has to
        be awaited for it: then return that.
        """
        running = self._running or self._must_run()
        if running.hooks:
            return self.send(message, queue=queue, selector=selector, arg=arg, timeout=timeout)
        choose = chooser(message, queue, selector, arg)
        seconds = self.settings.send_timeout_s if timeout is None else timeout
        outgoing = running.packing.pack(message)
        if outgoing.to_compress:
            return self._deliver_compressed(running, outgoing, seconds, queue, choose)
        if running.sender.begin(outgoing, seconds, queue, choose, ended):
            return None
        return running.sender.deliver(outgoing, seconds, queue, choose)

    @staticmethod
    async def _deliver_compressed(
        running: Running,
        outgoing: Outgoing,
        timeout: float,  # noqa: ASYNC109
        queue: MessageQueue | None,
        choose: Choose | None,
    ) -> SendResult:
        return await running.sender.deliver(await running.compressed(outgoing, timeout), timeout, queue, choose)

    async def _send(
        self,
        running: Running,
        message: Message,
        kind: MessageKind,
        timeout: float,  # noqa: ASYNC109
        *,
        extra: Mapping[str, str] | None = None,
        sys_flag: int = 0,
        queue: MessageQueue | None = None,
        choose: Choose | None = None,
        patient: bool = False,
    ) -> SendResult:
        """Send, and notify the hooks. *extra* are reserved properties."""
        with hooked_send(running.hooks, self.group, running.core.client_id, (message,), kind) as context:
            properties = {**context.properties, **(extra or {})}
            outgoing = await running.pack(message, timeout, properties, sys_flag)
            context.message_id, context.body_bytes = outgoing.message_id, len(outgoing.body)
            result = await running.sender.deliver(outgoing, timeout, queue, choose, patient=patient)
            context.result, context.broker_address = result, running.master_of(result.queue)
            return result

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> None:
        """Send *message* without a response. A lost message goes unnoticed."""
        running = self._must_run()
        choose = chooser(message, queue, selector, arg)
        seconds = self.settings.send_timeout_s if timeout is None else timeout
        if not running.hooks:
            outgoing = await running.pack(message, seconds)
            await running.sender.deliver_oneway(outgoing, seconds, queue, choose)
            return
        with hooked_send(running.hooks, self.group, running.core.client_id, (message,), kind_of(message)) as context:
            outgoing = await running.pack(message, seconds, context.properties)
            context.message_id, context.body_bytes = outgoing.message_id, len(outgoing.body)
            await running.sender.deliver_oneway(outgoing, seconds, queue, choose)

    @overload
    async def send_many(
        self,
        messages: Iterable[Message],
        *,
        selector: Selector | None = None,
        arg: Any = None,
        timeout: float | None = None,  # noqa: ASYNC109
        return_exceptions: Literal[False] = False,
    ) -> list[SendResult]: ...

    @overload
    async def send_many(
        self,
        messages: Iterable[Message],
        *,
        selector: Selector | None = None,
        arg: Any = None,
        timeout: float | None = None,  # noqa: ASYNC109
        return_exceptions: Literal[True],
    ) -> list[SendResult | Exception]: ...

    async def send_many(
        self,
        messages: Iterable[Message],
        *,
        selector: Selector | None = None,
        arg: Any = None,
        timeout: float | None = None,  # noqa: ASYNC109
        return_exceptions: bool = False,
    ) -> Sequence[SendResult | Exception]:
        """Send *messages* concurrently; return their results in order. *timeout* is for each of them.

        All are tried, even if some fail. With *return_exceptions* an error takes the place of the result; without, the
        first is raised at the end. Messages are sent in order, but may be stored in a different order; only messages
        with one ordering key are stored in order. If one of these fails, the later ones of its key are not sent.
        """
        running = self._must_run()
        seconds = self.settings.send_timeout_s if timeout is None else timeout

        ordered = OrderedSends()

        def send(message: Message) -> Awaitable[SendResult]:
            key = getattr(message, "ordering_key", None)  # what is no message is refused later
            choose = None
            if selector is not None or arg is not None or key is not None:
                choose = chooser(message, None, selector, arg)
            if key is None:
                return self._send_patiently(running, message, seconds, choose)
            return ordered.send(message.topic, key, partial(self._send_patiently, running, message, seconds, choose))

        results = await pipelined(messages, send, self.settings.pipeline_depth)
        if not return_exceptions:
            _raise_first(results)
        return results

    async def _send_patiently(
        self,
        running: Running,
        message: Message,
        timeout: float,  # noqa: ASYNC109
        choose: Choose | None,
    ) -> SendResult:
        """Send one of many; waiting for room under back-pressure does not count towards its timeout."""
        if running.hooks:
            return await self._send(running, message, kind_of(message), timeout, choose=choose, patient=True)
        outgoing = running.packing.pack(message)
        if outgoing.to_compress:
            outgoing = await running.compressed(outgoing, timeout)
        return await running.sender.deliver(outgoing, timeout, None, choose, patient=True)

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> list[SendResult]:
        """Send messages of one topic in as few requests as their size allows; return the result of each, in order.

        Each request goes to one queue and is stored whole or not at all. Messages with ordering keys are put together
        by the queues of their keys. *timeout* is for each request. If one fails, the following ones are not sent:
        `SendFailed.stored` says which messages were.
        """
        running = self._must_run()
        messages = list(messages)
        check_batch(messages)
        first = messages[0]
        topic = running.packing.topic_on_wire(first.topic)
        choose = chooser(first, queue, selector, arg)
        seconds = self.settings.send_timeout_s if timeout is None else timeout
        results: dict[int, SendResult] = {}
        with hooked_send(running.hooks, self.group, running.core.client_id, messages, MessageKind.NORMAL) as context:
            parts = pack_parts(messages, running.packing, self.settings.message_bytes_max, context.properties)
            context.message_id = ",".join(part.message_id for part in parts)
            if queue is not None or selector is not None or all(each.ordering_key is None for each in messages):
                by_queue: dict[MessageQueue | None, list[Part]] = {queue: parts}
            else:
                by_queue, choose = parts_by_queue(messages, parts, await self.queues(first.topic)), None
            for target, some in by_queue.items():
                for run in split(some, self.settings.batch_bytes_max):
                    outgoing = batch_of(topic, run, wait_stored=first.wait_stored)
                    context.body_bytes += len(outgoing.body)
                    try:
                        result = await running.sender.deliver(outgoing, seconds, target, choose)
                    except MQError as error:
                        note_stored(error, results, len(messages))
                        raise
                    results.update(zip((part.position for part in run), results_of(run, result), strict=True))
            context.result, context.broker_address = results[0], running.master_of(results[0].queue)
        return [results[position] for position in range(len(messages))]

    async def send_outgoing(
        self,
        outgoing: Outgoing,
        *,
        queue: MessageQueue | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> SendResult:
        """Send an encoded message; for internal use by the library."""
        seconds = self.settings.send_timeout_s if timeout is None else timeout
        return await self._must_run().sender.deliver(outgoing, seconds, queue)

    async def flush(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Wait until no send is in flight: the sends that have begun have ended, well or not.

        Raise `RequestTimeoutError` after *timeout* seconds (default: without limit; each send has its own).
        """
        gate = self._must_run().gate
        if not await gate.until_empty(math.inf if timeout is None else timeout):
            raise RequestTimeoutError(f"{gate.sends} sends have not ended within {timeout:.3g} s")

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the writable queues of *topic*, in the order in which selectors get them."""
        running = self._must_run()
        name = running.packing.topic_on_wire(topic)
        publishing = running.publishings.known(name) or await running.publishings.find(name)
        return list(publishing.queues)

    async def recall(self, handle: str, *, timeout: float | None = None) -> str:  # noqa: ASYNC109
        """Take back a timed message before it is due, by the `recall_handle` of its result; return its id.

        Success means that the broker accepted the recall: one second before the due time, or earlier, it is in time. A
        broken handle, one of a message that is due, and a broker that does not recall (Apache's before 5.3.2, or
        without `recallMessageEnable`) raise.
        """
        running = self._must_run()
        seconds = self.settings.send_timeout_s if timeout is None else timeout
        return await recall(running.core, handle, self._wire_group, seconds)

    # Request and reply

    async def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> StoredMessage:
        """Send *message*, and wait for a consumer's `reply`.

        *timeout* covers the round trip. Raise `RequestTimeoutError` if no reply comes.
        """
        running = self._must_run()
        loop = asyncio.get_running_loop()
        seconds = self.settings.send_timeout_s if timeout is None else timeout
        ends = loop.time() + seconds
        choose = chooser(message, queue, selector, arg)
        correlation_id, answer = self._requests.begin()
        try:
            topic = running.packing.topic_on_wire(message.topic)
            if running.publishings.known(topic) is None:
                await self._introduce(running, topic, ends)
            extra = request_properties(running.core.client_id, correlation_id, seconds)
            kind = kind_of(message)
            sent = await self._send(running, message, kind, ends - loop.time(), extra=extra, queue=queue, choose=choose)
            await asyncio.wait((answer,), timeout=ends - loop.time())
            if not answer.done():
                raise RequestTimeoutError(
                    f"no answer within {seconds:.3g} s: request {sent.message_id} of topic {message.topic} was stored "
                    f"by {sent.queue.broker_name}, queue {sent.queue.queue_id}, offset {sent.queue_offset}. Does a "
                    "consumer of the topic run, and does it reply?"
                )
            return answer.result()
        finally:
            self._requests.end(correlation_id)

    @staticmethod
    async def _introduce(running: Running, topic: str, ends: float) -> None:
        """Send heartbeats before a request: brokers deliver replies only to known clients, and a reply may precede the
        next regular heartbeat.
        """
        try:
            async with asyncio.timeout_at(ends):
                await running.publishings.find(topic)
                await running.core.heartbeat_now()
        except TimeoutError as error:
            raise SendFailed(
                f"no time was left to send a request of topic {topic}: its brokers are slow", topic=topic
            ) from error

    async def reply(
        self,
        request: StoredMessage,
        body: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> SendResult:
        """Reply to a *request* that a consumer got. Raise `SendFailed` if the requester cannot be reached any more."""
        running = self._must_run()
        topic, carried = reply_properties(request)
        message = Message(topic, body, properties=dict(properties or {}))
        seconds = self.settings.send_timeout_s if timeout is None else timeout
        with hooked_send(running.hooks, self.group, running.core.client_id, (message,), MessageKind.NORMAL) as context:
            packed = await running.pack(message, seconds, {**context.properties, **carried})
            outgoing = msgspec.structs.replace(packed, topic=topic, code=SEND_REPLY)  # without a namespace
            context.message_id, context.body_bytes = outgoing.message_id, len(outgoing.body)
            # The broker that stored the request knows the requester; other brokers may not.
            result = await running.sender.deliver(outgoing, seconds, first=request.broker_name or None)
            context.result, context.broker_address = result, running.master_of(result.queue)
            return result

    # Requests of brokers

    def reply_arrived(self, header: ReplyMessageHeader, body: bytes) -> bool:
        """Accept a reply: see `members.ProducerMember`."""
        return self._requests.arrived(header, body, wall_ms())

    async def check_transaction(
        self, header: CheckTransactionStateHeader, message: StoredMessage, address: str
    ) -> bool:
        """Return False: this producer has no transactions. See `members.ProducerMember`."""
        return False


def trace_producer(group: str, config: ClientConfig) -> Producer:
    """Return the producer that sends the traces of a producer or consumer."""
    return Producer(group, config=config, send_timeout_s=TRACE_SEND_TIMEOUT_SECONDS)


def _hears_sends(hook: SendHook | EndTransactionHook) -> TypeGuard[SendHook]:
    return hasattr(hook, "before_send")


def _hears_ends(hook: SendHook | EndTransactionHook) -> TypeGuard[EndTransactionHook]:
    return hasattr(hook, "end_transaction")


def _raise_first(results: Sequence[SendResult | Exception]) -> None:
    errors = [result for result in results if isinstance(result, Exception)]
    if errors:
        errors[0].add_note(
            f"{len(errors)} of {len(results)} messages failed, the rest are stored: see return_exceptions"
        )
        raise errors[0]
