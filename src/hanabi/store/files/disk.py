"""Disk usage."""

import shutil
from pathlib import Path


def used_ratio(path: Path) -> float:
    """Return the used share of the disk of *path*, from 0 to 1 in hundredths rounded up; -1 if it is unknown.

    Counts only the space that a normal user can have, as Java's UtilAll.getDiskPartitionSpaceUsedPercent does.
    """
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return -1.0
    entire = usage.used + usage.free
    return -(-usage.used * 100 // entire) / 100 if entire else -1.0
