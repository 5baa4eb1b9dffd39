"""Terms on which a request is allowed, without the request itself: for servers that keep verdicts.

A gate refuses requests. Terms answer in advance: the secrets of which one must have signed. The caller verifies each
signature, and keeps the terms for as long as the generation is the same.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from hanabi.access.guard import Gate, Source, origin_of
from hanabi.access.needs import Named

if TYPE_CHECKING:
    from hanabi.remoting.connection.protocol import Connection

Secrets = tuple[bytes, ...]


class Meters(Protocol):
    """Quotas of accounts: `quotas.metering.Metering`."""

    @property
    def generation(self) -> int:
        """Number of changes of the quotas."""

    def of(self, account: str) -> object | None:
        """Return the meter of *account*; None if it has no quota."""


class TermsGate(Gate, Protocol):
    """A gate that gives terms in advance."""

    @property
    def generation(self) -> int:
        """Number of changes of the rules."""

    def terms(self, code: int, access_key: str | None, named: Named, source: Source) -> Secrets | None:
        """Return the secrets of which one must have signed; empty if none must. None: refused, or not known in
        advance."""

    def secrets_of(self, access_key: str) -> Secrets:
        """Return the secrets of an account, whatever its rights; empty if there is none of that name."""

    def certified(self, source: Source) -> str | None:
        """Return the account that the certificate of *source* names, if certificates count."""


class Terms:
    """The terms of several gates, all of which must agree: a `broker.fast_path.contract.Terms`."""

    def __init__(self, gates: Sequence[TermsGate], meters: Meters | None = None) -> None:
        self._gates, self._meters = tuple(gates), meters

    def generation(self) -> object:
        """Return a value that differs after each change of the rules."""
        generation = self._meters.generation if self._meters is not None else 0
        for gate in self._gates:
            generation += gate.generation
        return generation

    def origin(self, connection: "Connection") -> Source | None:
        """Return the origin of requests by *connection*. None: its requests are for the gates."""
        return origin_of(connection)

    def meter(self, origin: Source, access_key: str | None) -> object | None:
        """Return the meter of the account whose request is allowed; None if it has no quota, or needs no account."""
        if self._meters is None:
            return None
        account = access_key
        for gate in self._gates:
            account = account or gate.certified(origin)
        return self._meters.of(account) if account else None

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
