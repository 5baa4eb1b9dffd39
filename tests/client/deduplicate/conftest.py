"""Fixtures: each store there is, and a Redis."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hanabi.client.deduplicate.key_store import KeyStore
from hanabi.client.deduplicate.memory_keys import MemoryKeys
from hanabi.client.deduplicate.redis_keys import RedisKeys
from hanabi.client.deduplicate.sqlite_keys import SqliteKeys
from tests.client.deduplicate.redis_server import RedisMissing, redis_server


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """Yield a Redis of these tests' own."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="redis-")))  # sockets want short paths
        try:
            url = stack.enter_context(redis_server(home))
        except RedisMissing as error:
            if os.environ.get("HANABI_REDIS_REQUIRED"):
                raise
            pytest.skip(str(error))
        yield url


@pytest.fixture(params=["memory", "sqlite", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeyStore]:
    """Yield one store after the other, empty."""
    kind: str = request.param
    made: KeyStore
    if kind == "memory":
        made = MemoryKeys()
    elif kind == "sqlite":
        made = SqliteKeys(tmp_path / "keys.db")
    else:
        made = RedisKeys(request.getfixturevalue("redis_url"), prefix=f"{tmp_path.name}:")
    yield made
    made.close()
