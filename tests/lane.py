"""Run a lane of the tests, and what fails in it once more: `python -m tests.lane NAME PYTEST-ARGUMENTS...`.

Two lanes share a machine with JVMs, Spark and whoever else is there, and among ten thousand tests on real parts one
that was kept waiting too long says little about us. So a few failures are tried again, in a process of their own, and
the run says which these were, for they need mending. What is about messages kept or lost, and what needs no clock, is
not tried again: there a failure is a failure.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

FAILURES_MAX: Final = 3  # more than that is no accident
FINAL: Final = ("tests/chaos/", "tests/faults/", "tests/store/", "tests/wire/")
_TESTS_FAILED: Final = 1  # pytest's exit code; the others say that it could not run


def main(name: str, arguments: list[str]) -> int:
    memory = Path(".pytest_cache", name)
    outcome = _pytest(memory, arguments)
    if outcome != _TESTS_FAILED:
        return outcome
    failed = sorted(json.loads((memory / "v" / "cache" / "lastfailed").read_text()))
    if not 0 < len(failed) <= FAILURES_MAX or any(test.startswith(FINAL) for test in failed):
        return outcome
    print(f"\n{name}: {len(failed)} failed; once more, by themselves:", *failed, sep="\n  ", flush=True)
    outcome = _pytest(memory, failed)
    if not outcome:
        print(f"\n{name}: PASSED AT THE SECOND TRY, to be mended:", *failed, sep="\n  ", flush=True)
    return outcome


def _pytest(memory: Path, arguments: list[str]) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir={memory}", *arguments]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
