"""The compiled modules of the store's fast path, or None where they are not built or not wanted."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hanabi.store.fast_path._appends import RunWriter
    from hanabi.store.fast_path._copies import CopyRun
    from hanabi.store.fast_path._reads import RecordRun


def run_writer() -> "type[RunWriter] | None":
    """Return the class that writes runs of messages."""
    if os.environ.get("HANABI_PURE_PYTHON"):
        return None
    try:
        from hanabi.store.fast_path._appends import RunWriter
    except ImportError:
        return None
    return RunWriter


def copy_run() -> "type[CopyRun] | None":
    """Return the class that dispatches runs of a slave's records."""
    if os.environ.get("HANABI_PURE_PYTHON"):
        return None
    try:
        from hanabi.store.fast_path._copies import CopyRun
    except ImportError:
        return None
    return CopyRun


def record_run() -> "type[RecordRun] | None":
    """Return the class that finds the records of a pull."""
    if os.environ.get("HANABI_PURE_PYTHON"):
        return None
    try:
        from hanabi.store.fast_path._reads import RecordRun
    except ImportError:
        return None
    return RecordRun
