"""The fast path of a broker, made of the parts that its handlers hand in."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from hanabi.broker.fast_path.contract import Answers, Peer, Terms
from hanabi.broker.fast_path.counts import Counts, Handled
from hanabi.broker.fast_path.durable import DurableSends
from hanabi.broker.pull.decisions import PullDecisions
from hanabi.broker.send.intake import Intake
from hanabi.broker.send.rules import SendRules
from hanabi.broker.send.targets import SendTargets
from hanabi.remoting.connection.dispatch import Handler
from hanabi.store.fast_path.loading import run_writer
from hanabi.store.message_store import MessageStore
from hanabi.wire.codes import RequestCode

if TYPE_CHECKING:
    from hanabi.broker.fast_path._sends import FastSends
    from hanabi.broker.fast_path.path import FastPath
    from hanabi.broker.fast_path.pulls import FastPulls


class SendPart(NamedTuple):
    """Part that the handler of sends brings to the fast path. `answer` waits for durability if senders do."""

    path: "FastSends"
    counts: Counts
    answer: Callable[[bytes, Peer], Answers]


class PullPart(NamedTuple):
    """Part that the handler of pulls brings to the fast path."""

    path: "FastPulls"
    counts: Counts


def is_compiled() -> bool:
    """Return whether the fast path is built, and wanted. Its modules are built together."""
    return run_writer() is not None


def send_part(
    rules: SendRules, targets: SendTargets, intake: Intake, host_of_peer: Callable[[str], bytes], handler: Handled
) -> SendPart | None:
    """Make the part for sends; None if it is not compiled."""
    writer = intake.store.run_writer()
    if writer is None:
        return None
    from hanabi.broker.fast_path._sends import FastSends
    from hanabi.broker.fast_path.replies import send_replies

    path = FastSends(writer, rules, targets, intake, host_of_peer, send_replies)
    answer = DurableSends(path, intake).answer if intake.durability.is_awaited else path.answer
    return SendPart(path, Counts("send", handler, path), answer)


def pull_part(decisions: PullDecisions, store: MessageStore) -> PullPart | None:
    """Make the part for pulls; None if it is not compiled."""
    messages = store.read_ahead()
    if messages is None:
        return None
    from hanabi.broker.fast_path.pulls import FastPulls
    from hanabi.broker.fast_path.replies import pull_replies

    path = FastPulls(decisions, messages, pull_replies())
    return PullPart(path, Counts("pull", decisions, path))


def guard_parts(handlers: Mapping[int, Handler], terms: Terms) -> dict[int, Handler]:
    """Return those of *handlers* that carry a part, which takes from now on only what *terms* allow."""
    parts = {
        code: part for code, handler in handlers.items() if isinstance(part := handler.fast_path, SendPart | PullPart)
    }
    if parts:
        from hanabi.broker.fast_path._admission import Admission

        admission = Admission(terms)
        for part in parts.values():
            part.path.guard(admission)
    return {code: handlers[code] for code in parts}


def build_fast_path(handlers: Mapping[int, Handler]) -> "FastPath | None":
    """Make the fast path of the parts that *handlers* carry; None if they carry none."""
    sends, pulls = (
        handlers[code].fast_path if code in handlers else None
        for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE)
    )
    send, pull = sends if isinstance(sends, SendPart) else None, pulls if isinstance(pulls, PullPart) else None
    if send is None and pull is None:
        return None
    from hanabi.broker.fast_path.path import FastPath

    counts = [part.counts for part in (send, pull) if part is not None]
    return FastPath(send and send.answer, pull and pull.path, counts)
