"""ReceiveMessage: a pop, held by the broker until there is a message or the client's time is over.

The messages of all queues of the broker are returned, whichever one the client names: a simple consumer would wait on
an empty queue otherwise (rmq#6496). A push consumer of an ordered group gets its queue alone.
"""

from collections.abc import Awaitable
from typing import Any, Final

from hanabi.grpc.backend.backend import Backend
from hanabi.grpc.backend.popped import deliveries
from hanabi.grpc.calls.acks import Acks
from hanabi.grpc.calls.delivered import delivered
from hanabi.grpc.calls.routes import ANY_QUEUE, known_fields, resolved
from hanabi.grpc.calls.support.access import Doorkeeper
from hanabi.grpc.calls.support.context import CallContext
from hanabi.grpc.calls.support.names import group_name, set_status, topic_name
from hanabi.grpc.calls.support.renewals import Renewals
from hanabi.grpc.proto.messages import Proto, message_class
from hanabi.grpc.proto.numbers import Code, FilterType
from hanabi.grpc.rules.durations import (
    INVISIBLE_MS_MIN,
    RENEWED_MS,
    invisible_ms,
    milliseconds,
    poll_ms,
    set_milliseconds,
)
from hanabi.grpc.rules.faults import CallRefused, code_of
from hanabi.grpc.rules.settings import EXPRESSION_CHARACTERS_MAX, RECEIVE_BATCH, GroupFacts
from hanabi.wire.bodies.heartbeat import SQL92, TAG
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.headers.v5.pop import PopMessageHeader

_AT_NEWEST: Final = 1  # where a group starts that has no offset
_ATTEMPT_CHARACTERS_MAX: Final = 128


class Receives:
    """Handler of receives."""

    def __init__(self, backend: Backend, door: Doorkeeper, acks: Acks, renewals: Renewals) -> None:
        self._backend, self._door, self._acks, self._renewals = backend, door, acks, renewals

    async def receive(self, request: Proto, context: CallContext) -> list[Proto]:
        """Return the parts of the reply: a status, messages, the time of delivery."""
        client_id = context.client_id
        topic, group = topic_name(known_fields(request.message_queue.topic)), group_name(request.group)
        self._door.check(context, RequestCode.POP_MESSAGE, (topic,), (group,))
        settings = await resolved(self._backend.group(group))
        if settings is None:
            raise CallRefused(Code.CONSUMER_GROUP_NOT_FOUND, f"there is no consumer group {group}")
        if context.peer.is_stalled:
            raise CallRefused(Code.TOO_MANY_REQUESTS, "the client leaves too many replies unread")
        hidden_ms = _hidden_ms(request)
        broker = request.message_queue.broker.name or await self._any_broker(topic)
        header = self._header(request, topic, group, settings, hidden_ms, context)
        answer = self._backend.ask(
            broker, RequestCode.POP_MESSAGE, header, b"", context.peer, header.poll_time / 1000 + 5.0
        )
        reply = await answer if isinstance(answer, Awaitable) else answer
        if reply.code != ResponseCode.SUCCESS:
            code = code_of(reply.code)
            return [_status(code, reply.remark or code.name if code is not Code.MESSAGE_NOT_FOUND else _NOTHING)]
        parts = [_status(Code.OK, "OK")]
        for each in deliveries(reply, broker):
            if each.attempt > settings.attempts_max:
                await self._acks.to_dead_letters(group, topic, each.handle, context.peer)
                continue
            parts.append(delivered(each, request.message_queue.topic, hidden_ms))
            if request.auto_renew:
                self._renewals.add(client_id, group, topic, each.handle)
        if len(parts) == 1:
            return [_status(Code.MESSAGE_NOT_FOUND, _NOTHING)]
        end = message_class("ReceiveMessageResponse")()
        set_milliseconds(end.delivery_timestamp, self._backend.now_ms())
        return [*parts, end]

    async def _any_broker(self, topic: str) -> str:
        facts = await resolved(self._backend.topic(topic))
        for broker in facts.brokers if facts is not None else ():
            if broker.readable:
                return broker.broker_name
        raise CallRefused(Code.TOPIC_NOT_FOUND, f"there is no topic {topic} that can be read")

    def _header(
        self, request: Any, topic: str, group: str, settings: GroupFacts, hidden_ms: int, context: CallContext
    ) -> PopMessageHeader:
        asked_ms = milliseconds(request.long_polling_timeout) if request.HasField("long_polling_timeout") else None
        attempt_id = request.attempt_id if request.HasField("attempt_id") else None
        if attempt_id is not None and len(attempt_id) > _ATTEMPT_CHARACTERS_MAX:
            raise CallRefused(Code.BAD_REQUEST, f"an attempt id of more than {_ATTEMPT_CHARACTERS_MAX} characters")
        is_push = request.auto_renew
        queue_id = request.message_queue.id if settings.is_ordered and is_push else ANY_QUEUE
        kind, expression = _filter(request.filter_expression)
        return PopMessageHeader(
            consumer_group=group,
            topic=topic,
            queue_id=max(queue_id, ANY_QUEUE),
            max_msg_nums=min(max(request.batch_size, 1), RECEIVE_BATCH),
            invisible_time=hidden_ms,
            poll_time=poll_ms(asked_ms, context.left_ms()),
            born_time=0,
            init_mode=_AT_NEWEST,
            exp_type=kind,
            exp=expression,
            order=settings.is_ordered,
            attempt_id=attempt_id,
        )


_NOTHING: Final = "no new message"


def _hidden_ms(request: Any) -> int:
    if request.auto_renew:
        return RENEWED_MS
    return invisible_ms(milliseconds(request.invisible_duration), INVISIBLE_MS_MIN)


def _filter(expression: Any) -> tuple[str, str | None]:
    text = expression.expression
    if len(text) > EXPRESSION_CHARACTERS_MAX:
        raise CallRefused(Code.ILLEGAL_FILTER_EXPRESSION, "the filter expression is too long")
    if expression.type == FilterType.SQL:
        return SQL92, text
    return TAG, text if text and text != "*" else None


def _status(code: Code, message: str) -> Proto:
    part = message_class("ReceiveMessageResponse")()
    set_status(part.status, code, message)
    return part
