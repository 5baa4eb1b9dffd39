"""Key store in Redis, shared by all consumers of a cluster. Needs the extra `redis`.

    PREFIX + key = "c" + owner      claimed
    PREFIX + key = "d"              done

Both expire by themselves. Redis responds before its disk has the data, so a crash may lose keys; eviction
(maxmemory-policy) loses them too. A message with a lost key is consumed again if it is redelivered.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from hanabi.client.deduplicate.key_store import Claim
from hanabi.errors import KeyStoreFailed, MQError

if TYPE_CHECKING:
    import redis

PREFIX: Final = "hanabi:keys:"
SECONDS: Final = 5.0

_DONE: Final = b"d"
_CLAIM: Final = """
local holder = redis.call('get', KEYS[1])
if holder then return holder end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return false
"""
_RELEASE: Final = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class RedisKeys:
    """Keys at *url* ("redis://host:6379/0"), or at a `redis.Redis` of the caller, which the caller closes."""

    blocks = True

    def __init__(self, url: "str | redis.Redis", *, prefix: str = PREFIX) -> None:
        try:
            import redis
        except ImportError as error:
            raise MQError(
                "redis is not installed; it comes with: pip install '.[redis]' in a clone of Hanabi"
            ) from error
        self._failures: tuple[type[Exception], ...] = (redis.RedisError, OSError)
        self._is_ours = isinstance(url, str)
        self._redis: Any = (
            redis.Redis.from_url(url, socket_timeout=SECONDS, socket_connect_timeout=SECONDS)
            if isinstance(url, str)
            else url
        )
        self._prefix = prefix

    def claim(self, keys: Sequence[str], owner: str, seconds: float) -> list[Claim]:
        claims = [("EVAL", _CLAIM, 1, self._prefix + key, "c" + owner, _milliseconds(seconds)) for key in keys]
        return [_claim(holder) for holder in self._all(claims)]

    def done(self, keys: Sequence[str], owner: str, seconds: float) -> None:
        self._all([("SET", self._prefix + key, _DONE, "PX", _milliseconds(seconds)) for key in keys])

    def release(self, keys: Sequence[str], owner: str) -> None:
        self._all([("EVAL", _RELEASE, 1, self._prefix + key, "c" + owner) for key in keys])

    def _all(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        """Run *commands* in one round trip; return their results."""
        try:
            with self._redis.pipeline(transaction=False) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                answers: list[Any] = pipeline.execute()
        except self._failures as error:
            raise KeyStoreFailed(f"the keys in Redis cannot be used: {type(error).__name__}: {error}") from error
        return answers

    def close(self) -> None:
        if self._is_ours:
            self._redis.close()


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1_000))


def _claim(holder: object) -> Claim:
    if holder is None:  # it was free
        return Claim.OURS
    return Claim.DONE if holder in (_DONE, _DONE.decode()) else Claim.BUSY
