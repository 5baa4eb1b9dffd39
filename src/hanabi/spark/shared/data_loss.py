"""Data loss: missing messages because of retention or a re-created topic. Raises an error or logs a warning."""

import logging

from hanabi.errors import StoreError
from hanabi.message import MessageQueue
from hanabi.spark.shared.offsets import describe

logger = logging.getLogger(__name__)


class DataLost(StoreError):
    """Messages between two offsets no longer exist."""


def lost(queue: MessageQueue, start: int, end: int, why: str, *, fail: bool) -> None:
    """Raise DataLost; with *fail* off, log a warning instead."""
    text = f"{describe(queue)}: messages {start} to {end - 1} are lost: {why}"
    if fail:
        raise DataLost(f"{text}; failOnDataLoss=false continues without them")
    logger.warning("%s; continuing without them", text)


def began_again(queue: MessageQueue, read_to: int, end: int, resume: int, *, fail: bool) -> None:
    """Report that *queue* is not the queue that was read up to *read_to*: raise, or log with *fail* off."""
    what = (
        f"the queue ends at {end}" if end < read_to else f"another message stands at {read_to - 1} than was read there"
    )
    text = (
        f"{describe(queue)} was read up to {read_to}, but {what}: its topic was re-created, or its broker lost messages"
    )
    if fail:
        raise DataLost(f"{text}; failOnDataLoss=false continues at {resume}")
    logger.warning("%s; continuing at %d", text, resume)
