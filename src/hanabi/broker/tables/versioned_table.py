"""Versioned table of names with settings, and its file: used for topics and groups.

    {
        "dataVersion":{ counter, timestamp },
        "topicConfigTable":{ NAME: {...}, ... }
    }

The file is as Apache's ConfigManager writes it. There are two ways to change the table:

    change    in the file first, then in force; refused if the file cannot be written. For administrators.
    put       in force at once, and in the file soon. For topics and groups that clients create.

A slave's table is a copy: `adopt` replaces all of it, with the master's version.

While `keep_saving` runs, the loop waits for neither: a thread encodes and writes the table, and one write covers all
changes made during the previous one. Settings are immutable values, so each is encoded once. Does not know the meaning
of the settings.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec

from hanabi.broker.tables.deferred_save import DeferredSave
from hanabi.broker.tables.pretty_json import pretty
from hanabi.durable_table import DurableTable
from hanabi.wire.bodies.topics import DataVersion

_MEMBERS_A_PAUSE: Final = 100  # encoded without a pause: less than a millisecond
_PAUSE_SECONDS: Final = 0.0005

T = TypeVar("T", bound=msgspec.Struct)


class Content(msgspec.Struct, Generic[T], frozen=True):
    """Content of a file. `extra` are members of a newer Java, which are only kept."""

    version: DataVersion
    members: Mapping[str, T]
    extra: Mapping[str, Any] = msgspec.field(default_factory=dict)
    number: int = 0  # of changes in this process: the version of a copy may go back


class _Change(msgspec.Struct, Generic[T], frozen=True):
    """One change of the table; `then` is called when it is in force."""

    changed: Mapping[str, T]
    gone: tuple[str, ...]
    then: Callable[[], None]

    def apply_to(self, members: dict[str, T]) -> None:
        members.update(self.changed)
        for name in self.gone:
            members.pop(name, None)


class Done:
    """Awaitable that is done already."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


class VersionedTable(Generic[T]):
    """Invariant: a member that is not in `later.unsaved` is in the file, once anything was changed."""

    def __init__(
        self, path: Path | None, key: str, decode: Callable[[bytes], Content[T]], now_ms: Callable[[], int]
    ) -> None:
        self._key, self._now_ms = key, now_ms
        self._file = DurableTable(path, encode=self._encode, decode=decode) if path is not None else None
        content = self._file.load() if self._file is not None else None
        self.members: dict[str, T] = dict(content.members) if content else {}
        self.version = content.version if content else DataVersion(counter=0, timestamp=now_ms())
        self._extra = {name: value for name, value in content.extra.items() if value} if content else {}
        self._written: dict[str, tuple[T, bytes]] = {}
        self._writing = threading.Lock()
        self._changes = self._changes_in_file = 0
        self.is_complete = self._file is None or self._file.is_newest  # what was read, or there was no file to read
        self._asked: list[_Change[T]] = []  # for the next write
        self._in_flight: list[_Change[T]] = []  # in the write that runs
        self._ahead: dict[str, T | None] = {}  # what both will make of names; None: gone
        self._growth = 0  # of the number of members, by both
        self.later = DeferredSave(self._begin, ended=self._ended)
        self._saves_later = False

    # Asking

    def newest(self, name: str) -> T | None:
        """Return the member as it will be when all changes that were asked for are in force."""
        return self._ahead[name] if name in self._ahead else self.members.get(name)

    @property
    def count(self) -> int:
        """Number of members after all pending changes."""
        return len(self.members) + self._growth

    # Changing

    def put(self, changed: Mapping[str, T]) -> None:
        """Put *changed* into force now, with the next version, and into the file soon; at once unless `keep_saving`
        runs."""
        if not self._saves_later:
            self.change(changed)
            return
        new = [name for name in changed if name not in self.members or name in self.later.unsaved]
        self.members.update(changed)
        self.touch()
        self.later.changed(new)

    def change(
        self, changed: Mapping[str, T], *, gone: Iterable[str] = (), then: Callable[[], None] = lambda: None
    ) -> Awaitable[None]:
        """Add *changed* and remove *gone*, with the next version, in the file and then in memory; or not at all.

        Await it: it raises the reason of a refusal. Unless `keep_saving` runs, the change is complete on return.
        """
        change = _Change(changed, tuple(gone), then)
        self._asked.append(change)
        self._look_ahead(change)
        if self._saves_later:
            return asyncio.shield(self.later.changed())
        write = self._begin()
        saved = False
        try:
            write()
            saved = True
        finally:
            self._ended(saved)
        return Done()

    def adopt(self, content: Content[T]) -> None:
        """Replace the whole table, also its version, by a copy of the master's: now, and in the file soon.

        A slave changes its table in no other way.
        """
        self.members.clear()
        self.members.update(content.members)
        self.version, self._extra = content.version, {name: value for name, value in content.extra.items() if value}
        self._changes += 1
        if self._saves_later:
            self.later.changed()
        else:
            self.save()

    async def keep_saving(self) -> None:
        """Write changes in a thread, until cancelled."""
        self._saves_later = True
        try:
            await self.later.run()
        finally:
            self._saves_later = False

    def _look_ahead(self, change: _Change[T]) -> None:
        self._growth += sum(self.newest(name) is None for name in change.changed)
        self._ahead.update(change.changed)
        self._growth -= sum(self.newest(name) is not None for name in change.gone)
        self._ahead.update(dict.fromkeys(change.gone))

    def _begin(self) -> Callable[[], None]:
        """Return the write of all pending changes."""
        self._in_flight, self._asked = self._asked, []
        members = dict(self.members)
        for change in self._in_flight:
            change.apply_to(members)
        count = len(self._in_flight)
        content = Content(self._version_after(count), members, self._extra, self._changes + count)
        return partial(self._write_paced if self._saves_later else self._write, content)

    def _ended(self, saved: bool) -> None:
        """Put the written changes into force. After a failure all pending changes are refused, as later ones build on
        it."""
        done, self._in_flight = self._in_flight, []
        if not saved:
            done, self._asked = [], []
        for change in done:
            change.apply_to(self.members)
            self.touch()
        self._ahead, self._growth = {}, 0
        for change in self._asked:
            self._look_ahead(change)
        for change in done:
            change.then()

    def touch(self) -> None:
        """Give the table its next version, in memory."""
        self.version = self._version_after(1)
        self._changes += 1

    def _version_after(self, changes: int) -> DataVersion:
        if not changes:
            return self.version
        return msgspec.structs.replace(self.version, counter=self.version.counter + changes, timestamp=self._now_ms())

    # Writing

    def save(self) -> None:
        """Write the table to disk now. Blocks."""
        self._write(Content(self.version, dict(self.members), self._extra, self._changes))

    def save_changes(self) -> None:
        """Write unsaved changes to disk now. Blocks."""
        if self._changes != self._changes_in_file:
            self.save()

    def _write_paced(self, content: Content[T]) -> None:
        """Write in a thread: pause while encoding members, so that the event loop can run."""
        encoded = 0
        for name, member in content.members.items():
            known = self._written.get(name)
            if known is None or known[0] is not member:
                self._member(name, member)
                encoded += 1
                if encoded % _MEMBERS_A_PAUSE == 0:
                    time.sleep(_PAUSE_SECONDS)
        self._write(content)

    def _write(self, content: Content[T]) -> None:
        if self._file is None:
            return
        with self._writing:
            if content.number >= self._changes_in_file:
                self._file.save(content)
                self._changes_in_file = content.number

    def _encode(self, content: Content[T]) -> bytes:
        rest = {"dataVersion": content.version, **content.extra}
        pieces: list[bytes] = []  # joined once, so that megabytes are not copied again
        for name in sorted({*rest, self._key}):
            pieces.append(b'%b\n\t"%b":' % (b"," if pieces else b"{", name.encode()))
            if name == self._key:
                self._add_members(content.members, pieces)
            else:
                pieces.append(pretty(rest[name], depth=1))
        return b"".join([*pieces, b"\n}"])

    def _add_members(self, members: Mapping[str, T], pieces: list[bytes]) -> None:
        if len(self._written) > 2 * len(members) + 16:  # entries of deleted members
            self._written = {name: self._written[name] for name in members if name in self._written}
        if not members:
            pieces.append(b"{}")
            return
        first = len(pieces)
        pieces += [self._member(name, member) for name, member in members.items()]
        pieces[first] = b"{" + pieces[first][1:]
        pieces.append(b"\n\t}")

    def _member(self, name: str, member: T) -> bytes:
        """Return the member in the form of the file, behind the comma of the previous one."""
        known = self._written.get(name)
        if known is not None and known[0] is member:
            return known[1]
        written = b",\n\t\t%b:%b" % (msgspec.json.encode(name), pretty(member, depth=2))
        self._written[name] = (member, written)
        return written
