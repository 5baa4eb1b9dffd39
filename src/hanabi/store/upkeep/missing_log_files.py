"""Newest log files that are missing: deleted by hand, or lost with a disk. The consume queues still know of them.

Their content is lost. But a queue must not reuse the offsets of lost messages: a group that has consumed them would
skip new messages with the same offsets. So each queue continues behind them, with blanks in their places.

An Apache broker must not be put on such a store before each of these queues has a new message: it takes a blank at the
end of a queue for a message far ahead in the log, and leaves new ones out of the queue.
"""

import logging
from collections.abc import Mapping
from typing import Final

from hanabi.errors import StoreError
from hanabi.store.files.segment import segment_name
from hanabi.store.log.log import Log
from hanabi.store.queues.consume_queue import ConsumeQueue
from hanabi.store.queues.consume_queues import ConsumeQueues

_NAMED_MAX: Final = 10  # queues in the line

logger = logging.getLogger(__name__)


def queues_beyond(log: Log, queues: ConsumeQueues) -> dict[ConsumeQueue, int]:
    """Return the queues whose last message lies behind the last file of *log*, and their next numbers.

    Call it when they are loaded and nothing is changed yet. A damaged entry may be among them: its message is then in
    the log, and recovery finds it.
    """
    end = log.end_offset
    return {queue: queue.max_offset for queue in queues if queue.max_log_offset > end}


def continue_numbers(log: Log, queues: ConsumeQueues, beyond: Mapping[ConsumeQueue, int]) -> None:
    """Let the queues of *beyond* go on with their numbers from before, after recovery has cut them to the log's end."""
    short = {queue: next_offset for queue, next_offset in beyond.items() if queue.max_offset < next_offset}
    if not short:
        return
    logger.error(
        "%s: the log files from %s on are missing, and with them %d messages of %d queues (%s). Their queues go on "
        "counting behind them, so that groups get all that is sent from now on. To have them back: stop before "
        "anything is sent, put the files back, and delete consumequeue and index, which are then built again",
        log.directory,
        segment_name(log.segments[-1].base_offset + log.segment_bytes),
        sum(next_offset - queue.max_offset for queue, next_offset in short.items()),
        len(short),
        ", ".join(_named(queue, next_offset) for queue, next_offset in list(short.items())[:_NAMED_MAX]),
    )
    for queue, next_offset in short.items():
        queue.skip_to(next_offset)
    try:
        queues.flush(sync=True)  # a kill must not take the blanks, as nothing in the log would bring them back
    except StoreError as error:
        logger.error("the blanks of lost messages are only in memory until the disk has room: %s", error)


def _named(queue: ConsumeQueue, next_offset: int) -> str:
    return f"{queue.topic}/{queue.queue_id} offsets {queue.max_offset} to {next_offset - 1}"
