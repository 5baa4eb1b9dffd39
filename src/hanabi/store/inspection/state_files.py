"""The small state files of a store: `checkpoint`, `abort`, `lock`."""

from typing import Final, NamedTuple

from hanabi.store.inspection.home import StoreHome, cannot_read
from hanabi.store.upkeep.checkpoint import CHECKPOINT_BYTES, Checkpoint

_ANY_TIME_MS: Final = 2**63 - 1  # a copy may lie on a machine whose clock is behind


class CheckpointFile(NamedTuple):
    """The times, all zero if there are none, and the fault in the file."""

    checkpoint: Checkpoint
    is_there: bool
    problem: str | None


def read_checkpoint(home: StoreHome) -> CheckpointFile:
    """Read `checkpoint`."""
    try:
        raw = home.checkpoint.read_bytes()
    except FileNotFoundError:
        return CheckpointFile(Checkpoint(home.checkpoint), False, None)
    except OSError as error:
        raise cannot_read(home.checkpoint, error) from error
    checkpoint = Checkpoint.load(home.checkpoint, now_ms=_ANY_TIME_MS)
    times = checkpoint.log_ms, checkpoint.queues_ms, checkpoint.index_ms
    problem = None
    if len(raw) != CHECKPOINT_BYTES:
        problem = f"the file has {len(raw)} bytes, it should have {CHECKPOINT_BYTES}"
    elif not any(times) and raw.strip(b"\0"):
        problem = "its times cannot be right"
    return CheckpointFile(checkpoint, True, problem)
