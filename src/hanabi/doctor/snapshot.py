"""What was heard from a cluster: all that the rules know. Values only."""

from collections.abc import Iterable

from msgspec import field

from hanabi.admin.access import BrokerAt
from hanabi.admin.answer import Answer
from hanabi.client.cluster.routes import MASTER_ID
from hanabi.wire.bodies.absent import AbsentBroker


class NameServerSeen(Answer, frozen=True, kw_only=True):
    """One name server: what it tells clients, or why it tells nothing."""

    address: str
    asked_for: bool  # by whoever runs the diagnosis; else a broker named it
    loopback: bool = False  # its address means "this machine", on every machine
    problem: str | None = None
    version: int = 0  # the ordinal of Java's MQVersion
    brokers: tuple[BrokerAt, ...] = ()
    topics: frozenset[str] = frozenset()
    absent: tuple[AbsentBroker, ...] = ()  # brokers that it misses; those that were replaced are there all the same


class BrokerSeen(Answer, frozen=True, kw_only=True):
    """One broker at one address that clients are told: what it says of itself, or why it says nothing."""

    at: BrokerAt
    told_by: tuple[str, ...]  # name servers
    loopback: bool = False
    unreachable: str | None = None
    refused: str | None = None  # it is there, but does not answer us
    runtime: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    clock_ahead_ms: int | None = None  # of ours; None where it does not say
    clock_unsure_ms: int = 0  # how far that may be off

    @property
    def answers(self) -> bool:
        return self.unreachable is None and self.refused is None

    @property
    def is_master(self) -> bool:
        return self.at.broker_id == MASTER_ID

    @property
    def is_ours(self) -> bool:
        return "groupsSubscribingDifferently" in self.runtime

    @property
    def version(self) -> str | None:
        return self.runtime.get("brokerVersionDesc")


class QueuesSeen(Answer, frozen=True, kw_only=True):
    """The queues of a topic on one broker, as clients are told."""

    broker: str
    read_queues: int
    write_queues: int
    has_address: bool


class TopicSeen(Answer, frozen=True, kw_only=True):
    """A topic of users, as clients are told. `ordered_on` are the brokers that an ordered topic is fixed to."""

    topic: str
    queues: tuple[QueuesSeen, ...]
    ordered_on: tuple[str, ...] = ()


class GroupSeen(Answer, frozen=True, kw_only=True):
    """A group of users: its members, what they subscribe to, and how far behind it was at two moments."""

    group: str
    members: frozenset[str] = frozenset()
    message_model: str | None = None
    topics: frozenset[str] = frozenset()  # that it subscribes to now
    opinions: dict[str, tuple[str, ...]] = field(default_factory=dict)  # what is subscribed to, in words -> by whom
    lag: int = 0
    lag_later: int = 0


class DeadLettersSeen(Answer, frozen=True, kw_only=True):
    """How many dead letters of a group waited at two moments."""

    group: str
    waiting: int
    waiting_later: int


class Snapshot(Answer, frozen=True, kw_only=True):
    """All that was heard. Between the two moments lay `seconds`."""

    name_servers: tuple[NameServerSeen, ...] = ()
    brokers: tuple[BrokerSeen, ...] = ()
    topics: tuple[TopicSeen, ...] = ()
    groups: tuple[GroupSeen, ...] = ()
    dead_letters: tuple[DeadLettersSeen, ...] = ()
    seconds: float = 0.0

    @property
    def told(self) -> tuple[NameServerSeen, ...]:
        """The name servers that answered."""
        return tuple(server for server in self.name_servers if server.problem is None)


def named(names: Iterable[str], most: int = 5) -> str:
    """Names for people: not more of them than they can read."""
    found = sorted(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more
