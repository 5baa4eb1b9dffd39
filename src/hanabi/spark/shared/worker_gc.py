"""Python's garbage collector in Spark's workers.

A worker looks for garbage after every task, through every object of all modules: 60,000 objects, 16 ms and more, and no
garbage. A stream has many tasks a second.
"""

import gc

from pyspark import TaskContext

_frozen = False


def leave_modules_alone() -> None:
    """Let the collector pass over what is there now, if this is a worker: once, and nothing anywhere else."""
    global _frozen  # the collector could be asked, but counts all that is frozen
    if not _frozen and TaskContext.get() is not None:
        gc.freeze()
        _frozen = True
