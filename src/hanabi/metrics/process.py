"""The resource usage of this process, under the names that Prometheus' own clients give it.

Reads files of the system, so it is called in a thread. Figures that a system does not provide are left out.
"""

import os
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hanabi._version import __version__
from hanabi.metrics.exposition import counter, gauge, labels

if sys.platform != "win32":
    import resource

_STARTED = time.time()  # as near as makes no difference: this is imported on the way to the start


class ProcessFacts(NamedTuple):
    """The figures of one moment. None: unknown on this system."""

    cpu_seconds: float
    resident_bytes: int | None
    virtual_bytes: int | None
    open_files: int | None
    open_files_max: int | None
    threads: int | None


def process_facts() -> ProcessFacts:
    """Return the current figures."""
    times = os.times()
    resident = virtual = open_files = threads = limit = None
    if sys.platform != "win32":
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        pages = Path("/proc/self/statm").read_text().split()
        page_bytes = os.sysconf("SC_PAGE_SIZE")
        virtual, resident = int(pages[0]) * page_bytes, int(pages[1]) * page_bytes
        open_files = _entries("/proc/self/fd")
        threads = _entries("/proc/self/task")
    except OSError:  # no /proc here
        pass
    return ProcessFacts(times.user + times.system, resident, virtual, open_files, limit, threads)


def _entries(folder: str) -> int:
    return sum(1 for _ in Path(folder).iterdir())


def process_lines(facts: ProcessFacts) -> Iterator[str]:
    """Yield all of it, and which version of us runs."""
    about = labels(version=__version__, python=platform.python_version())
    yield from gauge("hanabi_build_info", "Versions of Hanabi and Python.", [(about, 1)])
    yield from counter("process_cpu_seconds_total", "Processor time spent, user and system.", facts.cpu_seconds)
    yield from gauge("process_start_time_seconds", "Start time of the process in seconds since 1970.", _STARTED)
    for name, about_it, value in (
        ("process_resident_memory_bytes", "Memory in use, mapped log files included.", facts.resident_bytes),
        ("process_virtual_memory_bytes", "Address space in use.", facts.virtual_bytes),
        ("process_open_fds", "Open files and sockets.", facts.open_files),
        ("process_max_fds", "Limit of open files and sockets.", facts.open_files_max),
        ("process_threads", "Threads.", facts.threads),
    ):
        if value is not None:
            yield from gauge(name, about_it, value)
