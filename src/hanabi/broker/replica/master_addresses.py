"""Addresses of a slave's master, joined from the answers of all name servers. Pure."""

from collections.abc import Callable, Iterable
from typing import NamedTuple


class MasterAddress(NamedTuple):
    """A master, as a name server knows it."""

    for_slaves: str  # its port for replication
    for_clients: str


class MasterAddresses:
    """The last answer of each name server. `current` is their common answer, and `on_change` is called with a new one.

    A name server without an answer has no say. While none has one, the last answer holds; the first in order decides
    between two that name different masters.
    """

    def __init__(self, name_servers: Iterable[str], on_change: Callable[[MasterAddress | None], None]) -> None:
        self._answers: dict[str, MasterAddress | None] = {}
        self._order, self._on_change = tuple(name_servers), on_change
        self.current: MasterAddress | None = None

    def answered(self, name_server: str, for_slaves: str | None, for_clients: str | None) -> None:
        """Note the reply of a name server: it has no address if it knows no master."""
        is_known = bool(for_slaves and for_clients)
        self._answers[name_server] = MasterAddress(for_slaves or "", for_clients or "") if is_known else None
        self._decide()

    def unreachable(self, name_server: str) -> None:
        """Forget the answer of a name server that does not answer any more."""
        self._answers.pop(name_server, None)
        if self._answers:
            self._decide()

    def _decide(self) -> None:
        answers = (self._answers.get(server) for server in self._order)
        found = next((answer for answer in answers if answer is not None), None)
        if found != self.current:
            self.current = found
            self._on_change(found)
