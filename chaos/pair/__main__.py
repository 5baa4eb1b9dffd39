"""Chaos for a pair: python -m chaos.pair [--minutes 5] [--seed N] [--role SYNC_MASTER]. See docs/faults.md."""

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from chaos.pair.run import SYNC, PairSettings, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m chaos.pair", description="Faults of a master and its slave.")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=None, help="the same seed gives the same faults")
    parser.add_argument("--role", choices=(SYNC, "ASYNC_MASTER"), default=SYNC)
    parser.add_argument("--keep", action="store_true", help="keep stores and logs even if everything held")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else time.time_ns() % 1_000_000
    settings = PairSettings(seed=seed, seconds=arguments.minutes * 60, role=arguments.role)
    home = Path(tempfile.mkdtemp(prefix="hanabi-pair-"))
    print(f"seed {seed}, {arguments.minutes:g} minutes, {arguments.role}", flush=True)
    report = asyncio.run(run(settings, home, lambda text: print(text, flush=True)))
    print(msgspec.json.format(msgspec.json.encode(report)).decode())
    acknowledged, lost = (sum(getattr(each, name) for each in report.rounds) for name in ("acknowledged", "lost"))
    print(f"{len(report.rounds)} rounds, {acknowledged} acknowledged with SEND_OK, {lost} lost with the master")
    if report.holds and not arguments.keep:
        shutil.rmtree(home)
    else:
        print(f"stores and logs: {home}")
    return 0 if report.holds else 1


if __name__ == "__main__":
    sys.exit(main())
