"""A process that stores messages with SYNC_FLUSH and says which are safe, until it is killed.

    python -m tests.interop.store_writer ROOT FIRST_MS

Prints the log offset and the size of each message once it is on the disk, a line each. Its clock makes a step of
60 ms with every message, and it makes a checkpoint every few seconds of that: so recovery need not begin at the start.
"""

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from hanabi.store.indexer import Hooks
from hanabi.store.message_store import MessageStore, PutResult, PutStatus
from tests.interop.store_files import store_config
from tests.interop.store_messages import deliver_time_ms, pending, samples

STEP_MS = 60
FOREVER = 10**9
WAITING_MAX = 16
CHECKPOINT_PUTS = 80


def run(root: Path, first_ms: int) -> None:
    clock = _ticks(first_ms)
    room = threading.Semaphore(WAITING_MAX)
    config = store_config(root, flushDiskType="SYNC_FLUSH")
    hooks = Hooks(deliver_time_ms=deliver_time_ms)
    with MessageStore.open(config, now_ms=lambda: next(clock), hooks=hooks, disk_ratio=lambda _: 0.1) as store:
        for number, batch in enumerate(samples(seed=2, count=FOREVER), start=1):
            room.acquire()
            messages = [pending(sample) for sample in batch]
            result = store.put(messages[0]) if len(messages) == 1 else store.put_batch(messages)
            assert result.status is PutStatus.PUT_OK, result.reason
            _say_when_safe(store, result, room)
            if number % CHECKPOINT_PUTS == 0:
                store.flush()


def _say_when_safe(store: MessageStore, result: PutResult, room: threading.Semaphore) -> None:
    lines = "".join(f"{place.log_offset} {place.size}\n" for place in result.appended).encode()

    def say(status: PutStatus) -> None:
        if status is PutStatus.PUT_OK:
            os.write(1, lines)
        room.release()

    store.await_flush(result.end_offset, say)


def _ticks(first_ms: int) -> Iterator[int]:
    while True:
        yield first_ms
        first_ms += STEP_MS


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]))
