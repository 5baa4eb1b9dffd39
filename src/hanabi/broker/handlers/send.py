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
from hanabi.broker.send.retry_rules import DEAD_LETTER_QUEUES, READ_AND_WRITE, dead_letter_topic, is_dead, tries_max
from hanabi.broker.send.rules import SendRules
from hanabi.broker.send.store_host import StoreHost
from hanabi.broker.send.stored_properties import batch_properties, delay_level, sent_properties, without_delay
from hanabi.broker.send.targets import SEE_FAQ, SendTarget, SendTargets
from hanabi.broker.settings import Settings
from hanabi.broker.tables.groups import Groups
from hanabi.broker.tables.topics import Topics
from hanabi.clock import wall_ms
from hanabi.errors import (
    BrokerError,
    MessageRefused,
    MQError,
    NoPermission,
    RemoteProtocolError,
    SubscriptionGroupNotExist,
)
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
        RequestCode.SEND_MESSAGE_V2: Handler(SendMessageV2Header, sends.handle, express=fast),
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
                self._rules.must_be_open()
            target = self._find_target(header, connection.peer)
            if header.batch:
                return self._send_batch(target, header, request, connection)
            return self._send(target, header, request, connection)
        except MQError as error:
            return self._refuse(error.code, str(error))

    def _send(
        self, target: SendTarget, header: AnySendMessageHeader, request: Command, connection: Connection
    ) -> Reply | Awaitable[Reply]:
        queue_id = header.queue_id if header.queue_id >= 0 else self._random_queue(target)
        if not request.body:
            raise MessageRefused("the message body length is zero")
        properties, waits, is_half = sent_properties(header.properties or "", self._rules.form(request.version))
        message = PendingMessage(
            target.topic,
            queue_id,
            request.body,
            properties,
            header.born_timestamp,
            host_of_peer(connection.peer),
            self._store_host.raw,
            header.flag,
            header.sys_flag | target.sys_flag,
            header.reconsume_times or 0,
        )
        if target.is_retry:
            message = self._tried_again(message, header, request)
        store = partial(self._store, message, queue_id, is_half, waits)
        return store() if message.topic not in self._unsaved_topics else self._when_saved(message.topic, store)

    def _store(self, message: PendingMessage, queue_id: int, is_half: bool, waits: bool) -> Reply | Awaitable[Reply]:
        if is_half and not _is_retry_of_old_client(message):
            result = self._put_half(message)
        else:
            result = self.intake.put(message)
        if result.status is not PUT_OK:
            return self._refuse_put(result)
        appended = result.appended[0]
        message_id = self._store_host.message_id(appended.log_offset)
        return self._answer(result, message_id, queue_id, appended.queue_offset, waits)

    def _send_batch(
        self, target: SendTarget, header: AnySendMessageHeader, request: Command, connection: Connection
    ) -> Reply | Awaitable[Reply]:
        """Store a batch; all of it is decoded and checked before the first message is stored."""
        if target.is_retry:
            raise MessageRefused(f"batch request does not support retry group {target.topic}")
        message_bytes_max = self._settings.store.message_bytes_max
        if len(request.body) > message_bytes_max:
            raise MessageRefused(f"a batch of {len(request.body)} bytes, limit {message_bytes_max}")
        queue_id = header.queue_id if header.queue_id >= 0 else self._random_queue(target)
        shared, waits = batch_properties(header.properties or "", self._rules.form(request.version))
        messages = self._each_of_batch(target, queue_id, shared, header, request, connection)
        first = list(islice(messages, BATCH_AT_ONCE))
        store = partial(self._store_batch, queue_id, waits, first, messages)
        return store() if target.topic not in self._unsaved_topics else self._when_saved(target.topic, store)

    def _store_batch(
        self,
        queue_id: int,
        waits: bool,
        first: list[PendingMessage],
        rest: Iterator[PendingMessage],
    ) -> Reply | Awaitable[Reply]:
        if len(first) == BATCH_AT_ONCE:
            return self._send_long_batch(queue_id, waits, first, rest)
        result = self.intake.put_batch(first)
        if result.status is not PUT_OK:
            return self._refuse_put(result)
        return self._answer_batch(queue_id, waits, result)

    def _each_of_batch(
        self,
        target: SendTarget,
        queue_id: int,
        shared: bytes,
        header: AnySendMessageHeader,
        request: Command,
        connection: Connection,
    ) -> Iterator[PendingMessage]:
        """Yield the messages of a batch, one at a time; *shared* are properties added to each."""
        born_host = host_of_peer(connection.peer)
        try:
            for part in each_of_batch(request.body):
                if not part.body:
                    raise MessageRefused("the message body length is zero in a message of the batch")
                yield PendingMessage(
                    target.topic,
                    queue_id,
                    part.body,
                    join_properties(part.properties, shared),
                    header.born_timestamp,
                    born_host,
                    self._store_host.raw,
                    part.flag,
                    header.sys_flag | target.sys_flag,
                    header.reconsume_times or 0,
                )
        except RemoteProtocolError as error:
            raise MessageRefused(f"the batch is broken, nothing of it is stored: {error}") from error

    async def _send_long_batch(
        self,
        queue_id: int,
        waits: bool,
        messages: list[PendingMessage],
        rest: Iterator[PendingMessage],
    ) -> Reply:
        """Store a batch in several steps, so that it does not delay other clients. If the store fails in between, the
        earlier messages stay stored, and are duplicated if the sender retries."""
        pace = Yielder()
        appended: list[AppendResult] = []
        try:
            for message in messages:
                self.intake.check_for_batch(message)
            for message in rest:
                self.intake.check_for_batch(message)
                messages.append(message)
                await pace.pause()
        except MQError as error:
            return self._refuse(error.code, str(error))
        for first in range(0, len(messages), BATCH_PIECE):
            result = self.intake.put_batch(messages[first : first + BATCH_PIECE])
            if result.status is not PUT_OK:
                return self._refuse_put(result)
            appended += result.appended
            await pace.pause()
        reply = self._answer_batch(queue_id, waits, PutResult(PUT_OK, tuple(appended)))
        return reply if isinstance(reply, Reply) else await reply

    def _answer_batch(self, queue_id: int, waits: bool, result: PutResult) -> Reply | Awaitable[Reply]:
        message_ids = [self._store_host.message_id(appended.log_offset) for appended in result.appended]
        return self._answer(result, ",".join(message_ids), queue_id, result.appended[0].queue_offset, waits)

    def _answer(
        self, result: PutResult, message_id: str, queue_id: int, queue_offset: int, waits: bool
    ) -> Reply | Awaitable[Reply]:
        """Return the reply: at once, or when the message is as durable as the sender wants."""
        fields = {
            "msgId": message_id,
            "queueId": str(queue_id),
            "queueOffset": str(queue_offset),
            "MSG_REGION": self._rules.region,
            "TRACE_ON": self._rules.trace_on,
        }
        durable = self.intake.durable(result) if waits else None
        return Reply(_SUCCESS, None, None, b"", fields) if durable is None else _when_durable(durable, fields)

    def _when_saved(self, topic: str, store: Callable[[], Reply | Awaitable[Reply]]) -> Awaitable[Reply]:
        """Store a message for a new topic once the topic is in its file: after a crash it could not be read
        otherwise."""
        return self._when_stored(self._topics.when_saved(topic, store))

    async def _when_stored(self, stored: Awaitable[Reply | Awaitable[Reply]]) -> Reply:
        try:
            answer = await asyncio.shield(stored)
        except MQError as error:
            return self._refuse(error.code, str(error))
        return answer if isinstance(answer, Reply) else await answer

    # Special cases

    def _random_queue(self, target: SendTarget) -> int:
        if target.write_queues <= 0:
            raise BrokerError(f"the topic[{target.topic}] has no queue to write to")
        return self._random_below(target.write_queues)

    def _tried_again(self, message: PendingMessage, header: AnySendMessageHeader, request: Command) -> PendingMessage:
        """Return the message that a consumer sends to the retry topic of its group; a dead letter if its retries are
        exhausted."""
        group_name = message.topic.removeprefix(RETRY_PREFIX)
        group = self._groups.find(group_name)
        if group is None:
            raise SubscriptionGroupNotExist(f"subscription group not exist, {group_name} {SEE_FAQ}")
        if not is_dead(message.reconsume_times, tries_max(group, request.version, header.max_reconsume_times)):
            return message
        topic = dead_letter_topic(group_name)
        if self._topics.create_on_send_back(topic, DEAD_LETTER_QUEUES, READ_AND_WRITE) is None:
            raise BrokerError(f"topic[{topic}] not exist")
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

    def _refuse_put(self, result: PutResult) -> Reply:
        return self._refuse(*refusal(result, self._settings.store))

    def _refuse(self, code: int, remark: str) -> Reply:
        return Reply(code, remark, fields={"MSG_REGION": self._rules.region, "TRACE_ON": self._rules.trace_on})


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
