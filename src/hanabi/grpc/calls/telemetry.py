"""Telemetry: settings of a client, its session, and commands of brokers to it."""

import asyncio
import logging
import uuid
from collections.abc import Mapping
from typing import Any, Final, Protocol

from hanabi.errors import ConnectionLostError, MQError
from hanabi.grpc.backend.backend import Backend
from hanabi.grpc.calls.delivered import checked_message
from hanabi.grpc.calls.routes import resolved
from hanabi.grpc.calls.support.access import Doorkeeper
from hanabi.grpc.calls.support.context import CallContext
from hanabi.grpc.calls.support.names import group_name, set_status, topic_name
from hanabi.grpc.calls.support.sessions import TOPICS_MAX, Session, Sessions
from hanabi.grpc.proto.messages import Proto, message_class
from hanabi.grpc.proto.numbers import Code, FilterType, RpcStatus
from hanabi.grpc.rules.faults import CallRefused, delay_of, fault_of
from hanabi.grpc.rules.handles import Transaction
from hanabi.grpc.rules.settings import check_settings, complete_publishing, complete_subscription
from hanabi.wire.bodies.clients import ConsumeMessageDirectlyResult, ConsumeResult, ConsumerRunningInfo
from hanabi.wire.bodies.heartbeat import SQL92, TAG, SubscriptionData
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import encode_body
from hanabi.wire.header import Header
from hanabi.wire.headers.transaction import CheckTransactionStateHeader
from hanabi.wire.message.tags import subscribed_tags

UNSENT_BYTES_MAX: Final = 1024 * 1024  # of commands to one client
ASKED_MAX: Final = 64  # commands to one client that wait for an answer
SETTINGS_WAITING_MAX: Final = 16

logger = logging.getLogger(__name__)


class Outlet(Protocol):
    """The sending side of a call that goes both ways."""

    def send(self, message: Proto) -> None:
        """Send a message."""

    def end(self, status: RpcStatus, text: str) -> None:
        """End the call."""

    def unsent_bytes(self) -> int:
        """Return the bytes that the client has not read yet."""


class Telemetry:
    """Handler of Telemetry streams."""

    def __init__(self, backend: Backend, door: Doorkeeper, sessions: Sessions) -> None:
        self.backend, self.door, self.sessions = backend, door, sessions
        self._open: set[TelemetryStream] = set()

    def open(self, context: CallContext, outlet: Outlet) -> "TelemetryStream":
        """Begin a stream."""
        stream = TelemetryStream(self, context, outlet)
        self._open.add(stream)
        return stream

    def closed(self, stream: "TelemetryStream") -> None:
        """Forget a stream that has ended."""
        self._open.discard(stream)

    async def stop(self) -> None:
        """End the work of all streams."""
        for stream in list(self._open):
            stream.ended()
        await asyncio.sleep(0)


class TelemetryStream:
    """One stream: a `Conversation`, and the line of a session."""

    def __init__(self, telemetry: Telemetry, context: CallContext, outlet: Outlet) -> None:
        self._telemetry, self._context, self._outlet = telemetry, context, outlet
        self._session: Session | None = None
        self._asked: dict[str, asyncio.Future[Command]] = {}
        self._waiting: list[Proto] = []
        self._task: asyncio.Task[None] | None = None
        self._has_ended = False

    # Conversation

    def received(self, message: Proto) -> None:
        """Take a command of the client."""
        kind = message.WhichOneof("command")
        if kind == "settings":
            if len(self._waiting) >= SETTINGS_WAITING_MAX:
                self._outlet.end(RpcStatus.RESOURCE_EXHAUSTED, "too many settings")
                return
            self._waiting.append(message.settings)
            if self._task is None:
                self._task = asyncio.create_task(self._take_settings())
        elif kind == "thread_stack_trace":
            trace = message.thread_stack_trace
            info = ConsumerRunningInfo(jstack=trace.thread_stack_trace)
            self._answered(trace.nonce, message.status, encode_body(info))
        elif kind == "verify_message_result":
            is_good = message.status.code in (0, Code.OK)
            result = ConsumeResult.SUCCESS if is_good else ConsumeResult.LATER
            verdict = ConsumeMessageDirectlyResult(consume_result=result.value, remark=message.status.message or None)
            self._answered(message.verify_message_result.nonce, None, encode_body(verdict))

    def ended(self) -> None:
        """End the session: the stream is lost, or the client closes it."""
        if self._has_ended:
            return
        self._has_ended = True
        if self._task is not None:
            self._task.cancel()
        for future in self._asked.values():
            if not future.done():
                future.set_exception(ConnectionLostError("the client's stream is lost"))
        self._asked.clear()
        if self._session is not None:
            self._telemetry.sessions.close(self._session)
        self._telemetry.closed(self)

    # Settings

    async def _take_settings(self) -> None:
        try:
            while self._waiting:
                settings = self._waiting.pop(0)
                await self._use(settings)
        except MQError as error:
            if seconds := delay_of(error):
                await asyncio.sleep(seconds)
            self._refuse(error)
        finally:
            self._task = None

    def _refuse(self, error: MQError) -> None:
        """Answer settings that are not accepted, and end the stream."""
        code, text = fault_of(error)
        reply = message_class("TelemetryCommand")()
        set_status(reply.status, code, text)
        self._outlet.send(reply)
        self._outlet.end(RpcStatus.INVALID_ARGUMENT, text)

    async def _use(self, settings: Proto) -> None:
        telemetry, context = self._telemetry, self._context
        client_id = context.client_id
        context.request_bytes, context.meter = settings.ByteSize(), None  # each one is a request
        check_settings(settings)
        if settings.WhichOneof("pub_sub") == "publishing":
            topics = [topic_name(each) for each in settings.publishing.topics]
            telemetry.door.check(context, RequestCode.SEND_MESSAGE_V2, tuple(topics))
            complete_publishing(settings, validates_type=True)
            session = self._joined(client_id)
            all_topics = dict.fromkeys((*session.topics, *topics))
            if len(all_topics) > TOPICS_MAX:
                raise CallRefused(Code.BAD_REQUEST, f"more than {TOPICS_MAX} topics of one producer")
            session.topics = all_topics
        else:
            session = await self._subscribe(settings, client_id)
        reply = message_class("TelemetryCommand")(settings=settings)
        set_status(reply.status)
        self._outlet.send(reply)
        await telemetry.sessions.tell(session)

    async def _subscribe(self, settings: Proto, client_id: str) -> Session:
        telemetry, subscription = self._telemetry, settings.subscription
        group = group_name(subscription.group)
        entries = tuple(self._subscription(each) for each in subscription.subscriptions)
        topics = tuple(each.topic for each in entries)
        telemetry.door.check(self._context, RequestCode.HEART_BEAT, topics, (group,))
        facts = await resolved(telemetry.backend.group(group))
        if facts is None:
            raise CallRefused(Code.CONSUMER_GROUP_NOT_FOUND, f"there is no consumer group {group}: create it first")
        complete_subscription(settings, facts)
        session = self._joined(client_id)
        if session.group is not None and session.group != group:
            raise CallRefused(Code.BAD_REQUEST, f"the client is a member of {session.group} already")
        session.group, session.subscriptions = group, entries
        return session

    def _subscription(self, entry: Any) -> SubscriptionData:
        text = entry.expression.expression or "*"
        version = self._telemetry.backend.now_ms()
        topic = topic_name(entry.topic)
        if entry.expression.type == FilterType.SQL:
            return SubscriptionData(topic=topic, sub_string=text, expression_type=SQL92, sub_version=version)
        tags, codes = ([], []) if text == "*" else subscribed_tags(text)
        return SubscriptionData(
            topic=topic,
            sub_string=text,
            expression_type=TAG,
            sub_version=version,
            tags_set=tags,
            code_set=codes,
        )

    def _joined(self, client_id: str) -> Session:
        if self._session is None:
            peer = self._context.peer
            self._session = self._telemetry.sessions.open(client_id, peer.peer, lambda: peer.is_stalled, self)
        return self._session

    # Line

    def notify(self, code: int, header: Header | Mapping[str, str] | None, body: bytes) -> None:
        """Send the check of a transaction. Notices about groups have no form here: push consumers ask by themselves."""
        if code != RequestCode.CHECK_TRANSACTION_STATE or not isinstance(header, CheckTransactionStateHeader):
            return
        self._must_have_room()
        message = checked_message(body, header.topic or "")
        place = Transaction(
            header.target_broker or self._telemetry.backend.broker_name,
            header.tran_state_table_offset,
            header.commit_log_offset,
            header.msg_id or "",
        )
        command = message_class("TelemetryCommand")()
        check = command.recover_orphaned_transaction_command
        check.message.CopyFrom(message)
        check.transaction_id = place.encode()
        set_status(command.status)
        self._outlet.send(command)

    def ask(self, code: int, header: Header | Mapping[str, str] | None, body: bytes) -> "asyncio.Future[Command]":
        """Send a command that the client answers: consume a message now, or return the stacks of its threads."""
        self._must_have_room()
        if len(self._asked) >= ASKED_MAX:
            raise ConnectionLostError(f"the client has {ASKED_MAX} commands to answer already")
        nonce = uuid.uuid4().hex
        command = message_class("TelemetryCommand")()
        if code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
            verify = command.verify_message_command
            verify.nonce = nonce
            verify.message.CopyFrom(checked_message(body, ""))
        elif code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            command.print_thread_stack_trace_command.nonce = nonce
        else:
            raise ConnectionLostError(f"gRPC clients do not answer request {code}")
        future = self._asked[nonce] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda _: self._asked.pop(nonce, None))
        set_status(command.status)
        self._outlet.send(command)
        return future

    def unsent_bytes(self) -> int:
        """Return the bytes that wait for the client to read."""
        return self._outlet.unsent_bytes()

    def _must_have_room(self) -> None:
        if self._has_ended or self._outlet.unsent_bytes() > UNSENT_BYTES_MAX:
            raise ConnectionLostError(f"{self._context.peer.peer}: the client does not read its commands")

    def _answered(self, nonce: str, status: Any, body: bytes) -> None:
        future = self._asked.get(nonce)
        if future is None or future.done():
            return
        is_refused = status is not None and status.code not in (0, Code.OK)
        code = ResponseCode.SYSTEM_ERROR if is_refused else ResponseCode.SUCCESS
        future.set_result(Command(code=code, remark=status.message if is_refused else None, body=body))
