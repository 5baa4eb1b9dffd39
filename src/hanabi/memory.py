"""Memory available to this process.

In a container that is the limit of its cgroup (version 1 or 2), or of an enclosing one, not the machine's memory.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_MOUNT: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")


def memory_bytes(mount: Path = _MOUNT, own: Path = _OWN) -> int:
    """Return the machine's memory, or the limit of this process's cgroup. *own* is the file that names it."""
    limits = [limit for directory, name in _groups(mount, own) if (limit := _limit(directory / name)) is not None]
    return min((*limits, _physical_bytes()))


def _physical_bytes() -> int:
    if sys.platform == "win32":
        return sys.maxsize
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _groups(mount: Path, own: Path) -> Iterator[tuple[Path, str]]:
    """Return the directories of our cgroup and of the enclosing ones, and the name of the limit there.

    A container may see its own cgroup as the root of the mount, though the file names it as the machine does.
    """
    try:
        lines = own.read_text().splitlines()
    except OSError:  # not Linux
        return
    for _, controllers, name in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        path = Path(name.lstrip("/"))
        if "memory" in controllers.split(","):
            root, limit = mount / "memory", "memory.limit_in_bytes"
        elif not controllers:
            root, limit = mount, "memory.max"
        else:
            continue
        for group in (path, *path.parents):
            yield root / group, limit


def _limit(path: Path) -> int | None:
    """Return the limit in *path*; None if there is none."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isascii() and text.isdecimal() else None
