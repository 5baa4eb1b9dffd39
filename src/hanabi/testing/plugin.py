"""Pytest plugin: fixtures that run a cluster for tests of programs that use Hanabi (docs/testing.md).

pytest loads it wherever Hanabi is installed. It imports servers only when a test uses a fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hanabi.testing.embedded import EmbeddedCluster


@pytest.fixture
def hanabi_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """Run a fresh name server and broker on free ports, for this test alone."""
    from hanabi.testing.embedded import embedded_cluster

    with embedded_cluster(tmp_path_factory.mktemp("hanabi")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def hanabi_session_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """Run one name server and broker for all tests of the run; give each test topics and groups of its own."""
    from hanabi.testing.embedded import embedded_cluster

    with embedded_cluster(tmp_path_factory.mktemp("hanabi")) as cluster:
        yield cluster
