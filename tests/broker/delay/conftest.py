"""Worlds of delays on a disk that costs nothing."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.delay.world import World


@pytest.fixture
def directory() -> Iterator[Path]:
    """Yield where fsync costs nothing, if the machine has such a place."""
    memory = Path("/dev/shm")  # noqa: S108 (a fresh directory inside it)
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        yield Path(directory)


@pytest.fixture
def world(directory: Path) -> World:
    return World(directory / "home")
