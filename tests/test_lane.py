"""A test that fails once is tried again, and told of. Twice, too many, or about kept messages: that is a failure."""

import subprocess
import sys
from pathlib import Path

import pytest

LANE = [sys.executable, str(Path(__file__).with_name("lane.py")), "trial"]
PASSES_AT_SECOND_TRY = """
from pathlib import Path
def test_it():
    seen = Path(__file__).with_suffix(".seen")
    if not seen.exists():
        seen.touch()
        raise AssertionError("too slow")
"""
FAILS = "def test_it(): assert False\n"


def run_lane(home: Path, **tests: str) -> subprocess.CompletedProcess[str]:
    for name, text in tests.items():
        path = home / "tests" / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return subprocess.run([*LANE, "tests"], cwd=home, capture_output=True, text=True, check=False, timeout=120)


def test_what_passes_at_the_second_try_is_told_and_is_no_failure(tmp_path: Path) -> None:
    done = run_lane(tmp_path, test_a=PASSES_AT_SECOND_TRY, test_b="def test_it(): pass\n")
    assert done.returncode == 0, done.stdout
    assert "PASSED AT THE SECOND TRY, to be mended:\n  tests/test_a.py::test_it" in done.stdout
    assert "too slow" in done.stdout


@pytest.mark.parametrize(
    "tests",
    [
        {"test_a": FAILS},
        {f"test_{number}": PASSES_AT_SECOND_TRY for number in range(4)},
        {"store__test_a": PASSES_AT_SECOND_TRY},
        {"test_a": PASSES_AT_SECOND_TRY, "test_b": FAILS},
        {"test_a": "import nothing_of_this_name\n"},
    ],
    ids=["fails twice", "too many", "about messages", "one of two fails twice", "cannot be run"],
)
def test_everything_else_is_a_failure(tmp_path: Path, tests: dict[str, str]) -> None:
    done = run_lane(tmp_path, **tests)
    assert done.returncode != 0, done.stdout
    assert "SECOND TRY" not in done.stdout


def test_where_nothing_fails_nothing_is_told(tmp_path: Path) -> None:
    done = run_lane(tmp_path, test_b="def test_it(): pass\n")
    assert (done.returncode, "once more" in done.stdout) == (0, False)
