"""The fast path of a broker, made of the parts that its handlers hand in."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar, cast

from hanabi.broker.fast_path.contract import PullDecisions, SendPath, Terms
from hanabi.broker.fast_path.counts import Counts, Handled
from hanabi.broker.fast_path.durable import DurableSends
from hanabi.broker.send.intake import Intake
from hanabi.broker.send.rules import SendRules
from hanabi.broker.send.targets import SendTargets
from hanabi.remoting.connection.dispatch import Handler
from hanabi.store.fast_path.loading import run_writer
from hanabi.store.message_store import MessageStore
from hanabi.wire.codes import RequestCode

if TYPE_CHECKING:
    from hanabi.broker.fast_path.path import FastPath
    from hanabi.broker.fast_path.pulls import FastPulls

PathT = TypeVar("PathT")


class Part(NamedTuple, Generic[PathT]):
    """Part that a handler brings to the fast path, and its counts."""

    path: PathT
    counts: Counts


def is_compiled() -> bool:
    """Return whether the fast path is built, and wanted. Its modules are built together."""
    return run_writer() is not None


def send_part(
    rules: SendRules, targets: SendTargets, intake: Intake, host_of_peer: Callable[[str], bytes], handler: Handled
) -> Part[SendPath] | None:
    """Make the part for sends; None if it is not compiled."""
    writer = intake.store.run_writer()
    if writer is None:
        return None
    from hanabi.broker.fast_path._sends import FastSends
    from hanabi.broker.fast_path.replies import send_replies

    path = FastSends(writer, rules, targets, intake, host_of_peer, send_replies)
    return Part(DurableSends(path, intake) if intake.durability.is_awaited else path, Counts("send", handler, path))


def pull_part(decisions: PullDecisions, store: MessageStore) -> "Part[FastPulls] | None":
    """Make the part for pulls; None if it is not compiled."""
    messages = store.read_ahead()
    if messages is None:
        return None
    from hanabi.broker.fast_path.pulls import FastPulls
    from hanabi.broker.fast_path.replies import pull_replies

    path = FastPulls(decisions, messages, pull_replies())
    return Part(path, Counts("pull", decisions, path))


def guard_parts(handlers: Mapping[int, Handler], terms: Terms) -> dict[int, Handler]:
    """Return those of *handlers* that carry a part, which takes from now on only what *terms* allow."""
    carriers = {code: handler for code, handler in handlers.items() if isinstance(handler.fast_path, Part)}
    if carriers:
        from hanabi.broker.fast_path._admission import Admission

        admission = Admission(terms)
        for handler in carriers.values():
            cast("Part[SendPath | FastPulls]", handler.fast_path).path.guard(admission)
    return carriers


def build_fast_path(handlers: Mapping[int, Handler]) -> "FastPath | None":
    """Make the fast path of the parts that *handlers* carry; None if they carry none."""
    sends, pulls = (
        handlers[code].fast_path if code in handlers else None
        for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE)
    )
    parts = [part for part in (sends, pulls) if isinstance(part, Part)]
    if not parts:
        return None
    from hanabi.broker.fast_path.path import FastPath

    send, pull = (part.path if isinstance(part, Part) else None for part in (sends, pulls))
    return FastPath(send, pull, [part.counts for part in parts])
