"""Our broker without compiled functions (HANABI_PURE_PYTHON=1) against Apache's: `python -m benches.pure_python`.

Where there is no compiler, the handlers serve everything. The demand is half of Apache's speed.
"""

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benches.before_after import BACKLOG, PULL, SENDS
from benches.broker_servers import READABLE, broker
from benches.messages import fill
from benches.report import publish, table
from benches.rounds import Results, alone, alternate, run_load
from benches.servers import APACHE

NAMES = (READABLE, APACHE)
HEAD = ("load", "ours/s", "Apache 4/s", "ours to Apache 4", "CPU us ours", "CPU us Apache 4")


def main(*, rounds: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        servers = [stack.enter_context(broker(name, Path(folder, str(at)))) for at, name in enumerate(NAMES)]
        for server in servers:  # a JVM compiles for longer than one load lasts
            with alone(server, servers):
                run_load(server, SENDS[0].lasting(4 * seconds))
        found = [alternate(load, servers, rounds=rounds, seconds=seconds, warm_up_seconds=1.5) for load in SENDS]
        for server in servers:
            with alone(server, servers):
                fill(server, "Backlog", BACKLOG)
        found.append(alternate(PULL, servers, rounds=rounds, seconds=seconds, warm_up_seconds=1.5))
    setting = f"Medians of {rounds} alternating rounds of {seconds:g} s; ratios are medians of each round's."
    title = "Our broker without compiled functions, and Apache's"
    publish("pure_python", title, setting, table(HEAD, [_row(result) for result in found]), quick=False)


def _row(result: Results) -> list[str]:
    speeds = [f"{result.median(name):,.0f}" for name in NAMES]
    cpu = [f"{result.median_cpu_us(name):.1f}" for name in NAMES]
    return [result.title, *speeds, f"{result.ratio(READABLE, APACHE):.2f}", *cpu]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benches.pure_python", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.5, help="how long each round lasts")
    options = parser.parse_args()
    main(rounds=options.rounds, seconds=options.seconds)
