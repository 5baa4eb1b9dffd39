"""Shared by all tests."""

import gc
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.coroutines import run_coroutine_test
from tests.store.open_files import open_files
from tests.store.opened import closing_stores

pytest_plugins = ["hanabi.testing.plugin"]

ROOT = Path("/")
LEFT_OPEN_MAX = 40  # for what a process opens once and keeps

# A machine that does other things is slow, which is no fault of what is tested.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("any machine"), max_examples=20, stateful_step_count=20)
settings.load_profile("quick" if os.environ.get("HANABI_QUICK") else "any machine")


@pytest.fixture(autouse=True)
def stores_are_closed() -> Iterator[None]:
    """Close the stores that this test has opened and left."""
    with closing_stores():
        yield


@pytest.fixture(autouse=True, scope="module")
def descriptors_are_closed() -> Iterator[None]:
    """Fail the last test of a module whose tests leave files open."""
    before = len(open_files(ROOT))
    yield
    if len(open_files(ROOT)) > before + LEFT_OPEN_MAX:
        gc.collect()
        assert len(left := open_files(ROOT)) <= before + LEFT_OPEN_MAX, left


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a file system of 64 KiB."""
    mount = tmp_path / "small"
    mount.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mount)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    yield mount
    subprocess.run(["umount", "--lazy", str(mount)], check=True)


def pytest_configure() -> None:
    """Ctrl-C works, here and in every process that tests start: a shell that runs us in the background ignores it, and
    what is ignored is inherited."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test on an event loop of its own."""
    return run_coroutine_test(pyfuncitem)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that take minutes, unless they are asked for; they count as deselected."""
    if os.environ.get("HANABI_SLOW_TESTS"):
        return
    slow = [item for item in items if item.get_closest_marker("slow") is not None]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item.get_closest_marker("slow") is None]
