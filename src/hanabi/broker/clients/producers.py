"""Online producer groups and their clients: for transaction checks, and for replies addressed to a client.

Does not know the encoding of heartbeats or transactions. Agrees with Java's ProducerManager.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from hanabi.broker.clients.client import Client
from hanabi.broker.clients.connection_groups import ConnectionGroups
from hanabi.remoting.connection.protocol import Connection

logger = logging.getLogger(__name__)

EXPIRY_MS = 120_000
PICKS_MAX = 8  # for a group whose members do not read; the next check tries another member
UNSENT_BYTES_MAX = 64 * 1024  # a client with this much unsent data is not picked


@dataclass(slots=True, eq=False)
class Producer:
    """One client in one group."""

    client: Client
    seen_ms: int


class Producers:
    """All producer groups. A member is its connection, as in Java: one client may be there twice for a while."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._groups: dict[str, OrderedDict[Connection, Producer]] = {}
        self._connections = ConnectionGroups()
        self._clients: dict[str, Connection] = {}  # newest connection by client id
        self._ids: dict[Connection, str] = {}  # the reverse: a connection has one id at a time

    def __contains__(self, connection: Connection) -> bool:
        """Return whether the connection is a member of any group."""
        return connection in self._connections

    def heartbeat(self, client: Client, group: str) -> None:
        members = self._groups.get(group)
        member = members.get(client.connection) if members is not None else None
        if member is not None and member.client.client_id == client.client_id:
            member.seen_ms = self._now_ms()
            self._clients.setdefault(client.client_id, client.connection)
            return
        self._connections.add(client.connection, group)
        if members is None:
            members = self._groups[group] = OrderedDict()
        members[client.connection] = Producer(client, self._now_ms())
        self._remember_id(client)
        logger.info("producer %s joins group %s from %s", client.client_id, group, client.connection.peer)

    def unregister(self, group: str, connection: Connection) -> None:
        self._leave(group, connection, "unregisters")

    def leaving(self, connection: Connection) -> Iterator[None]:
        """Remove a closed *connection* from its groups, one group a step."""
        for group in self._connections.of(connection):
            self._leave(group, connection, "is gone")
            yield

    def expiring(self) -> Iterator[Connection]:
        """Expire members without a recent heartbeat, one a step; yield the connection of each."""
        limit = self._now_ms() - EXPIRY_MS
        silent = [
            (group, connection, member)
            for group, members in self._groups.items()
            for connection, member in members.items()
            if member.seen_ms < limit
        ]
        for group, connection, member in silent:
            if member.seen_ms < limit:  # a heartbeat may have come since
                self._leave(group, connection, "sent no heartbeat for too long")
                yield connection

    def silent_ms(self, member: Producer) -> int:
        """Return the milliseconds since its last heartbeat."""
        return self._now_ms() - member.seen_ms

    def extend_deadlines(self, ms: int) -> None:
        """Extend all deadlines by *ms*: the loop stalled, or the clock was moved, for that long."""
        for members in self._groups.values():
            for member in members.values():
                member.seen_ms += ms

    def pick(self, group: str) -> Connection | None:
        """Return the connection of one member, round-robin; None if the group has none. Prefers a member that reads
        what it is sent."""
        members = self._groups.get(group)
        if not members:
            return None
        behind: Connection | None = None
        for _ in range(min(len(members), PICKS_MAX)):
            connection = next(iter(members))
            members.move_to_end(connection)
            if connection.closed:
                continue
            if connection.unsent_bytes <= UNSENT_BYTES_MAX:
                return connection
            behind = behind or connection
        return behind

    def find_client(self, client_id: str) -> Connection | None:
        """Return the connection of the producer with this client id, in any group."""
        return self._clients.get(client_id)

    def group(self, group: str) -> Iterable[Producer] | None:
        """Return the members of a group; None if there is no such group now."""
        members = self._groups.get(group)
        return members.values() if members is not None else None

    def groups(self) -> Mapping[str, Mapping[Connection, Producer]]:
        """Return all groups; read-only."""
        return self._groups

    def _leave(self, group: str, connection: Connection, why: str) -> None:
        members = self._groups.get(group)
        member = members.pop(connection, None) if members is not None else None
        if members is None or member is None:
            return
        if not members:
            del self._groups[group]
        self._connections.remove(connection, group)
        if connection not in self._connections:
            self._forget_id(connection)
        logger.info("producer %s of group %s at %s %s", member.client.client_id, group, connection.peer, why)

    def _remember_id(self, client: Client) -> None:
        if self._ids.get(client.connection) != client.client_id:
            self._forget_id(client.connection)
            self._ids[client.connection] = client.client_id
        self._clients[client.client_id] = client.connection

    def _forget_id(self, connection: Connection) -> None:
        client_id = self._ids.pop(connection, None)
        if client_id is not None and self._clients.get(client_id) is connection:  # else a newer one replaced it
            del self._clients[client_id]
