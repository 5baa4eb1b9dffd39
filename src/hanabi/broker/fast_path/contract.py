"""The contract of the fast path: what it returns, and what it needs of connections and of access control."""

from typing import Any, Protocol

from hanabi.remoting.connection.dispatch import LateAnswers

# The replies, None if there are none; how many bytes of frames they answer; how many of each of `FastPath.codes` these
# were. As `remoting.connection.dispatch.FastPath` returns them.
Answers = tuple[bytes | LateAnswers | None, int, tuple[int, ...]]


class Peer(Protocol):
    """The connection that a frame came by."""

    @property
    def peer(self) -> str: ...

    @property
    def certificate_names(self) -> tuple[str, ...]: ...


class Meter(Protocol):
    """The quota of one account: `access.quotas.meter.Meter`."""

    def is_over(self, connection: Any, /) -> bool:
        """Return whether the next request is for the handlers, which delay or refuse it."""

    def charge(self, bytes_in: int, bytes_out: int, /) -> None:
        """Count a request that was answered."""


class Terms(Protocol):
    """Access control as the fast path asks it: `access.terms.Terms`."""

    def generation(self) -> object:
        """Return a value that differs after each change of the rules."""

    def origin(self, connection: Any) -> object | None:
        """Return the origin of requests by a connection, as far as a verdict depends on it: the same for a peer and its
        certificate as long as the generation is. None: its frames are for the handlers."""

    def meter(self, origin: Any, access_key: str | None) -> Any | None:
        """Return the `Meter` of an account; None if it has no quota."""

    def secrets(
        self, origin: Any, code: int, access_key: str | None, topic: str, group: str | None
    ) -> tuple[bytes, ...] | None:
        """Return the secrets of which one must have signed an allowed request; empty if it needs no signature. None: it
        is for the handlers."""
