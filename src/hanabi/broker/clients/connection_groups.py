"""Groups of each connection, so that the end of a connection costs one step for each of its groups, independent of the
total number of groups. Bounds the groups of one connection."""

from collections.abc import Set

from hanabi.broker.clients.limits import GROUPS_PER_CONNECTION_MAX
from hanabi.errors import NoPermission
from hanabi.remoting.connection.protocol import Connection


class ConnectionGroups:
    """Names of each connection's groups of one kind: producer groups or consumer groups."""

    def __init__(self) -> None:
        self._groups: dict[Connection, set[str]] = {}

    def __contains__(self, connection: Connection) -> bool:
        return connection in self._groups

    def add(self, connection: Connection, group: str) -> None:
        groups = self._groups.get(connection)
        if groups is None:
            self._groups[connection] = {group}
            return
        if len(groups) >= GROUPS_PER_CONNECTION_MAX and group not in groups:
            raise NoPermission(f"one connection in more than {GROUPS_PER_CONNECTION_MAX} groups")
        groups.add(group)

    def remove(self, connection: Connection, group: str) -> None:
        groups = self._groups.get(connection)
        if groups is not None:
            groups.discard(group)
            if not groups:
                del self._groups[connection]

    def of(self, connection: Connection) -> Set[str]:
        """Return a copy, for iterating while groups are removed."""
        return frozenset(self._groups.get(connection, ()))
