"""Hooks around sends, consumption and ends of transactions: for traces, metrics and programs.

A failing hook is logged and does not affect the work. Hooks run in the event loop, so they must not block.

Same interfaces as Java's SendMessageHook, ConsumeMessageHook and EndTransactionHook, but a send is reported once, not
once per attempt.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any, Protocol, TypeVar

import msgspec

from hanabi.client.send_result import SendResult, TransactionState
from hanabi.clock import wall_ms
from hanabi.message import Message, MessageQueue, StoredMessage

logger = logging.getLogger(__name__)

C = TypeVar("C")


class MessageKind(Enum):
    """Kind of a message. The numbers are those of Java's MessageType, which traces carry."""

    NORMAL = 0
    TRANSACTION_HALF = 1
    TRANSACTION_COMMIT = 2
    DELAY = 3

    def __str__(self) -> str:
        return self.name


class ConsumeOutcome(Enum):
    """Outcome of a listener call. The numbers are those of Java's ConsumeReturnType, which traces carry."""

    SUCCESS = 0
    TIME_OUT = 1  # it took longer than the consume timeout, regardless of its result
    EXCEPTION = 2  # it raised
    RETURNED_NOTHING = 3  # in Java only
    FAILED = 4  # it asked for redelivery

    def __str__(self) -> str:
        return self.name


class SendContext(msgspec.Struct, kw_only=True):
    """One send, of one message or of a batch.

    `before_send` sees the first part and may add `properties` to the message. `after_send` sees all; either `result` or
    `error` is set. Names are those that the program uses, without namespace. `notes` are for hooks that keep state in
    between.
    """

    group: str
    messages: Sequence[Message]
    kind: MessageKind = MessageKind.NORMAL
    client_id: str = ""
    began_ms: int = msgspec.field(default_factory=wall_ms)
    properties: dict[str, str] = msgspec.field(default_factory=dict)

    message_id: str = ""  # of a batch: those of all its messages, separated by commas
    body_bytes: int = 0  # as sent, perhaps compressed
    broker_address: str = ""  # of the broker that stored it, or that was tried last
    result: SendResult | None = None
    error: BaseException | None = None

    notes: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def topic(self) -> str:
        return self.messages[0].topic


class ConsumeContext(msgspec.Struct, kw_only=True):
    """One call of a listener. `before_consume` sees the first part, `after_consume` all of it."""

    group: str
    queue: MessageQueue
    messages: Sequence[StoredMessage]
    client_id: str = ""
    began_ms: int = msgspec.field(default_factory=wall_ms)

    outcome: ConsumeOutcome = ConsumeOutcome.SUCCESS
    error: BaseException | None = None

    notes: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def success(self) -> bool:
        return self.outcome is ConsumeOutcome.SUCCESS


class EndTransactionContext(msgspec.Struct, kw_only=True):
    """The end of a transaction, as sent to the broker."""

    group: str
    message: Message | StoredMessage
    message_id: str
    transaction_id: str
    broker_address: str
    state: TransactionState
    from_check: bool  # the broker asked for it
    client_id: str = ""
    began_ms: int = msgspec.field(default_factory=wall_ms)


class SendHook(Protocol):
    """Called around each send."""

    def before_send(self, context: SendContext) -> None: ...

    def after_send(self, context: SendContext) -> None: ...


class ConsumeHook(Protocol):
    """Called around each call of a listener."""

    def before_consume(self, context: ConsumeContext) -> None: ...

    def after_consume(self, context: ConsumeContext) -> None: ...


class EndTransactionHook(Protocol):
    """Called when the end of a transaction was sent to the broker."""

    def end_transaction(self, context: EndTransactionContext) -> None: ...


def call_hooks(hooks: Iterable[Callable[[C], None]], context: C) -> None:
    """Call each of *hooks*; log what they raise."""
    for hook in hooks:
        try:
            hook(context)
        except Exception:
            logger.exception("a hook failed: %r", hook)


class SendHooks:
    """Send hooks of one producer; false when there are none, so that no context is made."""

    def __init__(self, hooks: Sequence[SendHook] = ()) -> None:
        self._hooks = tuple(hooks)

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def before(self, context: SendContext) -> None:
        call_hooks([hook.before_send for hook in self._hooks], context)

    def after(self, context: SendContext) -> None:
        call_hooks([hook.after_send for hook in reversed(self._hooks)], context)


class ConsumeHooks:
    """Consume hooks of one consumer; false when there are none."""

    def __init__(self, hooks: Sequence[ConsumeHook] = ()) -> None:
        self._hooks = tuple(hooks)

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def before(self, context: ConsumeContext) -> None:
        call_hooks([hook.before_consume for hook in self._hooks], context)

    def after(self, context: ConsumeContext) -> None:
        call_hooks([hook.after_consume for hook in reversed(self._hooks)], context)


def report_pulled(hooks: ConsumeHooks, group: str, client_id: str, messages: Sequence[StoredMessage]) -> None:
    """Report pulled *messages* as consumed, as Java's pull consumers do: their actual processing cannot be observed."""
    by_queue: dict[MessageQueue, list[StoredMessage]] = {}
    for message in messages:
        by_queue.setdefault(message.queue, []).append(message)
    for queue, some in by_queue.items():
        context = ConsumeContext(group=group, queue=queue, messages=some, client_id=client_id)
        hooks.before(context)
        hooks.after(context)
