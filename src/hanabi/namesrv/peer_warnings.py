"""Warnings about what a peer sends: each kind once a connection, since such a peer repeats it, and every line costs us
more than it costs him."""

import logging
from weakref import WeakKeyDictionary

from hanabi.remoting.connection.protocol import Connection

logger = logging.getLogger(__name__)


class PeerWarnings:
    """The warnings already logged, by connection. Holds connections weakly."""

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[Connection, set[str]] = WeakKeyDictionary()

    def warn(self, connection: Connection, message: str, *arguments: object) -> None:
        """Log *message*, which begins with the peer's address, unless it was logged about this connection before."""
        made = self._made.setdefault(connection, set())
        if message not in made:
            made.add(message)
            logger.warning(message, connection.peer, *arguments)
