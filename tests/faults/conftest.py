"""Fixtures of fault injection. Where the shim cannot be made, the tests that need it are skipped with the reason."""

from pathlib import Path

import pytest

from tests.faults.power_cut import Recording
from tests.faults.shim import Faults, ShimUnavailable, compile_shim


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the compiled library."""
    try:
        return compile_shim(tmp_path_factory.mktemp("shim"))
    except ShimUnavailable as unavailable:
        pytest.skip(str(unavailable))


@pytest.fixture
def faults(shim: Path, tmp_path: Path) -> Faults:
    """Rules for processes that this test starts; none at first."""
    return Faults(shim, tmp_path / "faults.control")


@pytest.fixture
def recording(shim: Path, tmp_path: Path) -> Recording:
    """Return what processes that this test starts make durable below the directory `store`."""
    return Recording(shim, tmp_path / "store", tmp_path / "record")
