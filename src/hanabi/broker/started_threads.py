"""A pool whose threads run from the start.

A ThreadPoolExecutor starts its threads when there is work for them. On a machine at its limit of threads that fails,
and with it work that a sender waits for.
"""

import threading
from concurrent.futures import ThreadPoolExecutor


class StartedThreads(ThreadPoolExecutor):
    """A pool that needs no thread later on. RuntimeError if not all of them can be started."""

    def __init__(self, count: int, name: str) -> None:
        super().__init__(count, thread_name_prefix=name)
        all_here = threading.Barrier(
            count
        )  # a thread that is free would get the next piece of work, and no new one come
        try:
            for _ in range(count):
                self.submit(all_here.wait)
        except RuntimeError:
            all_here.abort()
            self.shutdown(wait=False)
            raise
