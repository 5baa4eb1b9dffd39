"""Waiting for what a broker writes into its files in its own time."""

from pathlib import Path

from hanabi.store.queues.consume_queue import count_present
from hanabi.testing.waiting import wait_until


def wait_for_queues(store: Path, topic: str, messages: int) -> None:
    """Wait until the newest entries of a topic's queues are in their files, which takes a second or so."""
    files = store / "consumequeue" / topic

    def are_there() -> bool:
        return sum(count_present(path.read_bytes()) for path in files.rglob("0" * 20)) >= messages

    wait_until(are_there, f"{messages} entries in the queues of {topic}", seconds=60)
