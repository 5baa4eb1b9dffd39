"""Checks before handlers: a request that a gate refuses never reaches its handler.

Wraps each entry of a table of handlers, also those of codes that have no demand. A guarded handler has no part in a
fast path, unless the server gives it one that keeps to the `terms`.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from hanabi.access.address import Address, source_address
from hanabi.access.guesses import Guesses
from hanabi.access.identity import WrongIdentity
from hanabi.errors import NoPermission
from hanabi.remoting.address import parse_address
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.wire.command import Command
from hanabi.wire.signature import ACCESS_KEY

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from hanabi.remoting.connection.protocol import Connection


class Source(NamedTuple):
    """Origin of a request: the peer's host as text, its IP address if it is one, and the names in its certificate."""

    host: str
    address: Address | None
    certificate: tuple[str, ...] = ()


class Client(Protocol):
    """A connection as the origin of requests."""

    @property
    def peer(self) -> str:
        """Its address: HOST:PORT."""

    @property
    def certificate_names(self) -> tuple[str, ...]:
        """Names in its certificate, if TLS has verified one."""


class Gate(Protocol):
    """One model of access control."""

    def check(self, header: Any, request: Command, source: Source) -> str | None:
        """Return the account whose request this is proven to be; None if it needs none. Raise NoPermission with the
        reason if the request is refused: WrongIdentity, if the proof is wrong."""


Refused = Callable[[Any, Command, Source, str], None]  # header, request, origin, reason
Handle = Callable[[Any, Command, "Connection"], "Reply | Awaitable[Reply]"]


class Metering(Protocol):
    """Quotas of accounts: `quotas.metering.Metering`."""

    @property
    def is_on(self) -> bool:
        """Whether there are quotas at all."""

    def handle(
        self, account: str, handle: Handle, header: Any, request: Command, connection: "Connection"
    ) -> "Reply | Awaitable[Reply]":
        """Answer a request of *account* by *handle*, later, or with an error, as its quota says."""


class Watch(NamedTuple):
    """Work around the gates: *refused* is told of each refusal; wrong signatures wait for their answers; accounts have
    quotas."""

    refused: Refused
    guesses: Guesses | None = None
    metering: Metering | None = None


@lru_cache(maxsize=16_384)  # connections; an evicted one costs some microseconds
def source_of(peer: str) -> Source:
    """Return the source of requests by a connection whose peer is HOST:PORT."""
    host, _ = parse_address(peer)
    return Source(host, source_address(host))


def origin_of(connection: Client) -> Source:
    """Return the source of requests by *connection*."""
    source = source_of(connection.peer)
    return source._replace(certificate=names) if (names := connection.certificate_names) else source


def guarded(handlers: Mapping[int, Handler], gates: Sequence[Gate], watch: Watch) -> dict[int, Handler]:
    """Return *handlers* behind *gates*, all of which must agree."""
    return {
        code: dataclasses.replace(
            handler, handle=partial(_checked, handler.handle, tuple(gates), watch), fast_path=None
        )
        for code, handler in handlers.items()
    }


def _checked(
    handle: Handle,
    gates: tuple[Gate, ...],
    watch: Watch,
    header: Any,
    request: Command,
    connection: "Connection",
) -> "Reply | Awaitable[Reply]":
    source = origin_of(connection)
    account: str | None = None
    try:
        for gate in gates:
            account = gate.check(header, request, source) or account
    except NoPermission as error:
        watch.refused(header, request, source, str(error))
        if watch.guesses is not None and isinstance(error, WrongIdentity):
            return watch.guesses.answer(error, source.host, request.fields().get(ACCESS_KEY), connection)
        raise
    if account is None or watch.metering is None or not watch.metering.is_on:
        return handle(header, request, connection)
    return watch.metering.handle(account, handle, header, request, connection)
