"""States in one file of one node: a single controller, which always leads.

The file is written whole, with fsync and rename, before a change is answered (`durable_table.py`).
"""

import asyncio
from pathlib import Path

import msgspec

from hanabi.controller.rules.state import BrokerSet
from hanabi.controller.storage.store import ABSENT, Member, Stored
from hanabi.durable_table import DurableTable
from hanabi.remoting.started_threads import in_own_thread

SELF_ID = "n0"


class _File(msgspec.Struct, frozen=True, kw_only=True):
    revision: int = 0
    sets: dict[str, tuple[int, BrokerSet]] = msgspec.field(default_factory=dict)


class FileStore:
    """States below one folder, in `brokers.json`. The caller holds the lock on that folder."""

    def __init__(self, folder: Path) -> None:
        decoder = msgspec.json.Decoder(_File)
        self._table: DurableTable[_File] = DurableTable(
            folder / "brokers.json", encode=msgspec.json.encode, decode=decoder.decode
        )
        self._file = _File()
        self._writing = asyncio.Lock()
        self._self: Member | None = None
        self._failures = 0

    async def open(self, address: str) -> None:
        """Read the file; a damaged one is a StoreDamaged, and never an empty state."""
        self._table.check_writable()
        self._file = self._table.load() or _File()
        self._self = Member(SELF_ID, address)

    async def close(self) -> None:
        """End: nothing is open."""
        self._self = None

    @property
    def leads(self) -> bool:
        """Return True while it is open."""
        return self._self is not None

    @property
    def leader(self) -> Member | None:
        """Return this controller."""
        return self._self

    @property
    def members(self) -> list[Member]:
        """Return this controller."""
        return [self._self] if self._self is not None else []

    @property
    def failures(self) -> int:
        """Return how often the file could not be written."""
        return self._failures

    async def read(self, name: str) -> Stored | None:
        """Return the present state of a broker name."""
        found = self._file.sets.get(name)
        return Stored(found[1], found[0]) if found is not None else None

    async def read_all(self) -> list[Stored]:
        """Return the present states of all broker names."""
        return [Stored(state, revision) for revision, state in self._file.sets.values()]

    async def write(self, name: str, revision: int, state: BrokerSet | None) -> bool:
        """Write the file, and only then take the change over; to its end, also if the peer goes."""
        return await asyncio.shield(self._write(name, revision, state))

    async def _write(self, name: str, revision: int, state: BrokerSet | None) -> bool:
        async with self._writing:
            present = self._file.sets.get(name)
            if (present[0] if present is not None else ABSENT) != revision:
                return False
            sets = {key: value for key, value in self._file.sets.items() if key != name}
            after = self._file.revision + 1
            if state is not None:
                sets[name] = after, state
            changed = _File(revision=after, sets=sets)
            try:
                await in_own_thread(self._table.save, changed)
            except BaseException:
                self._failures += 1
                raise
            self._file = changed
            return True
