"""Key store in the memory of this process: fast, and gone when it ends. For one consumer, or for tests."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from hanabi.client.deduplicate.key_store import Claim
from hanabi.errors import ConfigError

KEYS_MAX: Final = 100_000


class MemoryKeys:
    """At most *keys_max* keys: beyond that, the oldest done keys are evicted. Claims are not."""

    blocks = False

    def __init__(self, keys_max: int = KEYS_MAX, *, now: Callable[[], float] = time.monotonic) -> None:
        if keys_max < 1:
            raise ConfigError(f"keys_max must be at least 1, not {keys_max}")
        self._keys_max, self._now = keys_max, now
        self._lock = threading.Lock()
        self._claims: dict[str, tuple[str, float]] = {}  # key -> owner, expiry
        self._done: dict[str, float] = {}  # key -> expiry; oldest first

    def __len__(self) -> int:
        return len(self._claims) + len(self._done)

    def claim(self, keys: Sequence[str], owner: str, seconds: float) -> list[Claim]:
        with self._lock:
            now = self._now()
            return [self._claim(key, owner, now, seconds) for key in keys]

    def _claim(self, key: str, owner: str, now: float, seconds: float) -> Claim:
        if (until := self._done.get(key)) is not None:
            if until > now:
                return Claim.DONE
            del self._done[key]
        claimed = self._claims.get(key)
        if claimed is not None and claimed[1] > now:
            return Claim.BUSY
        self._claims[key] = (owner, now + seconds)
        self._make_room(now)
        return Claim.OURS

    def _make_room(self, now: float) -> None:
        if len(self) <= self._keys_max:
            return
        if self._done:
            del self._done[next(iter(self._done))]
            return
        for key in [key for key, (_, until) in self._claims.items() if until <= now]:
            del self._claims[key]

    def done(self, keys: Sequence[str], owner: str, seconds: float) -> None:
        with self._lock:
            now = self._now()
            for key in keys:
                self._claims.pop(key, None)
                self._done.pop(key, None)
                self._done[key] = now + seconds
                self._make_room(now)

    def release(self, keys: Sequence[str], owner: str) -> None:
        with self._lock:
            for key in keys:
                claimed = self._claims.get(key)
                if claimed is not None and claimed[0] == owner:
                    del self._claims[key]

    def close(self) -> None:
        """Do nothing: there is nothing open."""
