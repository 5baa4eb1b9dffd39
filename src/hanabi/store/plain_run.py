"""The short way through a read: the records at the start of a run of queue entries that need no second look.

A read without filters finds, nearly always, whole records that came since the store was opened, in one log file, within
the limits for messages in memory. The compiled function takes those and stops at the first that is anything else; the
readable read in `reads` goes on from there and decides. So taking none, as here without a compiler, is always right.
"""

import contextlib
import os

Run = tuple[memoryview, int, int]  # a part of a log file: from where, to where


def plain_run(
    view: memoryview,
    base: int,
    entries: bytes,
    topic: bytes,
    queue_id: int,
    first_offset: int,
    log_offset_min: int,
    count_max: int,
    bytes_max: int,
) -> tuple[list[Run], int, int, int]:
    """Runs of records that lie side by side, how many records and bytes they are, and where in the log the last one is.

    *view* is a log file that begins at *base*; *topic* is a `topic_field`; the first entry is that of *first_offset*.
    None below *log_offset_min* is taken, nor one that would make it more than *bytes_max*, but for the first.
    """
    return [], 0, 0, 0


python_plain_run = plain_run
if not os.environ.get("HANABI_PURE_PYTHON"):
    with contextlib.suppress(ImportError):
        from hanabi.store._speedups import plain_run  # type: ignore[no-redef]
