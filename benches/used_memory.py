"""Memory as it is on a machine that has run for a while: none of it is free, the cache of files has it.

A virtual machine that was just started, or whose host takes free memory back, pays several microseconds for the first
touch of a page. What is measured first would pay for all that come later. So, before, a file of zeros is read that is
as large as the free memory: it takes no room on the disk, and its pages are given to whoever needs some.
"""

import sys
import time
from pathlib import Path
from typing import Final

import psutil

LEFT_AS_IT_WAS: Final = "free memory was left as it was"
LEFT_FREE_BYTES: Final = 1 << 30  # for the servers to start with
_READ_BYTES: Final = 4 << 20


def use_free_memory(folder: Path) -> str:
    """Fill it with the cache of a file in *folder*, which has to stay there; what was done, in a sentence."""
    size = psutil.virtual_memory().free - LEFT_FREE_BYTES
    if size <= 0 or sys.platform != "linux":
        return LEFT_AS_IT_WAS
    began = time.monotonic()
    file = folder / "zeros"
    with file.open("xb") as made:
        made.truncate(size)
    if file.stat().st_blocks * 512 > size // 2:
        file.unlink()
        return f"{LEFT_AS_IT_WAS}, as files of zeros take room here"
    buffer = bytearray(_READ_BYTES)
    with file.open("rb", buffering=0) as zeros:
        while zeros.readinto(buffer):
            pass
    print(f"  read {size / 1e9:.1f} GB of zeros into free memory, {time.monotonic() - began:.0f} s", flush=True)
    return f"{size / 1e9:.1f} GB of free memory had been filled with the cache of a file before"
