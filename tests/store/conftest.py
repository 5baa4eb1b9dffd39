"""A place for a store in tests that has no disk under it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def memory_directory() -> Iterator[Path]:
    """Yield a directory where fdatasync costs nothing, if the machine has one."""
    memory = Path("/dev/shm")  # noqa: S108 (a fresh directory inside it)
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        yield Path(directory)
