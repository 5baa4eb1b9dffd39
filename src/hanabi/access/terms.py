"""Terms on which a request is allowed, without the request itself: for servers that keep verdicts.

A gate refuses requests. Terms answer in advance: the secrets of which one must have signed. The caller verifies each
signature, and keeps the terms for as long as the generation is the same.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from hanabi.access.guard import Gate, Source, source_of
from hanabi.access.needs import Named

if TYPE_CHECKING:
    from hanabi.remoting.connection.protocol import Connection

Secrets = tuple[bytes, ...]


class TermsGate(Gate, Protocol):
    """A gate that gives terms in advance."""

    @property
    def generation(self) -> int:
        """Number of changes of the rules."""

    def terms(self, code: int, access_key: str | None, named: Named, source: Source) -> Secrets | None:
        """Return the secrets of which one must have signed; empty if none must. None: refused, or not known in
        advance."""


class Terms:
    """The terms of several gates, all of which must agree: a `broker.fast_path.contract.Terms`."""

    def __init__(self, gates: Sequence[TermsGate]) -> None:
        self._gates = tuple(gates)

    def generation(self) -> object:
        """Return a value that differs after each change of the rules."""
        generation = 0
        for gate in self._gates:
            generation += gate.generation
        return generation

    def origin(self, connection: "Connection") -> Source | None:
        """Return the origin of requests by *connection*. None: its requests are for the gates."""
        return source_of(connection.peer)

    def secrets(
        self, origin: Source, code: int, access_key: str | None, topic: str, group: str | None
    ) -> Secrets | None:
        """Return the secrets of which one must have signed; empty if none must. None: the request is for the gates."""
        named = Named((topic,) if topic else (), (group,) if group else ())
        found: Secrets = ()
        for gate in self._gates:
            secrets = gate.terms(code, access_key, named, origin)
            if secrets is None or (found and secrets and found != secrets):
                return None
            found = found or secrets
        return found
