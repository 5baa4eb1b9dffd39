"""The dearest request that a server must accept, for one request code: what it is, and why nothing is dearer."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hanabi.wire.command import Command
from hanabi.wire.header import Header
from tests.broker.talk import Peer

SUCCESS: Final = frozenset({0})


@dataclass(frozen=True)
class Request:
    """One request, without its code."""

    header: Header | Mapping[str, str] | None = None
    body: bytes = b""


@dataclass
class World:
    """The servers under test, and what the inputs need to know of them."""

    broker: str
    namesrv: str
    member: Peer  # in groups of consumers and producers; answers whatever it is asked
    large_message: int = 0  # where in the log a message of the largest size lies
    large_message_id: str = ""
    round: int = 0  # counts up: names that must be new have it in them
    halves: list[Command] = field(default_factory=list)  # answers to sends of half messages


Requests = Callable[[World], Sequence[Request]]


@dataclass(frozen=True)
class Worst:
    """All *requests* are sent at once on one connection. Each answer must be one of *answers*: an input that is refused
    at the door proves nothing."""

    why: str
    requests: Requests
    answers: frozenset[int] = SUCCESS
    before: Callable[[World], Awaitable[None]] | None = None  # what must be there for the request to be dear


def times(count: int, header: Header | Mapping[str, str] | None = None, body: bytes = b"") -> Requests:
    """Return the same request, pipelined."""
    return lambda _: [Request(header, body)] * count
