"""What calls need from the brokers behind them. Requests and replies are those of remoting, by typed header.

`broker/`'s own handlers answer them in one implementation, brokers of a cluster in the other: `local.py`, `cluster.py`.
"""

from collections.abc import Awaitable
from typing import Protocol

import msgspec

from hanabi.grpc.backend.peer import Peer
from hanabi.grpc.rules.settings import GroupFacts
from hanabi.remoting.connection.dispatch import Reply
from hanabi.wire.header import Header, header_fields


class BrokerQueues(msgspec.Struct, frozen=True):
    """Queues of a topic at one broker; *perm* has the bits of remoting: 4 read, 2 write."""

    broker_name: str
    read_queues: int
    write_queues: int
    perm: int

    @property
    def readable(self) -> int:
        """The number of queues that consumers may read."""
        return self.read_queues if self.perm & 4 else 0

    @property
    def writable(self) -> int:
        """The number of queues that producers may write."""
        return self.write_queues if self.perm & 2 else 0


class TopicFacts(msgspec.Struct, frozen=True):
    """A topic: its queues on all brokers, and the type of its messages, None if it has none."""

    brokers: tuple[BrokerQueues, ...]
    message_type: str | None = None


class Backend(Protocol):
    """The brokers."""

    @property
    def broker_name(self) -> str:
        """The broker of requests to clients that do not name theirs."""

    def now_ms(self) -> int:
        """Return the time of the brokers."""

    def delay_ms_max(self) -> int:
        """Return the longest delay of a message."""

    def topic(self, name: str) -> "Awaitable[TopicFacts | None] | TopicFacts | None":
        """Return the facts about a topic; None if no broker has it."""

    def group(self, name: str) -> "Awaitable[GroupFacts | None] | GroupFacts | None":
        """Return the settings of a group; None if there is none and brokers create none."""

    def ask(
        self, broker_name: str, code: int, header: Header, body: bytes, peer: Peer, seconds: float = 3.0
    ) -> Reply | Awaitable[Reply]:
        """Ask one broker. *seconds* is for one that is reached by the network. A broker that is not there is an
        MQError, like each failure."""

    def join(self, peer: Peer, heartbeat: bytes) -> Awaitable[Reply]:
        """Tell the brokers of a client and its groups; *heartbeat* is the body of a heartbeat of remoting."""

    def leave(self, peer: Peer, *, consumer_group: str | None, producer_groups: tuple[str, ...]) -> None:
        """Tell the brokers that a client has left its groups."""


def fields_of(reply: Reply) -> dict[str, str]:
    """Return the header fields of a reply as text."""
    if reply.fields is not None:
        return reply.fields
    return header_fields(reply.header) if reply.header is not None else {}
