"""Interface of key stores for `deduplicate`: remember keys for some time, and grant each to one of many consumers.

A key is free, claimed, or done. Claimed and done keys expire. The stores are `memory_keys` (this process),
`sqlite_keys` (this machine) and `redis_keys` (a cluster).
"""

from collections.abc import Sequence
from enum import Enum
from typing import Protocol


class Claim(Enum):
    """Answer to a claim."""

    OURS = "ours"  # it was free, and is ours until done or release, or until the claim expires
    BUSY = "busy"  # another consumer has claimed it, and may be working or dead
    DONE = "done"


class KeyStore(Protocol):
    """Thread-safe store of keys. Failures are raised as KeyStoreFailed."""

    @property
    def blocks(self) -> bool:
        """Return True if a call may wait for a disk or a network, so that an event loop must not make it."""
        ...

    def claim(self, keys: Sequence[str], owner: str, seconds: float) -> list[Claim]:
        """Claim each of *keys* that is free, for this time; return the answer to each."""
        ...

    def done(self, keys: Sequence[str], owner: str, seconds: float) -> None:
        """Mark the work for *keys* as done, even if another owner has claimed them; remember that for this time."""
        ...

    def release(self, keys: Sequence[str], owner: str) -> None:
        """Release *keys*, whose work was not done: those still claimed by *owner* are free again."""
        ...

    def close(self) -> None:
        """Close files and connections."""
        ...
