"""Record of a cluster's answers: the input of the rules. Values only."""

from collections.abc import Iterable

from msgspec import field

from hanabi.admin.access import BrokerAt
from hanabi.admin.answer import Answer
from hanabi.admin.replication_report import BrokerReplication
from hanabi.client.cluster.routes import MASTER_ID
from hanabi.wire.bodies.absent import AbsentBroker


class NameServerSeen(Answer, frozen=True, kw_only=True):
    """One name server: the routes it gives to clients, or why it does not answer."""

    address: str
    asked_for: bool  # named by the operator; else by a broker
    loopback: bool = False  # its address means "this machine", on every machine
    problem: str | None = None
    version: int = 0  # the ordinal of Java's MQVersion
    brokers: tuple[BrokerAt, ...] = ()
    topics: frozenset[str] = frozenset()
    absent: tuple[AbsentBroker, ...] = ()  # brokers that it reports as absent; replaced ones still run


class BrokerSeen(Answer, frozen=True, kw_only=True):
    """One broker at one address that clients get: its own report, or why there is none."""

    at: BrokerAt
    told_by: tuple[str, ...]  # name servers
    loopback: bool = False
    unreachable: str | None = None
    refused: str | None = None  # it is reachable, but refuses the request
    runtime: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    clock_ahead_ms: int | None = None  # relative to our clock; None if unknown
    clock_unsure_ms: int = 0  # possible error of that

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
    """Queues of a topic on one broker, in the route for clients."""

    broker: str
    read_queues: int
    write_queues: int
    has_address: bool


class TopicSeen(Answer, frozen=True, kw_only=True):
    """A topic of users, in the route for clients. `ordered_on` are the brokers that an ordered topic is fixed to."""

    topic: str
    queues: tuple[QueuesSeen, ...]
    ordered_on: tuple[str, ...] = ()


class GroupSeen(Answer, frozen=True, kw_only=True):
    """A group of users: its members, their subscriptions, and its lag at two times."""

    group: str
    members: frozenset[str] = frozenset()
    message_model: str | None = None
    topics: frozenset[str] = frozenset()  # current subscriptions
    # subscriptions as text -> members that have them
    opinions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    lag: int = 0
    lag_later: int = 0


class DeadLettersSeen(Answer, frozen=True, kw_only=True):
    """Number of waiting dead letters of a group at two times."""

    group: str
    waiting: int
    waiting_later: int


class Snapshot(Answer, frozen=True, kw_only=True):
    """All recorded answers. `seconds` lie between the two times."""

    name_servers: tuple[NameServerSeen, ...] = ()
    brokers: tuple[BrokerSeen, ...] = ()
    topics: tuple[TopicSeen, ...] = ()
    groups: tuple[GroupSeen, ...] = ()
    dead_letters: tuple[DeadLettersSeen, ...] = ()
    replication: tuple[BrokerReplication, ...] = ()
    replication_later: tuple[BrokerReplication, ...] = ()
    seconds: float = 0.0

    @property
    def answering(self) -> tuple[NameServerSeen, ...]:
        """Return the name servers that answered."""
        return tuple(server for server in self.name_servers if server.problem is None)


def named(names: Iterable[str], most: int = 5) -> str:
    """Join names for people, and abbreviate a long list."""
    found = sorted(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more
