"""The rebuild of a missing key index: deleted by hand, left out of a backup, or never kept by an Apache broker.

Recovery brings the index in step with the newest messages only. So where the folder is missing, the keys of all older
messages are read from the log first. Queues are left alone: those of deleted topics must not come back.
"""

import logging
import time
from typing import Final

from hanabi.store.index.key_index import KeyIndex
from hanabi.store.indexer import Indexer
from hanabi.store.log.log import Log
from hanabi.store.log.walk import LogWalk

_PROGRESS_RECORDS: Final = 65_536  # records between two progress lines

logger = logging.getLogger(__name__)


def build_index(log: Log, index: KeyIndex, indexer: Indexer, end: int, *, flushed_before_ms: int) -> int:
    """Index all messages of *log* before the offset *end*; return how many there were."""
    began = time.monotonic()
    logger.info("there is no key index in %s: it is built from the log", index.directory)
    index.make_directory()
    records = 0
    for record in LogWalk(log, log.min_offset, check_crc=False, flushed_before_ms=flushed_before_ms):
        if record.log_offset >= end:
            break
        indexer.index(record)
        records += 1
        if not records % _PROGRESS_RECORDS:
            logger.info("the key index is at log offset %d of %d", record.log_offset, end)
    logger.info("the key index has %d messages, %.1f s", records, time.monotonic() - began)
    return records
