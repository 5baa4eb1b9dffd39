"""Sends: one message (codes 10 and 310) or a batch for one queue (320).

    frame ─> header ─> target (topic, permission, queue) ─> properties ─> intake ─> reply

A valid message goes straight through `_send`, without an exception or a task. A sender that waits for the disk gets a
task. Agrees with Java's SendMessageProcessor. Ordinary sends are handled in `fast_path`.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from functools import lru_cache, partial
from itertools import islice
from typing import Final, Protocol

import msgspec

from hanabi.broker.fast_path.building import send_part
from hanabi.broker.handlers.yielding import Yielder
from hanabi.broker.send.flow_control import FlowControl
from hanabi.broker.send.intake import Intake
from hanabi.broker.send.put_replies import STORED, refusal
from hanabi.broker.send.recall_handles import recall_handle_of
from hanabi.broker.send.retry_rules import DEAD_LETTER_QUEUES, dead_letter_topic, is_dead, tries_max
from hanabi.broker.send.rules import SendRules
from hanabi.broker.send.store_host import StoreHost
from hanabi.broker.send.stored_properties import batch_properties, delay_level, sent_properties, without_delay
from hanabi.broker.send.targets import SendTarget, SendTargets, group_of, retry_target
from hanabi.broker.settings import Settings
from hanabi.broker.tables.groups import Groups
from hanabi.broker.tables.topics import Topics
from hanabi.clock import wall_ms
from hanabi.errors import BrokerError, MessageRefused, MQError, NoPermission, RemoteProtocolError
from hanabi.remoting.address import parse_address
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.store.log.commit_log import AppendResult, PendingMessage
from hanabi.store.message_store import PUT_OK, PutResult, PutStatus
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.headers.send import AnySendMessageHeader, SendMessageHeader, SendMessageV2Header
from hanabi.wire.message.batch import each_of_batch
from hanabi.wire.message.hosts import encode_host
from hanabi.wire.message.properties import join_properties
from hanabi.wire.system_names import RETRY_PREFIX

_SUCCESS: Final = int(ResponseCode.SUCCESS)
BATCH_AT_ONCE: Final = 2_048  # messages; a longer batch is stored in several steps
BATCH_PIECE: Final = 256

_Put = Callable[[], PutResult | Awaitable[PutResult]]


class HalfMessages(Protocol):
    """Store of half messages of transactions."""

    def put_half(self, message: PendingMessage) -> PutResult: ...


def send_handlers(
    intake: Intake,
    topics: Topics,
    groups: Groups,
    settings: Settings,
    flow: FlowControl,
    store_host: bytes,
    transactions: HalfMessages,
    *,
    random_below: Callable[[int], int] = random.randrange,
    now_ms: Callable[[], int] = wall_ms,
) -> dict[int, Handler]:
    """Return the handlers of all sends; *store_host* is as `send/store_host.py` makes it."""
    rules = SendRules(settings, flow, StoreHost(store_host), now_ms)
    targets = SendTargets(topics, settings, rules.store_host)
    sends = Sends(intake, topics, groups, settings, rules, targets, transactions, random_below)
    fast = send_part(rules, targets, intake, host_of_peer, sends)
    return {
        RequestCode.SEND_MESSAGE: Handler(SendMessageHeader, sends.handle),
        RequestCode.SEND_MESSAGE_V2: Handler(SendMessageV2Header, sends.handle, fast_path=fast),
        RequestCode.SEND_BATCH_MESSAGE: Handler(SendMessageV2Header, sends.handle),
    }


class Sends:
    """Handler of sends. `handled` counts them."""

    def __init__(
        self,
        intake: Intake,
        topics: Topics,
        groups: Groups,
        settings: Settings,
        rules: SendRules,
        targets: SendTargets,
        transactions: HalfMessages,
        random_below: Callable[[int], int],
    ) -> None:
        self.intake, self._topics, self._groups, self._settings = intake, topics, groups, settings
        self._rules, self._transactions, self._random_below = rules, transactions, random_below
        self._store_host, self._find_target = rules.store_host, targets.find
        self._unsaved_topics = topics.unsaved
        self.handled = 0

    def handle(
        self, header: AnySendMessageHeader, request: Command, connection: Connection
    ) -> Reply | Awaitable[Reply]:
        self.handled += 1
        try:
            if not self._rules.is_open():
                self._rules.check_open()
            target = self._find_target(header, connection.peer)
            if header.batch:
                return self._send_batch(target, header, request, connection)
            return self._send(target, header, request, connection)
        except MQError as error:
            return self._refuse(error.code, str(error))

    def _send(
        self, target: SendTarget, header: AnySendMessageHeader, request: Command, connection: Connection
    ) -> Reply | Awaitable[Reply]:
        queue_id = self._queue_of(target, header)
        if not request.body:
            raise MessageRefused("the message body length is zero")
        properties, waits, is_half = sent_properties(header.properties or "", self._rules.form(request.version))
        message = self._pending(target, queue_id, header, connection)(request.body, properties, header.flag)
        if target.is_retry:
            message = self._tried_again(message, header, request)
        put = self._put_half if is_half and not _is_retry_of_old_client(message) else self.intake.put
        topic, handle = message.topic, None
        if not is_half and b"TIMER_DE" in properties:
            message = self.intake.diverted(message)
            handle = recall_handle_of(message, self._rules.config.broker_name)
        return self._store(topic, queue_id, waits, partial(put, message), handle)

    def _send_batch(
        self, target: SendTarget, header: AnySendMessageHeader, request: Command, connection: Connection
    ) -> Reply | Awaitable[Reply]:
        """Store a batch; all of it is decoded and checked before the first message is stored."""
        if target.is_retry:
            raise MessageRefused(f"batch request does not support retry group {target.topic}")
        message_bytes_max = self._settings.store.message_bytes_max
        if len(request.body) > message_bytes_max:
            raise MessageRefused(f"a batch of {len(request.body)} bytes, limit {message_bytes_max}")
        queue_id = self._queue_of(target, header)
        shared, waits = batch_properties(header.properties or "", self._rules.form(request.version))
        messages = _each_of_batch(request.body, shared, self._pending(target, queue_id, header, connection))
        first = list(islice(messages, BATCH_AT_ONCE))
        if len(first) < BATCH_AT_ONCE:
            return self._store(target.topic, queue_id, waits, partial(self.intake.put_batch, first))
        return self._store(target.topic, queue_id, waits, partial(self._put_long_batch, first, messages))

    def _pending(
        self, target: SendTarget, queue_id: int, header: AnySendMessageHeader, connection: Connection
    ) -> Callable[[bytes | memoryview, bytes, int], PendingMessage]:
        """Return a function that makes messages; it takes body, properties and flag."""
        topic, born_ms, born_host = target.topic, header.born_timestamp, host_of_peer(connection.peer)
        store_host, sys_flag, tried = (
            self._store_host.raw,
            header.sys_flag | target.sys_flag,
            header.reconsume_times or 0,
        )
        return lambda body, properties, flag: PendingMessage(
            topic, queue_id, body, properties, born_ms, born_host, store_host, flag, sys_flag, tried
        )

    # Storing and answering

    def _store(
        self, topic: str, queue_id: int, waits: bool, put: _Put, handle: str | None = None
    ) -> Reply | Awaitable[Reply]:
        """Store and answer; for a new topic once the topic is in its file: after a crash it could not be read
        otherwise. *handle* is the recall handle of a timed message."""
        if topic not in self._unsaved_topics:
            return self._put_and_answer(queue_id, waits, put, handle)
        stored = self._topics.when_saved(topic, partial(self._put_and_answer, queue_id, waits, put, handle))
        return self._later(asyncio.shield(stored))

    def _put_and_answer(
        self, queue_id: int, waits: bool, put: _Put, handle: str | None = None
    ) -> Reply | Awaitable[Reply]:
        result = (self.intake.refusal() if waits else None) or put()
        if isinstance(result, PutResult):
            return self._answer(queue_id, waits, result, handle)
        return self._later(self._answer_to(queue_id, waits, result))

    async def _put_long_batch(self, messages: list[PendingMessage], rest: Iterator[PendingMessage]) -> PutResult:
        """Store a batch in several steps, so that it does not delay other clients. If the store fails in between, the
        earlier messages stay stored, and are duplicated if the sender retries."""
        pace = Yielder()
        appended: list[AppendResult] = []
        for message in messages:
            self.intake.check_for_batch(message)
        for message in rest:
            self.intake.check_for_batch(message)
            messages.append(message)
            await pace.pause()
        for first in range(0, len(messages), BATCH_PIECE):
            result = self.intake.put_batch(messages[first : first + BATCH_PIECE])
            if result.status is not PUT_OK:
                return result
            appended += result.appended
            await pace.pause()
        return PutResult(PUT_OK, tuple(appended))

    def _answer(
        self, queue_id: int, waits: bool, result: PutResult, handle: str | None = None
    ) -> Reply | Awaitable[Reply]:
        """Return the reply: at once, or when the messages are as durable as the sender wants."""
        if result.status is not PUT_OK:
            return self._refuse(*refusal(result, self._settings.store))
        fields = {
            "msgId": ",".join([self._store_host.message_id(appended.log_offset) for appended in result.appended]),
            "queueId": str(queue_id),
            "queueOffset": str(result.appended[0].queue_offset),
            "MSG_REGION": self._rules.region,
            "TRACE_ON": self._rules.trace_on,
        }
        if handle is not None:
            fields["recallHandle"] = handle
        durable = self.intake.durable(result) if waits else None
        return Reply(_SUCCESS, None, None, b"", fields) if durable is None else _when_durable(durable, fields)

    async def _answer_to(self, queue_id: int, waits: bool, result: Awaitable[PutResult]) -> Reply | Awaitable[Reply]:
        return self._answer(queue_id, waits, await result)

    async def _later(self, answer: Awaitable[Reply | Awaitable[Reply]]) -> Reply:
        try:
            reply = await answer
        except MQError as error:
            return self._refuse(error.code, str(error))
        return reply if isinstance(reply, Reply) else await reply

    # Special cases

    def _queue_of(self, target: SendTarget, header: AnySendMessageHeader) -> int:
        if header.queue_id >= 0:
            return header.queue_id
        if target.write_queues <= 0:
            raise BrokerError(f"the topic[{target.topic}] has no queue to write to")
        return self._random_below(target.write_queues)

    def _tried_again(self, message: PendingMessage, header: AnySendMessageHeader, request: Command) -> PendingMessage:
        """Return the message that a consumer sends to the retry topic of its group; a dead letter if its retries are
        exhausted."""
        name = message.topic.removeprefix(RETRY_PREFIX)
        group = group_of(self._groups, name)
        if not is_dead(message.reconsume_times, tries_max(group, request.version, header.max_reconsume_times)):
            return message
        topic = dead_letter_topic(name)
        retry_target(self._topics, topic, DEAD_LETTER_QUEUES)
        return msgspec.structs.replace(
            message,
            topic=topic,
            queue_id=self._random_below(DEAD_LETTER_QUEUES),
            properties=without_delay(message.properties),
        )

    def _put_half(self, message: PendingMessage) -> PutResult:
        if self._rules.config.reject_transactions:
            raise NoPermission(f"the broker[{self._store_host.host}] sending transaction message is forbidden")
        return self._transactions.put_half(message)

    def _refuse(self, code: int, remark: str) -> Reply:
        return Reply(code, remark, fields={"MSG_REGION": self._rules.region, "TRACE_ON": self._rules.trace_on})


def _each_of_batch(
    body: bytes, shared: bytes, pending: Callable[[bytes | memoryview, bytes, int], PendingMessage]
) -> Iterator[PendingMessage]:
    """Yield the messages of a batch, one at a time; *shared* are properties added to each."""
    try:
        for part in each_of_batch(body):
            if not part.body:
                raise MessageRefused("the message body length is zero in a message of the batch")
            yield pending(part.body, join_properties(part.properties, shared), part.flag)
    except RemoteProtocolError as error:
        raise MessageRefused(f"the batch is broken, nothing of it is stored: {error}") from error


def _is_retry_of_old_client(message: PendingMessage) -> bool:
    """Return whether it is from a consumer before 4.6.1, which sent a transaction's message back with all properties,
    including that of a half message."""
    return message.reconsume_times > 0 and delay_level(message.properties) > 0


async def _when_durable(durable: Awaitable[PutStatus], fields: dict[str, str]) -> Reply:
    return Reply(STORED[await durable], None, None, b"", fields)


@lru_cache(maxsize=16_384)  # open connections and some closed ones
def host_of_peer(peer: str) -> bytes:
    """Return the address of a client in the form of records."""
    return encode_host(*parse_address(peer))
