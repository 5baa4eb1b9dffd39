"""Names with their settings, a data version over all of them, and the file that holds both: topics, and groups.

    {
        "dataVersion":{ counter, timestamp },
        "topicConfigTable":{ NAME: {...}, ... }
    }

The file is as Apache's ConfigManager writes it. Settings are values that never change, so each is put into its written
form once, and a table of thousands is written in milliseconds. Knows nothing of what the settings mean.
"""

import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from hanabi.broker.later_saves import LaterSaves
from hanabi.broker.pretty_json import pretty
from hanabi.durable_table import DurableTable
from hanabi.wire.bodies.topics import DataVersion

T = TypeVar("T", bound=msgspec.Struct)


class Content(msgspec.Struct, Generic[T], frozen=True):
    """What a file says. `extra` are members of a newer Java that we only keep."""

    version: DataVersion
    members: Mapping[str, T]
    extra: Mapping[str, Any] = msgspec.field(default_factory=dict)


class VersionedTable(Generic[T]):
    """Invariant: the members are what the file says, once anything was changed; but for those in `later.unsaved`."""

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
        self._counter_in_file = self.version.counter
        self.later = LaterSaves(self._writer)
        self._saves_later = False

    def add(self, name: str, member: T) -> None:
        """Put a new one in, which is in the file soon if somebody sees to that, and now if nobody does."""
        if not self._saves_later:
            self.change({name: member})
            return
        self.members[name] = member
        self._count_up()
        self.later.changed(name)

    async def keep_saving(self) -> None:
        """From now on write what is `add`ed in a thread, until cancelled."""
        self._saves_later = True
        try:
            await self.later.run()
        finally:
            self._saves_later = False

    def change(self, changed: Mapping[str, T], *, gone: str | None = None) -> None:
        """Put *changed* in and take *gone* out, with the next version, in memory and in the file; or not at all."""
        names = [*changed, gone] if gone is not None else [*changed]
        before = {name: self.members.get(name) for name in names}
        version = self.version
        self.members.update(changed)
        if gone is not None:
            self.members.pop(gone, None)
        self._count_up()
        try:
            self.save()
        except BaseException:  # no room on the disk: what was refused must not be in force until the next start
            self.version = version
            for name, member in before.items():
                if member is None:
                    self.members.pop(name, None)
                else:
                    self.members[name] = member
            raise

    def _count_up(self) -> None:
        version = self.version
        self.version = msgspec.structs.replace(version, counter=version.counter + 1, timestamp=self._now_ms())

    def save(self) -> None:
        """Bring the table to the disk now. Blocks."""
        self._writer()()

    def save_changes(self) -> None:
        """Bring to the disk now what is not there yet. Blocks."""
        if self.version.counter != self._counter_in_file:
            self.save()

    def _writer(self) -> Callable[[], None]:
        """What writes the table as it is now: in any thread, at any time, and never over a newer one."""
        return partial(self._write, Content(self.version, dict(self.members), self._extra))

    def _write(self, content: Content[T]) -> None:
        if self._file is None:
            return
        with self._writing:
            if content.version.counter >= self._counter_in_file:
                self._file.save(content)
                self._counter_in_file = content.version.counter

    def _encode(self, content: Content[T]) -> bytes:
        parts = {
            name: pretty(value, depth=1) for name, value in (("dataVersion", content.version), *content.extra.items())
        }
        members = b",".join([self._member(name, member) for name, member in content.members.items()])
        if len(self._written) > 2 * len(content.members) + 16:  # of members that went
            self._written = {name: self._written[name] for name in content.members}
        parts[self._key] = b"{%b\n\t}" % members if members else b"{}"
        return b"{%b\n}" % b",".join([b'\n\t"%b":%b' % (name.encode(), parts[name]) for name in sorted(parts)])

    def _member(self, name: str, member: T) -> bytes:
        known = self._written.get(name)
        if known is not None and known[0] is member:
            return known[1]
        written = b"\n\t\t%b:%b" % (msgspec.json.encode(name), pretty(member, depth=2))
        self._written[name] = (member, written)
        return written
