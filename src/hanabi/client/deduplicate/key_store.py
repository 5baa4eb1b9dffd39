"""What `deduplicate` asks of a store: to remember keys, for some time, so that one of many who ask gets each.

A key is free, claimed by somebody, or done. Claims and what is done expire. The stores are `memory_keys` (this
process), `sqlite_keys` (this machine) and `redis_keys` (a cluster).
"""

from collections.abc import Sequence
from enum import Enum
from typing import Protocol


class Claim(Enum):
    """The answer to a claim."""

    OURS = "ours"  # it was free, and now is ours until we say done or release, or the claim expires
    BUSY = "busy"  # somebody else has claimed it, and may be at work or dead
    DONE = "done"


class KeyStore(Protocol):
    """Any thread may call it. What goes wrong is a KeyStoreFailed."""

    @property
    def blocks(self) -> bool:
        """Whether a call may wait for a disk or a network, so that an event loop must not make it."""
        ...

    def claim(self, keys: Sequence[str], owner: str, seconds: float) -> list[Claim]:
        """Claim each of *keys* that is free, for so long; the answer to each."""
        ...

    def done(self, keys: Sequence[str], owner: str, seconds: float) -> None:
        """The work for *keys* is done, whoever has them now; remember that for so long."""
        ...

    def release(self, keys: Sequence[str], owner: str) -> None:
        """The work for *keys* was not done: those that are still claimed by *owner* are free again."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...
