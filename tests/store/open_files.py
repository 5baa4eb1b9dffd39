"""Which files of a directory this process holds open: what other tests leave behind is not counted."""

from pathlib import Path


def open_files(directory: Path) -> list[Path]:
    """The targets, below `directory`, of this process's descriptors."""
    targets = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = descriptor.readlink()
        except FileNotFoundError:  # the descriptor that lists the folder is gone when it is asked for
            continue
        if target.is_relative_to(directory):
            targets.append(target)
    return targets
