"""The file `checkpoint`: how far the log, the consume queues and the index were on the disk, as store times.

     0  log        i64   milliseconds: messages stored up to then are flushed
     8  queues     i64   their entries in the consume queues are
    16  index      i64   their entries in the index are
    24  zeros up to 4096

Recovery after a crash begins with the newest log file whose first message is older than all of them. Agrees with Java's
StoreCheckpoint. Written with pwrite and not mapped: no signal when the disk fails.
"""

import logging
import os
import struct
from pathlib import Path
from typing import Final

from hanabi.durable_table import sync_directory
from hanabi.errors import StoreError
from hanabi.store.files.segment import sync_file

logger = logging.getLogger(__name__)

CHECKPOINT_BYTES: Final = 4096
_STAMPS = struct.Struct(">qqq")
SLACK_MS: Final = 3_000  # the stamps are not taken within the appends; Apache's figure


class Checkpoint:
    """The three times. Set them freely; `flush` writes them."""

    def __init__(self, path: Path, *, log_ms: int = 0, queues_ms: int = 0, index_ms: int = 0) -> None:
        self.path = path
        self.log_ms, self.queues_ms, self.index_ms = log_ms, queues_ms, index_ms

    @classmethod
    def load(cls, path: Path, *, now_ms: int) -> "Checkpoint":
        """Load the checkpoint at *path*. A file that is missing, short or implausible counts as zeros, so that recovery
        starts far back."""
        try:
            raw = path.read_bytes()[: _STAMPS.size]
        except FileNotFoundError:
            return cls(path)
        except OSError as error:
            raise StoreError.from_os_error(error, f"reading {path}") from error
        stamps = _STAMPS.unpack(raw) if len(raw) == _STAMPS.size else (-1, -1, -1)
        if not all(0 <= stamp <= now_ms for stamp in stamps):
            logger.warning("%s is damaged, or the clock was set back: recovery reads more files", path)
            return cls(path)
        log_ms, queues_ms, index_ms = stamps
        return cls(path, log_ms=log_ms, queues_ms=queues_ms, index_ms=index_ms)

    def lower_to(self, at_ms: int) -> None:
        """Vouch for nothing that is newer than *at_ms*, on the disk too: the end of the log is cut off. Blocks."""
        self.log_ms, self.queues_ms, self.index_ms = (
            min(each, at_ms) for each in (self.log_ms, self.queues_ms, self.index_ms)
        )
        self.flush()

    def flush(self) -> None:
        """Write the times to the disk. Blocks."""
        try:
            is_new = not self.path.exists()
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
            try:
                if os.fstat(descriptor).st_size != CHECKPOINT_BYTES:
                    os.ftruncate(descriptor, CHECKPOINT_BYTES)
                # 24 bytes at the start of the file lie in one sector, so they are written whole or not at all.
                os.pwrite(descriptor, _STAMPS.pack(self.log_ms, self.queues_ms, self.index_ms), 0)
                sync_file(descriptor)
            finally:
                os.close(descriptor)
            if is_new:
                sync_directory(self.path.parent)
        except OSError as error:
            raise StoreError.from_os_error(error, f"writing {self.path}") from error

    @property
    def safe_ms(self) -> int:
        """Messages stored before are in the log and in the consume queues."""
        return max(min(self.log_ms, self.queues_ms) - SLACK_MS, 0)

    @property
    def safe_with_index_ms(self) -> int:
        """Messages stored before are in the index as well."""
        return min(self.safe_ms, self.index_ms)
