"""Puts messages with SYNC_FLUSH until it is killed; a program of its own, run by test_crash.

A line on standard input is a seed and a store's directory. For each one a child is forked, which is cheaper than a new
interpreter; what it tells goes to standard output, one short write a line:

    pid 4711              the child began
    open                  it has recovered the store
    ack 2 17 5-33         message 5-33 is on the disk, as number 17 of queue 2
    dead                  the child is no more
"""

import os
import random
import sys
import time
from pathlib import Path

from hanabi.store.config import FlushMode
from hanabi.store.message_store import MessageStore, PutResult, PutStatus
from tests.store.stores import message, small_config

QUEUES = 3


def tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def put_until_killed(seed: int, root: Path) -> None:
    dice = random.Random(seed)
    config = small_config(root, commit_log_segment_bytes=16_384, flush_mode=FlushMode.SYNC_FLUSH)
    # Times that pass quickly: now and then a checkpoint lies between the messages.
    began = time.time()
    store = MessageStore.open(
        config, now_ms=lambda: int((began + (time.time() - began) * 1000) * 1000), disk_ratio=lambda _: 0.1
    )
    store.start()
    tell("open")
    number = 0
    while True:
        queue_id = dice.randrange(QUEUES)
        count = dice.choice((1, 1, 1, 4))
        bodies = [b"%d-%d " % (seed, number + index) + b"x" * dice.randrange(600) for index in range(count)]
        number += count
        messages = [
            message(body, queue_id=queue_id, properties={"KEYS": body.split()[0].decode(), "TAGS": "t"})
            for body in bodies
        ]
        result = store.put(messages[0]) if count == 1 else store.put_batch(messages)
        if result.status is not PutStatus.PUT_OK:
            raise AssertionError(result)
        acknowledge(store, queue_id, result, bodies)
        if dice.random() < 0.02:
            store.flush()


def acknowledge(store: MessageStore, queue_id: int, result: PutResult, bodies: list[bytes]) -> None:
    def on_done(status: PutStatus) -> None:
        if status is PutStatus.PUT_OK:
            for place, body in zip(result.appended, bodies, strict=True):
                tell(f"ack {queue_id} {place.queue_offset} {body.split()[0].decode()}")

    store.await_flush(result.end_offset, on_done)


def main() -> None:
    for line in sys.stdin:
        seed, root = line.split(maxsplit=1)
        child = os.fork()
        if child == 0:
            tell(f"pid {os.getpid()}")
            put_until_killed(int(seed), Path(root.strip()))
        os.waitpid(child, 0)
        tell("dead")


if __name__ == "__main__":
    main()
