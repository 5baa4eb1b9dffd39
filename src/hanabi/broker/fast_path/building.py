"""The fast path of a broker, made of the parts that its handlers hand in."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from hanabi.broker.fast_path.contract import PullDecisions, SendPath
from hanabi.broker.fast_path.counts import Counts, Handled
from hanabi.broker.fast_path.flushed import AnswersOnFlush
from hanabi.broker.send.intake import Intake
from hanabi.broker.send.rules import SendRules
from hanabi.broker.send.targets import SendTargets
from hanabi.remoting.connection.dispatch import Handler
from hanabi.store.message_store import MessageStore
from hanabi.wire.codes import RequestCode

if TYPE_CHECKING:
    from hanabi.broker.fast_path.path import FastPath
    from hanabi.broker.fast_path.pulls import FastPulls


class SendPart(NamedTuple):
    """The fast path's part for sends."""

    path: SendPath
    intake: Intake
    handler: Handled


class PullPart(NamedTuple):
    """The fast path's part for pulls."""

    path: "FastPulls"
    handler: Handled


def is_compiled() -> bool:
    """Return whether the fast path is built, and wanted."""
    if os.environ.get("HANABI_PURE_PYTHON"):
        return False
    try:
        from hanabi.broker.fast_path import _sends  # noqa: F401
    except ImportError:
        return False
    return True


def send_part(
    rules: SendRules, targets: SendTargets, intake: Intake, host_of_peer: Callable[[str], bytes], handler: Handled
) -> SendPart | None:
    """Make the part for sends; None if it is not compiled."""
    writer = intake.store.run_writer() if is_compiled() else None
    if writer is None:
        return None
    from hanabi.broker.fast_path._sends import FastSends
    from hanabi.broker.fast_path.replies import send_replies

    return SendPart(FastSends(writer, rules, targets, intake, host_of_peer, send_replies), intake, handler)


def pull_part(decisions: PullDecisions, store: MessageStore) -> PullPart | None:
    """Make the part for pulls; None if it is not compiled."""
    messages = store.read_ahead() if is_compiled() else None
    if messages is None:
        return None
    from hanabi.broker.fast_path.pulls import FastPulls
    from hanabi.broker.fast_path.replies import pull_replies

    return PullPart(FastPulls(decisions, messages, pull_replies()), decisions)


def fast_path(handlers: Mapping[int, Handler]) -> "FastPath | None":
    """Make the fast path of the parts that *handlers* carry; None if they carry none."""
    sends, pulls = (
        handlers[code].express if code in handlers else None
        for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE)
    )
    if sends is None and pulls is None:
        return None
    from hanabi.broker.fast_path.path import FastPath

    send = pull = flushed = None
    if isinstance(sends, SendPart):
        send = sends.path, Counts("send", sends.handler)
        flushed = AnswersOnFlush(sends.intake) if sends.intake.waits_for_disk else None
    if isinstance(pulls, PullPart):
        pull = pulls.path, Counts("pull", pulls.handler)
    return FastPath(send, pull, flushed)
