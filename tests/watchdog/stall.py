"""The time that a server kept a client waiting, without what a busy machine did. Pure, but for `read_threads`.

A wall clock blames the server for every other process on the machine, and the processor time of its loop alone misses
a loop that waits for the disk or for the interpreter's lock. The kernel says for each thread how long it ran and how
long it was ready to run and got no processor (`/proc/.../schedstat`). So the stall of one request is

    its wall-clock time, less the time that threads of the server and of the client were kept from a processor

and at least the processor time that the server's loop took meanwhile, which nothing excuses. What is left is the
server's: computing, `fsync` on the loop, a page that comes from the disk, another thread that holds the lock.
"""

from pathlib import Path
from typing import NamedTuple

Threads = dict[int, tuple[int, int]]  # thread -> nanoseconds that it ran, and that it waited for a processor


class Stall(NamedTuple):
    """One request that took long, in seconds. `begin` and `end` are of the monotonic clock, which processes share."""

    begin: float
    end: float
    computed: float  # by the thread of the server's loop
    kept_waiting: float  # by the machine

    @property
    def seconds(self) -> float:
        return max(self.computed, self.end - self.begin - self.kept_waiting)


def read_threads(pid: int) -> Threads:
    """Return the times of all threads of a process."""
    found: Threads = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            ran, waited, _ = (thread / "schedstat").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        found[int(thread.name)] = int(ran), int(waited)
    return found


def stall_of(begin: float, end: float, loop: int, before: Threads, after: Threads) -> Stall:
    """*loop* is the thread that serves; a thread that began meanwhile counts from 0."""
    waited = sum(after[thread][1] - before.get(thread, (0, 0))[1] for thread in after)
    return Stall(begin, end, (after[loop][0] - before[loop][0]) / 1e9, waited / 1e9)


def longest(stalls: list[Stall], begin: float, end: float) -> float:
    """Return the longest stall that overlaps the time from *begin* to *end*; 0 if there was none."""
    return max((stall.seconds for stall in stalls if stall.begin <= end and stall.end >= begin), default=0.0)
