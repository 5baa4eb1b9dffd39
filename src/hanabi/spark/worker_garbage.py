"""Python's garbage collector in Spark's workers.

A worker looks for garbage after every task, through every object of all modules: 60,000 objects, 16 ms and more, and no
garbage. A stream has many tasks a second.
"""

import gc

from pyspark import TaskContext


def leave_modules_alone() -> None:
    """Let the collector pass over what is there now, if this is a worker: once, and nothing anywhere else."""
    if TaskContext.get() is not None and not gc.get_freeze_count():
        gc.freeze()
