"""Key store in an SQLite file: survives this process, and is shared by all processes of this machine.

One connection per process, used by one thread at a time; other processes wait for each other up to five seconds. A
write is on the disk before the answer. A child of os.fork() opens a connection of its own.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from hanabi.client.deduplicate.key_store import Claim
from hanabi.errors import KeyStoreFailed

BUSY_S: Final = 5.0
CLAIMS_BETWEEN_CLEANINGS: Final = 1_000
_CLEANED_AT_ONCE: Final = 10_000

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS hanabi_keys (
    key TEXT PRIMARY KEY,
    owner TEXT,                  -- NULL: done
    expires_at REAL NOT NULL     -- seconds since 1970
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS hanabi_keys_expiry ON hanabi_keys (expires_at);
"""
_CLAIM: Final = """
INSERT INTO hanabi_keys (key, owner, expires_at) VALUES (?, ?, ?)
ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at
WHERE hanabi_keys.expires_at <= ?
"""
_DONE: Final = """
INSERT INTO hanabi_keys (key, owner, expires_at) VALUES (?, NULL, ?)
ON CONFLICT (key) DO UPDATE SET owner = NULL, expires_at = excluded.expires_at
"""
_CLEAN: Final = """
DELETE FROM hanabi_keys WHERE key IN (SELECT key FROM hanabi_keys WHERE expires_at <= ? LIMIT ?)
"""


class SqliteKeys:
    """Keys in the file at *path*, which is created if it is missing."""

    blocks = True

    def __init__(self, path: str | os.PathLike[str], *, now: Callable[[], float] = time.time) -> None:
        self.path = Path(path)
        self._now = now
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process_id = os.getpid()
        self._claims = 0

    def claim(self, keys: Sequence[str], owner: str, seconds: float) -> list[Claim]:
        with self._writing() as connection:
            now = self._now()
            answers = [self._claim(connection, key, owner, now, seconds) for key in keys]
            self._claims += len(keys)
            if self._claims >= CLAIMS_BETWEEN_CLEANINGS:
                self._claims = 0
                connection.execute(_CLEAN, (now, _CLEANED_AT_ONCE))
            return answers

    def _claim(self, connection: sqlite3.Connection, key: str, owner: str, now: float, seconds: float) -> Claim:
        if connection.execute(_CLAIM, (key, owner, now + seconds, now)).rowcount:
            return Claim.OURS
        (holder,) = connection.execute("SELECT owner FROM hanabi_keys WHERE key = ?", (key,)).fetchone()
        return Claim.DONE if holder is None else Claim.BUSY

    def done(self, keys: Sequence[str], owner: str, seconds: float) -> None:
        with self._writing() as connection:
            until = self._now() + seconds
            connection.executemany(_DONE, [(key, until) for key in keys])

    def release(self, keys: Sequence[str], owner: str) -> None:
        with self._writing() as connection:
            connection.executemany(
                "DELETE FROM hanabi_keys WHERE key = ? AND owner = ?", [(key, owner) for key in keys]
            )

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Run the block in an exclusive write transaction."""
        with self._lock:
            try:
                connection = self._open()
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise KeyStoreFailed(f"the keys in {self.path} cannot be used: {error}") from error

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None and self._process_id == os.getpid():
            return self._connection
        # Not closed after a fork: it is the parent's, and closing it here would release the parent's locks.
        self._process_id = os.getpid()
        connection = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.executescript(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None and self._process_id == os.getpid():
                connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
