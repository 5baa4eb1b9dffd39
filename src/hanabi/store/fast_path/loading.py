"""The compiled modules of the store's fast path, or None where they are not built or not wanted."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from hanabi.store.fast_path._appends import RunWriter
    from hanabi.store.fast_path._copies import CopyRun
    from hanabi.store.fast_path._reads import RecordRun


def run_writer() -> "type[RunWriter] | None":
    """Return the class that writes runs of messages."""
    return cast("type[RunWriter] | None", _compiled("_appends", "RunWriter"))


def copy_run() -> "type[CopyRun] | None":
    """Return the class that dispatches runs of a slave's records."""
    return cast("type[CopyRun] | None", _compiled("_copies", "CopyRun"))


def record_run() -> "type[RecordRun] | None":
    """Return the class that finds the records of a pull."""
    return cast("type[RecordRun] | None", _compiled("_reads", "RecordRun"))


def _compiled(module: str, name: str) -> object:
    if os.environ.get("HANABI_PURE_PYTHON"):
        return None
    try:
        return getattr(import_module(f"hanabi.store.fast_path.{module}"), name)
    except ImportError:
        return None
