"""A process without room for another large map: what mmap answers when memory or addresses run out."""

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

_SPARE_BYTES = 64 << 20  # for everything else that this process does meanwhile


@contextlib.contextmanager
def no_large_maps() -> Iterator[None]:
    """Within it, no map larger than 64 MiB can be made: ENOMEM."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _SPARE_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
