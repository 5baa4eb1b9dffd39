"""A lane of the tests: `python -m tests.lane NAME PYTEST-ARGUMENTS...` runs it, `python -m tests.lane` reports.

Two lanes share a machine with JVMs and Spark. A test whose subject is real time may fail there for lack of time alone;
such a test is marked `@pytest.mark.timing(reason="...")`. If all failures of a lane are so marked, they run once more,
in a process of their own. Every other failure is final. The report after all lanes names the tests that passed only at
their second run.
"""

import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

FILES_SHOWN: Final = 60
FAILURES_MAX: Final = 3  # more failures than that have one cause, and it is not the machine
MARKER: Final = "timing"
MEMORY: Final = Path(".pytest_cache", "lanes")
_TESTS_FAILED: Final = 1  # pytest's exit code; the others say that it could not run


class Failures:
    """A plugin of pytest that notes which tests failed, which of these are marked `timing`, and what each file took."""

    def __init__(self) -> None:
        self.timing: set[str] = set()
        self.final: set[str] = set()
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid.partition("::")[0]] += report.duration
        if report.failed:
            (self.timing if MARKER in report.keywords else self.final).add(report.nodeid)


def run_lane(name: str, arguments: list[str]) -> int:
    """Run the tests of a lane, and those that may be retried a second time; return the exit code."""
    memory = MEMORY / name
    memory.parent.mkdir(parents=True, exist_ok=True)
    memory.unlink(missing_ok=True)
    failures = Failures()
    outcome = int(
        pytest.main(["-q", "--durations=30", "-o", f"cache_dir=.pytest_cache/{name}", *arguments], plugins=[failures])
    )
    print(f"\n{name}: the files that took longest", *_costs(failures.seconds), sep="\n  ", flush=True)
    if outcome != _TESTS_FAILED or failures.final or len(failures.timing) > FAILURES_MAX:
        return outcome
    retried = sorted(failures.timing)
    print(f"\n{name}: retrying in a process of their own:", *retried, sep="\n  ", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *retried]
    outcome = subprocess.run(command, check=False).returncode
    if not outcome:
        memory.write_text("".join(f"{test}\n" for test in retried))
        report([name])
    return outcome


def _costs(seconds: Mapping[str, float]) -> list[str]:
    longest = sorted(seconds.items(), key=lambda each: -each[1])[:FILES_SHOWN]
    return [f"{took:6.1f} s  {file}" for file, took in longest]


def report(names: list[str]) -> None:
    """Print which tests of these lanes passed only at their second run."""
    for name in names:
        if (memory := MEMORY / name).is_file():
            tests = memory.read_text().splitlines()
            print(f"\n{name}: PASSED AT THE SECOND RUN ONLY, to be repaired:", *tests, sep="\n  ", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(run_lane(sys.argv[1], sys.argv[2:]))
    report(sorted(path.name for path in MEMORY.glob("*")))
