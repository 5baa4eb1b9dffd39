"""A pool of threads that run already.

A thread that is started when it is needed may be refused then (pids.max of a container, ulimit -u), and CPython's pool
keeps the work in its queue though it has raised. A pool that was started whole refuses nothing later.
"""

import threading
from concurrent.futures import ThreadPoolExecutor


def started_threads(count: int, name: str) -> ThreadPoolExecutor:
    """Start *count* threads. RuntimeError if the system refuses one."""
    pool = ThreadPoolExecutor(count, thread_name_prefix=name)
    started = threading.Barrier(count + 1)
    try:
        for _ in range(count):
            pool.submit(started.wait)  # each keeps its thread until all are there
    except RuntimeError:
        started.abort()
        pool.shutdown(cancel_futures=True)
        raise
    started.wait()
    return pool
