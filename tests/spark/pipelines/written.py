"""Waiting for what a broker writes into its files in its own time."""

import time
from pathlib import Path

from hanabi.store.consume_queue import count_present


def wait_for_queues(store: Path, topic: str, messages: int) -> None:
    """A broker writes the newest entries of its queues within a second or so: until they are there for all to see."""
    deadline = time.monotonic() + 60
    while sum(count_present(path.read_bytes()) for path in (store / "consumequeue" / topic).rglob("0" * 20)) < messages:
        assert time.monotonic() < deadline, "the queues were not written"
        time.sleep(0.05)
