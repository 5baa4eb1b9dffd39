"""Mark of a truncation that has begun: `truncating` in the store, with the log offset at which the log is cut.

A truncation deletes log files, and cuts queues and index later. After a crash in between, queues have entries of files
that are gone, as if a disk had lost them. The mark says that they were cut on purpose: recovery completes the cut.
"""

from pathlib import Path
from typing import Final

from hanabi.durable_table import replace_file, sync_directory
from hanabi.errors import StoreDamaged, StoreError

FILE_NAME: Final = "truncating"


def write_mark(root: Path, log_offset: int) -> None:
    """Note durably that the log will be cut."""
    try:
        replace_file(root / FILE_NAME, str(log_offset).encode())
        sync_directory(root)
    except OSError as error:
        raise StoreError.from_os_error(error, f"writing {root / FILE_NAME}") from error


def read_mark(root: Path) -> int | None:
    """Return where the log was being cut; None if it was not."""
    path = root / FILE_NAME
    try:
        return int(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise StoreDamaged(f"{path} is no log offset: delete it, and the slave compares its log again") from error
    except OSError as error:
        raise StoreError.from_os_error(error, f"reading {path}") from error


def remove_mark(root: Path) -> None:
    """Note that log, queues and index agree again."""
    try:
        (root / FILE_NAME).unlink(missing_ok=True)
        sync_directory(root)
    except OSError as error:
        raise StoreError.from_os_error(error, f"deleting {root / FILE_NAME}") from error
