"""Chaos on the command line: python -m chaos [--minutes 5] [--seed N] [--flush SYNC_FLUSH]. See docs/faults.md."""

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from chaos.plan import FaultKind
from chaos.report import write_report
from chaos.run import Settings, run

OUT: Final = Path(__file__).parent / "out"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description="Faults under traffic, and whether it held.")
    parser.add_argument("--minutes", type=float, default=5.0, help="of faults; starting and draining come on top")
    parser.add_argument("--seed", type=int, default=None, help="the same seed gives the same plan of faults")
    parser.add_argument("--flush", choices=("SYNC_FLUSH", "ASYNC_FLUSH"), default="SYNC_FLUSH")
    parser.add_argument("--only", choices=[kind.name for kind in FaultKind], nargs="+", help="only these faults")
    parser.add_argument("--out", type=Path, default=OUT, help="where the folder with the report is made")
    parser.add_argument("--keep", action="store_true", help="keep stores, logs and histories even if everything held")
    return parser.parse_args()


def main() -> int:
    arguments = _arguments()
    seed = arguments.seed if arguments.seed is not None else time.time_ns() % 1_000_000
    kinds = tuple(FaultKind[name] for name in arguments.only) if arguments.only else tuple(FaultKind)
    settings = Settings(seed=seed, seconds=arguments.minutes * 60, flush=arguments.flush, faults=kinds)
    home = Path(tempfile.mkdtemp(prefix="hanabi-chaos-"))
    print(f"seed {seed}, {arguments.minutes:g} minutes, {arguments.flush}", flush=True)
    report = asyncio.run(run(settings, home, lambda text: print(text, flush=True)))
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    folder = arguments.out / f"{stamp}-seed-{seed}"
    path = write_report(report, folder)
    print(path.read_text())
    print(f"report: {path}")
    if report.holds and not arguments.keep:
        shutil.rmtree(home)
    else:
        print(f"stores, logs and histories: {home}")
    return 0 if report.holds else 1


if __name__ == "__main__":
    sys.exit(main())
