"""The ring of samples in SQLite: one row for each step of a tier, with the values of all series side by side.

A row is overwritten when the ring comes round, so the file has a fixed largest size. A step without a row is a gap,
and so is a value that was not known. All work is done in one thread of its own.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from hanabi.dashboard.history.tiers import TIERS, Tier, means, packed, unpacked

logger = logging.getLogger(__name__)

SERIES_MAX: Final = 1_000
_VERSION: Final = 1
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS series (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, since_s INTEGER NOT NULL, seen_s INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS ring (
    tier INTEGER NOT NULL, slot INTEGER NOT NULL, start_s INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (tier, slot)) WITHOUT ROWID;
"""
T = TypeVar("T")


class Ring:
    """Values of series over time. A file that is damaged is moved aside, with a line in the log."""

    def __init__(self, path: Path, series_max: int = SERIES_MAX) -> None:
        self._path, self._series_max = path, series_max
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hanabi-history")
        self._database: sqlite3.Connection | None = None
        self._numbers: dict[str, tuple[int, int]] = {}  # series: number, and since when it has it

    async def open(self) -> None:
        """Open the file."""
        await self._do(self._open)

    async def close(self) -> None:
        """Close the file; what was written is kept."""
        await self._do(self._close)
        self._thread.shutdown()

    async def write(self, time_s: float, values: dict[str, float]) -> None:
        """Write the values of one moment. Of too many series those that were not seen the longest are forgotten."""
        await self._do(lambda: self._write(time_s, values))

    async def read(self, series: Sequence[str], tier: Tier, now_s: float) -> tuple[list[int], list[list[float | None]]]:
        """Return times, and the values of each series at them; None where there is no value."""
        return await self._do(lambda: self._read(series, tier, now_s))

    async def _do(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _open(self) -> None:
        try:
            self._database = self._opened()
        except sqlite3.DatabaseError as error:
            aside = self._path.with_name(f"{self._path.name}.damaged")
            logger.warning("history %s cannot be read (%s): moved to %s, a new one begins", self._path, error, aside)
            self._path.replace(aside)
            for suffix in ("-wal", "-shm"):
                self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
            self._database = self._opened()
        rows = self._database.execute("SELECT name, number, since_s FROM series")
        self._numbers = {name: (number, since) for name, number, since in rows}

    def _opened(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, check_same_thread=False)
        try:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=NORMAL")
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version not in (0, _VERSION):
                raise sqlite3.DatabaseError(f"version {version} is of another release")
            database.executescript(_TABLES)
            database.execute(f"PRAGMA user_version={_VERSION}")
            self._path.chmod(0o600)
        except BaseException:
            database.close()
            raise
        return database

    @property
    def _db(self) -> sqlite3.Connection:
        if self._database is None:
            raise RuntimeError("the history is not open")
        return self._database

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _write(self, time_s: float, values: dict[str, float]) -> None:
        with self._db as database:
            by_number = {self._number(database, name, int(time_s)): value for name, value in values.items()}
            database.executemany(
                "UPDATE series SET seen_s = ? WHERE number = ?", [(int(time_s), number) for number in by_number]
            )
            fine = TIERS[0]
            self._put(database, fine, fine.start(time_s), packed(by_number, self._series_max))
            for tier, finer in zip(TIERS[1:], TIERS, strict=False):
                start = tier.start(time_s)
                rows = database.execute(
                    "SELECT data FROM ring WHERE tier = ? AND start_s >= ? AND start_s < ?",
                    (finer.number, start, start + tier.step_s),
                )
                self._put(database, tier, start, means((data for (data,) in rows), self._series_max))

    @staticmethod
    def _put(database: sqlite3.Connection, tier: Tier, start_s: int, data: bytes) -> None:
        database.execute("REPLACE INTO ring VALUES (?, ?, ?, ?)", (tier.number, tier.slot(start_s), start_s, data))

    def _number(self, database: sqlite3.Connection, name: str, now_s: int) -> int:
        if name in self._numbers:
            return self._numbers[name][0]
        if len(self._numbers) < self._series_max:
            used = {number for number, _ in self._numbers.values()}
            number, since_s = next(each for each in range(self._series_max) if each not in used), 0
        else:
            oldest = "SELECT number, name FROM series ORDER BY seen_s, number LIMIT 1"
            number, forgotten = database.execute(oldest).fetchone()
            database.execute("DELETE FROM series WHERE number = ?", (number,))
            del self._numbers[forgotten]
            since_s = now_s  # before it the values are of the forgotten series
        database.execute("INSERT INTO series VALUES (?, ?, ?, ?)", (number, name, since_s, now_s))
        self._numbers[name] = (number, since_s)
        return number

    def _read(self, series: Sequence[str], tier: Tier, now_s: float) -> tuple[list[int], list[list[float | None]]]:
        last = tier.start(now_s)
        first = last - tier.span_s + tier.step_s
        times = list(range(first, last + 1, tier.step_s))
        found: list[list[float | None]] = []
        for name in series:
            number, since = self._numbers.get(name, (None, 0))
            values: list[float | None] = [None] * len(times)
            if number is not None:
                rows = self._db.execute(
                    "SELECT start_s, substr(data, ?, 4) FROM ring WHERE tier = ? AND start_s >= ? AND start_s <= ?",
                    (number * 4 + 1, tier.number, max(first, _first_whole(tier, since)), last),
                )
                for start, data in rows:
                    value = unpacked(data)
                    if value and value[0] == value[0]:
                        values[(start - first) // tier.step_s] = value[0]
            found.append(values)
        return times, found


def _first_whole(tier: Tier, since_s: int) -> int:
    """Return the first step that has values of this series only: a mean of the finer tier may begin before it."""
    start = tier.start(since_s)
    return start if tier is TIERS[0] or start == since_s else start + tier.step_s
