"""Power-cut images: a copy of a directory that holds only what a process has made durable.

    recording = Recording(library, store, tmp_path / "record")
    child = Popen(command, env={**os.environ, **faults.environment, **recording.environment})
    ...                                        # work; kill -9 the child
    recording.image(tmp_path / "after the cut")

What counts as durable:
- The bytes of a file: as they were when fsync or fdatasync (the whole file) or msync (the pages of the range) began.
  All else is what it was at the sync before, or zeros.
- After a sync that the shim let fail: nothing, and the pages that it was to write count as clean, as on Linux. The next
  sync leaves them out unless they were written to again (other bytes, or a write or pwrite of the same ones).
- The name of a file: from the first sync of the file itself on (as on ext4, with the directories above it), or from a
  sync of its directory on.
- The size of a file: that of its last sync. Of a file that was never synced itself, but its directory: the size that it
  had then, and zeros (ext4 after ftruncate: seen); or, without `sizes`, none (ext4 after write, btrfs after both).
  A sync that the kill interrupted has written some pages, and no other size.
- Renaming and removing: from the sync of the directory on. Before that the old name has the old file.
A kernel may write more than it was asked to. `survives` lets a test choose pages that were written without a sync.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

PAGE_BYTES: Final = 4096

Survives = Callable[[Path, int], bool]  # a path below the root, and the number of a page


class _Durable(NamedTuple):
    """A durable name, and the record of its bytes."""

    key: str
    unsynced_size: int | None  # as a sync of its directory found it; None once the file itself was synced


class Recording:
    """Record of what the processes that are started with `environment` make durable below *root*."""

    def __init__(self, library: Path, root: Path, folder: Path) -> None:
        self._library, self._root, self._folder = library, root.absolute(), folder
        folder.mkdir()

    @property
    def environment(self) -> Mapping[str, str]:
        record = {"HANABI_FAULTS_RECORD": str(self._folder), "HANABI_FAULTS_ROOT": str(self._root)}
        return {"LD_PRELOAD": str(self._library), **record}

    def image(self, target: Path, *, survives: Survives = lambda path, page: False, sizes: bool = True) -> None:
        """Build the directory as a power cut now would leave it. *survives* and *sizes*: see above."""
        target.mkdir()
        for path, durable in durable_names(self._events()).items():
            place = target / path.relative_to(self._root)
            place.parent.mkdir(parents=True, exist_ok=True)
            record = self._folder / durable.key
            place.touch()
            if record.exists() and (sizes or durable.unsynced_size is None):
                _copy_sparse(record, place)
            if sizes and durable.unsynced_size is not None:
                os.truncate(place, durable.unsynced_size)
            self._add_pages(path, place, survives)

    def is_durable(self, path: Path) -> bool:
        """Return whether a power cut now would leave the file *path* as it is. The process may go on meanwhile.

        A test that waits for a file must wait for this, too: a renamed file is seen before its directory is synced.
        """
        durable = durable_names(self._events()).get(path)
        if durable is None or durable.unsynced_size is not None:
            return False
        return (self._folder / durable.key).read_bytes() == path.read_bytes()

    def _add_pages(self, path: Path, place: Path, survives: Survives) -> None:
        if not path.is_file():
            return
        below = path.relative_to(self._root)
        with path.open("rb") as source, place.open("r+b") as target:
            for page in range(min(path.stat().st_size, place.stat().st_size) // PAGE_BYTES):
                if survives(below, page):
                    source.seek(page * PAGE_BYTES)
                    target.seek(page * PAGE_BYTES)
                    target.write(source.read(PAGE_BYTES))

    def _events(self) -> list[str]:
        """Return the events so far, without one that is just being written."""
        events = self._folder / "events"
        return events.read_text().rpartition("\n")[0].splitlines() if events.exists() else []


def durable_names(events: list[str]) -> dict[Path, _Durable]:
    """Return the names that are on the disk after these events of the shim."""
    names: dict[Path, _Durable] = {}
    synced: set[str] = set()
    directory, before = Path(), dict[Path, _Durable]()
    for event in events:
        kind, _, rest = event.partition(" ")
        match kind:
            case "file":
                key, _, path = rest.partition(" ")
                synced.add(key)
                whole = _Durable(key, None)
                if not path.endswith(" (deleted)") and names.get(Path(path), whole).key == key:
                    names[Path(path)] = whole
            case "directory":
                directory, before = Path(rest), names
                names = {path: durable for path, durable in names.items() if not path.is_relative_to(directory)}
            case "name":
                key, size, name = rest.split(" ", 2)
                names[directory / name] = _Durable(key, None if key in synced else int(size))
            case "folder":
                below = directory / rest
                names.update({path: durable for path, durable in before.items() if path.is_relative_to(below)})
    return names


def _copy_sparse(source: Path, target: Path) -> None:
    """Copy a file without its holes: segments are large, and most of each is a hole."""
    with source.open("rb") as reader, target.open("wb") as writer:
        while chunk := reader.read(PAGE_BYTES * 16):
            if chunk.count(0) == len(chunk):
                writer.seek(len(chunk), os.SEEK_CUR)
            else:
                writer.write(chunk)
        writer.truncate(reader.tell())
