"""Online consumer groups: those that have members now, kept alive by heartbeats.

A member joins with a heartbeat and leaves when it unregisters, when its connection ends, or after 120 seconds without a
heartbeat. The remaining members are notified, as the queues must be rebalanced. Broadcasting groups share no queues and
are not notified.

Does not know the encoding of heartbeats, topics or group settings. Agrees with Java's ConsumerManager; with that of 5.x
in not notifying broadcasting groups and in fingerprints (heartbeat V2).
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol, cast

from hanabi.broker.clients.client import Client
from hanabi.broker.clients.connection_groups import ConnectionGroups
from hanabi.broker.clients.consumer_group import ConsumerGroup, Member, Statement, statement_of
from hanabi.broker.clients.limits import REMEMBERED_BYTES_MAX, remembered_bytes
from hanabi.errors import SystemBusy
from hanabi.remoting.connection.protocol import Connection
from hanabi.wire.bodies.heartbeat import ConsumeFromWhere, ConsumerData, ConsumeType, MessageModel, SubscriptionData

logger = logging.getLogger(__name__)

EXPIRY_MS = 120_000
REPORTED_OPINIONS_MAX = 8  # in one group; further ones are not distinguished
LOGGED_OPINIONS_MAX = 4  # in one line
LOGGED_CHARACTERS_MAX = 300  # of one opinion


class Filters(Protocol):
    """Registry of compiled subscription expressions."""

    def register(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """Set the group's current subscriptions."""

    def unregister(self, group: str) -> None:
        """Forget a group that has no members any more."""


class Notifier(Protocol):
    """Sender of change notices to the members of a group."""

    def changed(self, group: ConsumerGroup, by: Connection | None = None) -> None: ...


class Consumers:
    """All consumer groups with members. *on_left* is called when a client has left a group, with the group, its client
    id, and whether it unregistered itself."""

    def __init__(
        self,
        notices: Notifier,
        filters: Filters,
        now_ms: Callable[[], int],
        *,
        on_left: Callable[[str, str, bool], None] = lambda _group, _client_id, _said_so: None,
        remembered_bytes_max: int = REMEMBERED_BYTES_MAX,
    ) -> None:
        self._notices = notices
        self._filters = filters
        self._now_ms = now_ms
        self._on_left = on_left
        self._groups: dict[str, ConsumerGroup] = {}
        self._connections = ConnectionGroups()
        self._remembered_bytes = 0
        self._remembered_bytes_max = remembered_bytes_max
        self._reported: dict[str, frozenset[Statement]] = {}  # logged differences, by group

    # Reading

    def __contains__(self, connection: Connection) -> bool:
        """Return whether the connection is a member of any group."""
        return connection in self._connections

    def find_group(self, group: str) -> ConsumerGroup | None:
        return self._groups.get(group)

    def groups(self) -> Mapping[str, ConsumerGroup]:
        """Return all groups with members; read-only."""
        return self._groups

    def client_ids(self, group: str) -> tuple[str, ...]:
        found = self._groups.get(group)
        return found.client_ids if found is not None else ()

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        found = self._groups.get(group)
        return found.subscriptions.get(topic) if found is not None else None

    def find_member(self, group: str, client_id: str) -> Member | None:
        found = self._groups.get(group)
        return found.find(client_id) if found is not None else None

    def groups_of_topic(self, topic: str) -> set[str]:
        """Return the groups that subscribe to *topic*."""
        return {name for name, group in self._groups.items() if topic in group.subscriptions}

    def differing(self) -> list[ConsumerGroup]:
        """Return the groups whose members subscribe differently."""
        return [group for group in self._groups.values() if not group.agrees]

    # Joining

    def heartbeat(
        self,
        client: Client,
        data: ConsumerData,
        *,
        fingerprint: int = 0,
        without_subscriptions: bool = False,
        notifies: bool = True,
    ) -> bool:
        """Record a heartbeat; return whether the member's subscriptions are known: one that sent only its fingerprint
        may have to send them in full. *notifies* is the group's own switch for notices."""
        group = self._groups.get(data.group_name)
        old = group.members.get(client.connection) if group is not None else None
        now_ms = self._now_ms()
        if group is not None and old is not None and _same(old, client, data, fingerprint, without_subscriptions):
            old.seen_ms = now_ms
            _follow(group, data, now_ms, notifies)
            self._merge_again(group, old)
            return True
        member = self._heard(group, client, data, fingerprint, without_subscriptions)
        self._remember(member, old)
        if group is None:
            group = self._groups[data.group_name] = ConsumerGroup(data.group_name, *_kinds(data))
        joined = group.put(member)
        member.seen_ms = now_ms
        _follow(group, data, now_ms, notifies)
        if joined:
            self._log_join(group, member)
            if old is not None:
                self._left(group, old, said_so=False)
        changed = False
        if member.statement is not None:
            changed = group.merge(member.subscriptions)
            self._filters.register(group.name, member.subscriptions)
        if joined or changed:
            self._notify(group, client.connection)
        self._report_differences(group)
        return member.statement is not None

    def _merge_again(self, group: ConsumerGroup, member: Member) -> None:
        """Merge an unchanged statement again: another member may have joined, left or changed since. Members that
        disagree change the table with every heartbeat; that is not reported."""
        changed = group.merge(member.subscriptions)
        if changed or member.has_expressions:
            self._filters.register(group.name, member.subscriptions)
        if changed and group.agrees:
            self._notify(group, member.client.connection)

    def _heard(
        self, group: ConsumerGroup | None, client: Client, data: ConsumerData, fingerprint: int, without: bool
    ) -> Member:
        """Return the member that a heartbeat describes. A heartbeat without subscriptions means those known for its
        fingerprint."""
        subscriptions, known = data.subscription_data_set, True
        if without:
            speaker = group.find_by_fingerprint(fingerprint) if group is not None else None
            subscriptions, known = (speaker.subscriptions, True) if speaker is not None else ([], False)
        return Member(
            client=client,
            data=data,
            subscriptions=subscriptions,
            statement=statement_of(data.group_name, data, subscriptions) if known else None,
            fingerprint=fingerprint,
            seen_ms=0,
            remembered_bytes=remembered_bytes(subscriptions),
        )

    def _remember(self, member: Member, old: Member | None) -> None:
        """Update the byte count of remembered subscriptions; refuse an excess before anything changes."""
        total = self._remembered_bytes + member.remembered_bytes - (old.remembered_bytes if old is not None else 0)
        if total > max(self._remembered_bytes, self._remembered_bytes_max):
            limit = self._remembered_bytes_max
            raise SystemBusy(f"the subscriptions of all clients would take {total} bytes, limit {limit}")
        self._connections.add(member.client.connection, member.data.group_name)
        self._remembered_bytes = total

    # Leaving

    def unregister(self, group: str, connection: Connection) -> None:
        """Remove a client that unregisters."""
        self._leave(group, connection, "unregisters", said_so=True)

    def leaving(self, connection: Connection) -> Iterator[None]:
        """Remove a closed *connection* from its groups, one group a step."""
        for group in self._connections.of(connection):
            self._leave(group, connection, "is gone", said_so=False)
            yield

    def expiring(self) -> Iterator[Connection]:
        """Expire members without a recent heartbeat, one a step; yield the connection of each."""
        limit = self._now_ms() - EXPIRY_MS
        silent = [
            (group.name, connection, member)
            for group in self._groups.values()
            for connection, member in group.members.items()
            if member.seen_ms < limit
        ]
        for group, connection, member in silent:
            if member.seen_ms < limit:  # a heartbeat may have come since
                self._leave(group, connection, "sent no heartbeat for too long", said_so=False)
                yield connection

    def extend_deadlines(self, ms: int) -> None:
        """Extend all deadlines by *ms*: the loop stalled, or the clock was moved, for that long."""
        for group in self._groups.values():
            for member in group.members.values():
                member.seen_ms += ms

    def _leave(self, name: str, connection: Connection, why: str, *, said_so: bool) -> None:
        group = self._groups.get(name)
        member = group.remove(connection) if group is not None else None
        if group is None or member is None:
            return
        self._connections.remove(connection, name)
        self._remembered_bytes -= member.remembered_bytes
        logger.info("consumer %s of group %s at %s %s", member.client.client_id, name, connection.peer, why)
        if not group.members:
            del self._groups[name]
            self._filters.unregister(name)
        self._left(group, member, said_so=said_so)
        self._notify(group)
        self._report_differences(group)

    def _left(self, group: ConsumerGroup, member: Member, *, said_so: bool) -> None:
        # It may have reconnected before the end of its old connection was seen.
        if not group.connections_of(member.client.client_id):
            self._on_left(group.name, member.client.client_id, said_so)

    # Notifying

    def notify(self, name: str) -> None:
        """Make the members of a group, if it has any, rebalance now: the way they get messages has changed."""
        group = self._groups.get(name)
        if group is not None:
            self._notify(group)

    def _notify(self, group: ConsumerGroup, by: Connection | None = None) -> None:
        """Notify the members; the one whose heartbeat arrived *by* this connection before its heartbeat is answered."""
        if group.members and group.notifies and group.message_model is not MessageModel.BROADCASTING:
            self._notices.changed(group, by)

    def _log_join(self, group: ConsumerGroup, member: Member) -> None:
        client = member.client
        logger.info("consumer %s joins group %s from %s", client.client_id, group.name, client.connection.peer)
        if group.connections_of(client.client_id) == 2:  # only the second is reported
            same = (member for member in group.members.values() if member.client.client_id == client.client_id)
            peers = ", ".join(member.connection.peer for member in same)
            logger.warning("group %s has client id %s more than once: %s", group.name, client.client_id, peers)

    def _report_differences(self, group: ConsumerGroup) -> None:
        """Log each disagreement of members once, and once when they agree again."""
        if group.agrees:
            if self._reported.pop(group.name, None) and group.members:
                logger.info("group %s: all members subscribe alike again", group.name)
            return
        reported = self._reported.get(group.name, frozenset())
        if len(reported) > REPORTED_OPINIONS_MAX:
            return  # all members differ, and that was logged
        statements = group.statements
        if reported >= statements:
            return  # fewer statements than before: not logged
        self._reported[group.name] = statements
        opinions = group.opinions()
        said = "; ".join(
            f"{len(opinion.client_ids)} ({opinion.client_ids[0]}{', ...' if len(opinion.client_ids) > 1 else ''})"
            f" subscribe {str(opinion.statement)[:LOGGED_CHARACTERS_MAX]}"
            for opinion in opinions[:LOGGED_OPINIONS_MAX]
        )
        more = f"; and {len(opinions) - LOGGED_OPINIONS_MAX} more" if len(opinions) > LOGGED_OPINIONS_MAX else ""
        logger.warning(
            "group %s: %d of %d members subscribe differently, so messages will be skipped: %s%s",
            group.name,
            len(group.differs),
            len(group.members),
            said,
            more,
        )


def _same(old: Member, client: Client, data: ConsumerData, fingerprint: int, without: bool) -> bool:
    """Return whether the member's statement is unchanged. The version of a subscription counts too: a client that
    subscribes again must get into the merged table."""
    said = old.data
    return (
        old.statement is not None
        and old.fingerprint == fingerprint
        and (without or old.subscriptions == data.subscription_data_set)
        and old.client.client_id == client.client_id
        and said.message_model == data.message_model
        and said.consume_type == data.consume_type
        and said.consume_from_where == data.consume_from_where
    )


def _follow(group: ConsumerGroup, data: ConsumerData, now_ms: int, notifies: bool) -> None:
    """Set the group-wide attributes to those of the latest heartbeat, as Java does."""
    group.updated_ms, group.notifies = now_ms, notifies
    group.consume_type, group.message_model, group.consume_from_where = _kinds(data)


def _kinds(data: ConsumerData) -> tuple[ConsumeType, MessageModel, ConsumeFromWhere]:
    # `ConsumerData` has converted them to enum members, in any spelling on the wire.
    return (
        cast(ConsumeType, data.consume_type),
        cast(MessageModel, data.message_model),
        cast(ConsumeFromWhere, data.consume_from_where),
    )
