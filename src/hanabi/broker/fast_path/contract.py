"""The contract of the fast path: what each half offers, and what it needs of the handlers."""

from typing import Protocol

from hanabi.broker.pull.access import Access
from hanabi.remoting.connection.dispatch import Reply
from hanabi.wire.bodies.groups import SubscriptionGroupConfig
from hanabi.wire.headers.pull import PullMessageHeader

# The replies, None if there are none; how many bytes of frames they answer; how many single sends and batches these
# were; why the next frame was declined, 0 if it was not.
SendAnswers = tuple[bytes | None, int, int, int, int]


class Peer(Protocol):
    """The connection that a frame came by."""

    @property
    def peer(self) -> str: ...


class SendPath(Protocol):
    """Sends of the fast path: `_sends.FastSends`."""

    def answer(self, data: bytes, connection: Peer, /) -> SendAnswers:
        """Store and answer the sends at the start of *data*, up to the first that is declined."""


class PullDecisions(Protocol):
    """What a pull is decided by, in the handler and in the fast path alike: `handlers.pull.Pulls`."""

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
