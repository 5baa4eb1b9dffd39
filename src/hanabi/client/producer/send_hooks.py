"""Calls of hooks around sends: before, so that they can add properties, and after, with the result.

Used only by producers that have hooks; `hooks` documents the rules for hooks.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hanabi.client.hooks import MessageKind, SendContext, SendHooks
from hanabi.client.validation import check_kind
from hanabi.errors import SendFailed
from hanabi.message import Message


def kind_of(message: Message) -> MessageKind:
    check_kind(message)
    return MessageKind.DELAY if message.is_delayed else MessageKind.NORMAL


@contextmanager
def hooked_send(
    hooks: SendHooks, group: str, client_id: str, messages: Sequence[Message], kind: MessageKind
) -> Iterator[SendContext]:
    """Run the block as one send of *messages*, with hooks called around it; the block fills in the context."""
    context = SendContext(group=group, messages=messages, kind=kind, client_id=client_id)
    hooks.before(context)
    try:
        yield context
    except BaseException as error:
        context.error = error
        if isinstance(error, SendFailed) and error.attempts:
            context.broker_address = error.attempts[-1].address or ""
        raise
    finally:
        hooks.after(context)
