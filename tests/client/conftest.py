"""Fixtures of the client's tests; `world.py` has the cluster itself."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    sys.path.append(ROOT)

from tests.client.world import WorldThread, world_thread  # noqa: E402


@pytest.fixture
def cluster_thread(tmp_path: Path) -> Iterator[WorldThread]:
    """A cluster in a thread of its own, for tests that block."""
    with world_thread(tmp_path) as running:
        yield running
