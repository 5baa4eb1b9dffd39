"""Programs of users under mypy and pyright: right ones pass, and each wrong line is refused where it is wrong."""

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]
REFUSED = "# refused"
Found = dict[str, set[int]]  # lines with an error, by file
_MYPY_LINE = re.compile(r"(?P<file>[^:]+):(?P<line>\d+): error: ")


def marked() -> Found:
    """Return the lines that must be refused."""
    return {
        path.name: {number for number, line in enumerate(path.read_text().splitlines(), 1) if line.endswith(REFUSED)}
        for path in PROGRAMS.glob("*.py")
    }


def by_mypy() -> Found:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *map(str, sorted(PROGRAMS.glob("*.py")))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    found: Found = defaultdict(set)
    for match in map(_MYPY_LINE.match, done.stdout.splitlines()):
        if match:
            found[Path(match["file"]).name].add(int(match["line"]))
    assert found, done.stdout + done.stderr
    return found


def by_pyright() -> Found:
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", str(PROGRAMS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    found: Found = defaultdict(set)
    for each in json.loads(done.stdout)["generalDiagnostics"]:
        if each["severity"] == "error":
            found[Path(each["file"]).name].add(each["range"]["start"]["line"] + 1)
    return found


def test_there_are_twelve_programs_half_of_them_wrong() -> None:
    lines = marked()
    assert len(lines) == 12
    assert {name for name, wrong in lines.items() if wrong} == {name for name in lines if name.startswith("wrong_")}


@pytest.mark.long
@pytest.mark.parametrize("check", [by_mypy, by_pyright], ids=["mypy", "pyright"])
def test_type_checkers_refuse_exactly_the_wrong_lines(check: object) -> None:
    assert callable(check)
    found = check()
    assert {name: found.get(name, set()) for name in marked()} == marked()
