"""Fixtures of the command line's tests."""

from collections.abc import Iterator

import pytest

from tests.serving import Serving, serving


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Yield a name server and a broker, for all tests together: each has topics of its own."""
    with serving(tmp_path_factory.mktemp("cluster")) as running:
        yield running
