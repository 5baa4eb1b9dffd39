"""The live fuzz on the command line: python -m chaos.fuzz [--minutes 5] [--seed N]. See docs/faults.md."""

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from chaos.fuzz.report import write_report
from chaos.fuzz.run import fuzz

OUT: Final = Path(__file__).parent.parent / "out"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m chaos.fuzz", description="Broken requests against live servers.")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--out", type=Path, default=OUT, help="where the folder with the report is made")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else time.time_ns() % 1_000_000
    home = Path(tempfile.mkdtemp(prefix="hanabi-fuzz-"))
    print(f"seed {seed}, {arguments.minutes:g} minutes", flush=True)
    report = asyncio.run(fuzz(seed, arguments.minutes * 60, home / "servers", lambda text: print(text, flush=True)))
    folder = arguments.out / f"{datetime.now(UTC).strftime('%Y%m%d-%H%M%S')}-fuzz-seed-{seed}"
    path = write_report(report, folder)
    print(path.read_text())
    print(f"report: {path}")
    if report.violations:
        print(f"store and logs: {home}")
        return 1
    shutil.rmtree(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
