"""A test that is marked `timing` and fails is retried once and reported. Every other failure is final."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
LANE = [sys.executable, str(TESTS / "lane.py")]
TIMING = '@__import__("pytest").mark.timing(reason="waits for real time")\n'
PASSES_AT_SECOND_RUN = """
def test_it():
    seen = __import__("pathlib").Path(__file__).with_suffix(".seen")
    if not seen.exists():
        seen.touch()
        raise AssertionError("too slow")
"""
LATE = PASSES_AT_SECOND_RUN.replace("\ndef", f"\n{TIMING}def")
FAILS = "def test_it(): assert False\n"
INI = "[pytest]\nmarkers = timing(reason): may be retried\n"


def run_lane(home: Path, **tests: str) -> subprocess.CompletedProcess[str]:
    (home / "pytest.ini").write_text(INI)
    for name, text in tests.items():
        path = home / "tests" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return call_lane(home, "trial", "tests")


def call_lane(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTEST_ADDOPTS": ""}  # those of our own run
    return subprocess.run(
        [*LANE, *arguments], cwd=home, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def test_a_timing_test_that_passes_at_its_second_run_is_named_in_the_last_lines_and_is_no_failure(
    tmp_path: Path,
) -> None:
    done = run_lane(tmp_path, test_a=LATE, test_b="def test_it(): pass\n")
    assert done.returncode == 0, done.stdout
    named = "trial: PASSED AT THE SECOND RUN ONLY, to be repaired:\n  tests/test_a.py::test_it\n"
    assert done.stdout.endswith(named)
    assert "too slow" in done.stdout
    assert call_lane(tmp_path).stdout.endswith(named)  # the report after all lanes
    run_lane(tmp_path, test_a="def test_it(): pass\n")
    assert call_lane(tmp_path).stdout == ""


@pytest.mark.parametrize(
    "tests",
    [
        {"test_a": TIMING + FAILS},
        {"test_a": PASSES_AT_SECOND_RUN},
        {f"test_{number}": LATE for number in range(4)},
        {"test_a": LATE, "test_b": FAILS},
        {"test_a": "import nothing_of_this_name\n"},
    ],
    ids=["fails twice", "not marked", "too many", "one of two is not marked", "cannot be run"],
)
def test_everything_else_is_a_failure(tmp_path: Path, tests: dict[str, str]) -> None:
    done = run_lane(tmp_path, **tests)
    assert done.returncode != 0, done.stdout
    assert "SECOND RUN" not in done.stdout


def test_where_nothing_fails_nothing_is_retried(tmp_path: Path) -> None:
    done = run_lane(tmp_path, test_b="def test_it(): pass\n")
    assert (done.returncode, "retrying" in done.stdout) == (0, False)


def marks_of(path: Path) -> Iterator[ast.Call | ast.Attribute]:
    """Yield every use of `pytest.mark.timing` in a module."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    called = [node for node in nodes if isinstance(node, ast.Call) and is_timing(node.func)]
    functions = [call.func for call in called]
    yield from called
    yield from (node for node in nodes if isinstance(node, ast.Attribute) and is_timing(node) and node not in functions)


def is_timing(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and ast.unparse(node) == "pytest.mark.timing"


def test_every_timing_mark_has_a_reason() -> None:
    for path in sorted(TESTS.rglob("*.py")):
        for mark in marks_of(path):
            reasons = (
                {word.arg: ast.unparse(word.value) for word in mark.keywords} if isinstance(mark, ast.Call) else {}
            )
            assert len(reasons.get("reason", "").split()) >= 3, (
                f"{path}:{mark.lineno}: say why real time is its subject"
            )
