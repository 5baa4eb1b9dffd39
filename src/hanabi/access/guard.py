"""Checks before handlers: a request that a gate refuses never reaches its handler.

Wraps each entry of a table of handlers, also those of codes that have no demand. A guarded handler has no part in a
fast path, unless the server gives it one that keeps to the `terms`.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from hanabi.access.address import Address, source_address
from hanabi.errors import NoPermission
from hanabi.remoting.address import parse_address
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.wire.command import Command

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from hanabi.remoting.connection.protocol import Connection


class Source(NamedTuple):
    """Origin of a request: the peer's host as text, its IP address if it is one, and the names in its certificate."""

    host: str
    address: Address | None
    certificate: tuple[str, ...] = ()


class Gate(Protocol):
    """One model of access control."""

    def check(self, header: Any, request: Command, source: Source) -> None:
        """Raise NoPermission with the reason if the request is refused."""


Refused = Callable[[Any, Command, Source, str], None]  # header, request, origin, reason


@lru_cache(maxsize=16_384)  # connections; an evicted one costs some microseconds
def source_of(peer: str) -> Source:
    """Return the source of requests by a connection whose peer is HOST:PORT."""
    host, _ = parse_address(peer)
    return Source(host, source_address(host))


def origin_of(connection: "Connection") -> Source:
    """Return the source of requests by *connection*."""
    source = source_of(connection.peer)
    return source._replace(certificate=names) if (names := connection.certificate_names) else source


def guarded(handlers: Mapping[int, Handler], gates: Sequence[Gate], refused: Refused) -> dict[int, Handler]:
    """Return *handlers* behind *gates*, all of which must agree; *refused* is told of each refusal."""
    return {
        code: dataclasses.replace(
            handler, handle=partial(_checked, handler.handle, tuple(gates), refused), fast_path=None
        )
        for code, handler in handlers.items()
    }


def _checked(
    handle: "Callable[[Any, Command, Connection], Reply | Awaitable[Reply]]",
    gates: tuple[Gate, ...],
    refused: Refused,
    header: Any,
    request: Command,
    connection: "Connection",
) -> "Reply | Awaitable[Reply]":
    source = origin_of(connection)
    try:
        for gate in gates:
            gate.check(header, request, source)
    except NoPermission as error:
        refused(header, request, source, str(error))
        raise
    return handle(header, request, connection)
