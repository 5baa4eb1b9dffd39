"""The contract of the fast path: what each half offers, and what it needs of the handlers."""

from typing import TYPE_CHECKING, Any, Protocol

from hanabi.broker.pull.access import Access
from hanabi.remoting.connection.dispatch import LateAnswers, Reply
from hanabi.wire.bodies.groups import SubscriptionGroupConfig
from hanabi.wire.headers.pull import PullMessageHeader

if TYPE_CHECKING:
    from hanabi.broker.fast_path._admission import Admission

# The replies, None if there are none; how many bytes of frames they answer; how many of each of `FastPath.codes` these
# were. As `remoting.connection.dispatch.FastPath` returns them.
Answers = tuple[bytes | LateAnswers | None, int, tuple[int, ...]]


class Peer(Protocol):
    """The connection that a frame came by."""

    @property
    def peer(self) -> str: ...


class Terms(Protocol):
    """Access control as the fast path asks it: `access.terms.Terms`."""

    def generation(self) -> object:
        """Return a value that differs after each change of the rules."""

    def origin(self, connection: Any) -> object | None:
        """Return the origin of requests by a connection, as far as a verdict depends on it: the same for a peer as
        long as the generation is. None: its frames are for the handlers."""

    def secrets(
        self, origin: Any, code: int, access_key: str | None, topic: str, group: str | None
    ) -> tuple[bytes, ...] | None:
        """Return the secrets of which one must have signed an allowed request; empty if it needs no signature. None: it
        is for the handlers."""


class SendPath(Protocol):
    """Sends of the fast path: `_sends.FastSends`, or `durable.DurableSends` around it."""

    def guard(self, admission: "Admission") -> None:
        """Take only frames that *admission* admits."""

    def answer(self, data: bytes, connection: Peer, /) -> Answers:
        """Store and answer the sends at the start of *data*, as many as one run takes, up to the first that is
        declined."""


class PullDecisions(Protocol):
    """Decisions about a pull, the same in the handler and in the fast path: `handlers.pull.Pulls`."""

    @property
    def handled(self) -> int: ...

    def now_ms(self) -> int:
        """Return the time."""

    def admit(self, pull: PullMessageHeader, peer: str) -> Access | Reply:
        """Return the group and filter of a pull, or the reply that refuses it."""

    def note(self, pull: PullMessageHeader, peer: str) -> None:
        """Note the reader of a queue, and the offset that it commits with its pull."""

    def suggested(self, group: SubscriptionGroupConfig, behind_bytes: int) -> int:
        """Return the id of the broker to ask next time, by how far a consumer is behind."""

    def count(
        self, pull: PullMessageHeader, count: int, size: int, behind_bytes: int, last_store_ms: int, began_ms: int
    ) -> None:
        """Count the messages of a reply."""
