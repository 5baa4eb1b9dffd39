"""Garbage collection in Spark's workers.

A worker collects garbage after every task, through every object of all modules: 60,000 objects, 16 ms and more, and no
garbage found. A stream has many tasks a second.
"""

import gc

from pyspark import TaskContext

_frozen = False


def leave_modules_alone() -> None:
    """Exclude all present objects from garbage collection, once per process. Does nothing outside a worker."""
    global _frozen  # gc.get_freeze_count() would do, but counts every frozen object
    if not _frozen and TaskContext.get() is not None:
        gc.freeze()
        _frozen = True
