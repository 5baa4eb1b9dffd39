"""Which groups each connection is in: so the end of a connection costs as much as it had groups, however many others
there are. Bounds how many that may be."""

from collections.abc import Set

from hanabi.broker.clients.limits import GROUPS_PER_CONNECTION_MAX
from hanabi.errors import NoPermission
from hanabi.remoting.connection.protocol import Connection


class ConnectionGroups:
    """Connection to the names of its groups, of one kind: those it produces for, or those it consumes for."""

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
        """Return a copy, to go through while groups are left."""
        return frozenset(self._groups.get(connection, ()))
