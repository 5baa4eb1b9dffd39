"""Files of a directory that this process holds open, and a process that can open no more."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def open_files(directory: Path) -> list[Path]:
    """Return the targets, below `directory`, of this process's descriptors: what other tests leave behind is not
    counted."""
    targets = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = descriptor.readlink()
        except FileNotFoundError:  # the descriptor that lists the folder is gone when it is asked for
            continue
        if target.is_relative_to(directory):
            targets.append(target)
    return targets


@contextmanager
def no_free_descriptors() -> Iterator[list[int]]:
    """Take every free descriptor of this process until the end of the block. Yields those that were taken."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    try:
        highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
        with suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        yield taken
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)
