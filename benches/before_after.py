"""Two versions of our broker side by side: `python -m benches.before_after CHECKOUT [--apache]`.

CHECKOUT is a clone of an older commit whose compiled functions are built in place (`python build_hook.py CHECKOUT`).
Both versions take the same load in turn, round by round, so the ratio says what a change cost or brought.
"""

import argparse
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benches.broker_servers import CHECKOUT, RunningBroker, broker, brokers_here
from benches.messages import fill
from benches.report import publish, table
from benches.rounds import Load, Results, alone, alternate, run_load
from benches.servers import APACHE, OURS

BACKLOG = 500_000
SENDS = (
    Load("send 1 KiB, 16 x 8 in flight", "send", topic="Send"),
    Load("send 1 KiB, one at a time", "send", topic="Single", connections=1, window=1),
    Load("send 128 B, 16 x 8 in flight", "send", topic="Small", body=128),
    Load("send 1 KiB, 16 x 8, binary headers", "send", topic="Binary", form="binary"),
    Load("send batches of 32 x 1 KiB, 16 x 1", "send", topic="Batch", batch=32, window=1),
)
PULL = Load(f"pull of 32, {BACKLOG:,} messages in 4 queues", "pull", topic="Backlog", seconds=120)
FLUSHED = Load("send 1 KiB, 16 x 8, SYNC_FLUSH", "send", topic="Flushed")
HEAD = ("load", "before/s", "after/s", "after to before", "CPU us before", "CPU us after", "after to Apache 4")


def main(checkout: Path, *, rounds: int, with_apache: bool) -> None:
    before = f"{CHECKOUT}{checkout.resolve()}"
    here = brokers_here()[0] if with_apache else []
    names = [before, OURS, *([APACHE] if APACHE in here else [])]
    results = _measure(names, SENDS, rounds, pull=True)
    results += _measure(names, (FLUSHED,), rounds, {"flushDiskType": "SYNC_FLUSH"})
    rows = [_row(result, before) for result in results]
    setting = f"Medians of {rounds} alternating rounds of 2.5 s after a warm-up; ratios are medians of each round's."
    publish("before_after", "Our broker, before and after", setting, table(HEAD, rows), quick=False)


def _measure(
    names: Sequence[str],
    loads: Sequence[Load],
    rounds: int,
    settings: dict[str, object] | None = None,
    *,
    pull: bool = False,
) -> list[Results]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        servers = [stack.enter_context(broker(name, Path(folder, str(at)), settings)) for at, name in enumerate(names)]
        for server in servers:  # a JVM compiles for longer than one load lasts
            with alone(server, servers):
                run_load(server, loads[0].lasting(10))
        found = [_alternate(load, servers, rounds) for load in loads]
        if pull:
            for server in servers:
                with alone(server, servers):
                    fill(server, "Backlog", BACKLOG)
            found.append(_alternate(PULL, servers, rounds))
        return found


def _alternate(load: Load, servers: Sequence[RunningBroker], rounds: int) -> Results:
    return alternate(load, servers, rounds=rounds, seconds=2.5, warm_up_seconds=1.5)


def _row(result: Results, before: str) -> list[str]:
    ratios = (result.ratio(OURS, peer) for peer in (before, APACHE))
    to_before, to_apache = ("" if ratio is None else f"{ratio:.2f}" for ratio in ratios)
    speeds = [f"{result.median(name):,.0f}" for name in (before, OURS)]
    cpu = [f"{result.median_cpu_us(name):.1f}" for name in (before, OURS)]
    return [result.title, *speeds, to_before, *cpu, to_apache]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benches.before_after", description=__doc__)
    parser.add_argument("checkout", type=Path, help="a clone of the version before, built in place")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--apache", action="store_true", help="measure Apache's broker in the same rounds")
    options = parser.parse_args()
    main(options.checkout, rounds=options.rounds, with_apache=options.apache)
