"""Telling hooks of sends: before, so that they can add properties, and after, how it ended.

Only on the way of producers that have hooks; see `hooks` for what hooks may do.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hanabi.client.hooks import MessageKind, SendContext, SendHooks
from hanabi.client.validation import check_kind
from hanabi.errors import SendFailed
from hanabi.message import Message


def kind_of(message: Message) -> MessageKind:
    check_kind(message)
    return MessageKind.DELAY if message.delay_level or message.deliver_time_ms else MessageKind.NORMAL


@contextmanager
def told(
    hooks: SendHooks, group: str, client_id: str, messages: Sequence[Message], kind: MessageKind
) -> Iterator[SendContext]:
    """What is done inside is a send of *messages*; whoever does it fills in the context."""
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
