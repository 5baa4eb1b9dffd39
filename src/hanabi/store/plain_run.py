"""The short way through a read: all of a run of queue entries, where none of them needs a second look.

A read without filters finds, nearly always, whole records that came since the store was opened, in one log file, within
the limits for messages in memory. The compiled function takes those, and none at all if one of them is anything else:
then the readable read in `reads` decides. So taking none, as here without a compiler, is always right.
"""

import contextlib
import os

# Records in order, in one piece where that is cheaper; how many, how many bytes; the last one's place and store time.
PlainRun = tuple[list[bytes | memoryview], int, int, int, int]


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
) -> PlainRun | None:
    """The records of *entries*, as many as the limits allow; None if one of them needs a second look.

    *view* is a log file that begins at *base*; *topic* is a `topic_field`; the first entry is that of *first_offset*.
    What lies below *log_offset_min* needs one. The first record may be more than *bytes_max*.
    """
    return None


python_plain_run = plain_run
if not os.environ.get("HANABI_PURE_PYTHON"):
    with contextlib.suppress(ImportError):
        from hanabi.store._speedups import plain_run  # type: ignore[no-redef]
