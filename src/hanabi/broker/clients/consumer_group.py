"""One consumer group while it has members: the members, their statements, and the merged subscriptions.

There are two views. `subscriptions` is the group's table, merged from every heartbeat by the rule of Java's
ConsumerGroupInfo, because clients expect replies by it: a newer version replaces an older one, and a topic that a
heartbeat does not name is removed. Each member keeps its own statement. It reveals members that subscribe differently,
which the merged table hides: that follows the latest heartbeat, and messages are skipped.

Only decides: has no clock, logs nothing, sends nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from hanabi.broker.clients.client import Client
from hanabi.broker.send.retry_rules import retry_topic
from hanabi.remoting.connection.protocol import Connection
from hanabi.wire.bodies.clients import ConsumerList
from hanabi.wire.bodies.heartbeat import ConsumeFromWhere, ConsumerData, ConsumeType, MessageModel, SubscriptionData
from hanabi.wire.fastjson import encode_body


class Statement(msgspec.Struct, frozen=True):
    """A member's subscriptions in comparable form: versions, spaces and the order of tags do not count.

    `wanted` holds the topic, the type of the expression, and the expression.
    """

    message_model: str
    wanted: frozenset[tuple[str, str, str]]

    def __str__(self) -> str:
        topics = ", ".join(f"{topic}({expression})" for topic, _, expression in sorted(self.wanted))
        return f"{self.message_model} {topics or 'nothing'}"


def statement_of(group: str, data: ConsumerData, subscriptions: Iterable[SubscriptionData]) -> Statement:
    """Return the statement in *data*, without the retry topic: its presence follows from the message model."""
    own_retry_topic = retry_topic(group)
    wanted = (
        (subscription.topic, subscription.expression_type or "TAG", _expression(subscription))
        for subscription in subscriptions
        if subscription.topic != own_retry_topic
    )
    return Statement(str(data.message_model), frozenset(wanted))


def _expression(subscription: SubscriptionData) -> str:
    text = (subscription.sub_string or "*").strip()
    if subscription.class_filter_mode or subscription.expression_type not in ("TAG", ""):
        return text
    return " || ".join(sorted({tag.strip() for tag in text.split("||")} - {""})) or "*"


@dataclass(slots=True, eq=False)
class Member:
    """One client of the group, and its latest statement. `statement` is None while its subscriptions are unknown: a 5.x
    client may send only a fingerprint."""

    client: Client
    data: ConsumerData
    subscriptions: list[SubscriptionData]
    statement: Statement | None
    fingerprint: int
    seen_ms: int
    remembered_bytes: int

    @property
    def connection(self) -> Connection:
        return self.client.connection

    @property
    def has_expressions(self) -> bool:
        return any(subscription.expression_type not in ("TAG", "") for subscription in self.subscriptions)


class Opinion(msgspec.Struct, frozen=True):
    """One of several differing statements in a group, and the members that make it."""

    statement: Statement
    client_ids: tuple[str, ...]


@dataclass(slots=True, eq=False)
class ConsumerGroup:
    """A group with its members, by connection as in Java: one client may be there twice for a while."""

    name: str
    consume_type: ConsumeType
    message_model: MessageModel
    consume_from_where: ConsumeFromWhere
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)  # merged; by topic
    members: dict[Connection, Member] = field(default_factory=dict)
    updated_ms: int = 0
    notifies: bool = True  # the group's own switch, as of the last heartbeat
    noticed_at: float = float("-inf")  # loop time of the last notice to its members
    _statements: dict[Statement, int] = field(default_factory=dict)  # and how many members make it
    _connections: dict[str, int] = field(default_factory=dict)  # client id to how many it has
    _encoded_client_ids: bytes | None = None

    @property
    def client_ids(self) -> tuple[str, ...]:
        """Each id once. Java repeats the id of a client that has two connections for a while; members that divide
        queues by that list then leave the queues of the second entry unread."""
        return tuple(self._connections)

    def connections_of(self, client_id: str) -> int:
        """Return the number of connections of this client in the group."""
        return self._connections.get(client_id, 0)

    @property
    def encoded_client_ids(self) -> bytes:
        """Client ids encoded as the reply that each member requests every 20 seconds."""
        if self._encoded_client_ids is None:
            self._encoded_client_ids = encode_body(ConsumerList(consumer_id_list=list(self.client_ids)))
        return self._encoded_client_ids

    def find(self, client_id: str) -> Member | None:
        """Return the member with this id; of several, the one last seen."""
        found = (member for member in self.members.values() if member.client.client_id == client_id)
        return max(found, key=lambda member: member.seen_ms, default=None)

    def find_by_fingerprint(self, fingerprint: int) -> Member | None:
        """Return any member with this fingerprint; clients with the same subscriptions share one."""
        for member in self.members.values():
            if member.fingerprint == fingerprint and member.statement is not None:
                return member
        return None

    def put(self, member: Member) -> bool:
        """Add *member* or replace its previous statement; return whether the list of members changed."""
        old = self.members.get(member.connection)
        self.members[member.connection] = member
        self._count_opinion(member.statement, 1)
        if old is not None:
            self._count_opinion(old.statement, -1)
            if old.client.client_id == member.client.client_id:
                return False
            self._count_connection(old.client.client_id, -1)
        self._count_connection(member.client.client_id, 1)
        return True

    def remove(self, connection: Connection) -> Member | None:
        """Remove and return the member at *connection*; None if there is none."""
        member = self.members.pop(connection, None)
        if member is not None:
            self._count_opinion(member.statement, -1)
            self._count_connection(member.client.client_id, -1)
        return member

    def merge(self, subscriptions: Sequence[SubscriptionData]) -> bool:
        """Merge the subscriptions of a heartbeat; return whether topics were added or removed."""
        table = self.subscriptions
        changed = False
        for subscription in subscriptions:
            old = table.get(subscription.topic)
            if old is None:
                changed = True
                table[subscription.topic] = subscription
            elif subscription.sub_version > old.sub_version:
                table[subscription.topic] = subscription
        named = {subscription.topic for subscription in subscriptions}
        for topic in table.keys() - named:
            changed = True
            del table[topic]
        return changed

    # Differences between members

    @property
    def agrees(self) -> bool:
        """Return whether all members have the same subscriptions."""
        return len(self._statements) <= 1

    @property
    def statements(self) -> frozenset[Statement]:
        return frozenset(self._statements)

    @property
    def differs(self) -> list[Member]:
        """Return the members that differ from the majority; on a tie, from the first statement."""
        if self.agrees:
            return []
        common = max(self._statements, key=self._statements.__getitem__)
        return [member for member in self.members.values() if member.statement not in (None, common)]

    def opinions(self) -> list[Opinion]:
        """Return each distinct statement with its members, the most common first."""
        speakers: dict[Statement, list[str]] = {statement: [] for statement in self._statements}
        for member in self.members.values():
            if member.statement is not None:
                speakers[member.statement].append(member.client.client_id)
        ranked = sorted(speakers.items(), key=lambda item: -len(item[1]))
        return [Opinion(statement, tuple(client_ids)) for statement, client_ids in ranked]

    def _count_connection(self, client_id: str, change: int) -> None:
        count = self._connections.get(client_id, 0) + change
        if count:
            self._connections[client_id] = count
        else:
            del self._connections[client_id]
        self._encoded_client_ids = None

    def _count_opinion(self, statement: Statement | None, change: int) -> None:
        if statement is None:
            return
        count = self._statements.get(statement, 0) + change
        if count:
            self._statements[statement] = count
        else:
            del self._statements[statement]
