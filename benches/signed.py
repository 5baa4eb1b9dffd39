"""Access control: what signed sends and pulls cost. `python -m benches.signed [--quick]`.

Ours without access control, ours with it, Apache's 4.9 with it; the same load in turn. The guarded brokers have a
thousand accounts, of which the one that signs has rights on the topics of the load and no others.

Sends are made and signed before the clock starts, for all three: else the load generator, which shares the cores with
the broker, would sign while it is measured.
"""

import argparse
import dataclasses
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benches.broker_servers import RunningBroker, broker, brokers_here
from benches.messages import fill
from benches.report import keep_figures, publish, table
from benches.rounds import Load, Results, alone, alternate, run_load
from benches.servers import APACHE, OURS

GUARDED, APACHE_GUARDED = f"{OURS} with ACL", f"{APACHE} with ACL"
ACCESS = "load-generator:secret-of-the-load"
BACKLOG = 500_000
SENDS = (
    Load("send 16 x 8, 1 KiB", "send", topic="Send", prepared=16_384),
    Load("send 16 x 8, 1 KiB, binary headers", "send", topic="Binary", form="binary", prepared=16_384),
    Load("send batches of 32 x 1 KiB, 16 x 1", "send", topic="Batch", batch=32, window=1, prepared=1_024),
)
PULL = Load(f"pull of 32, {BACKLOG:,} messages in 4 queues", "pull", topic="Backlog", seconds=120)
SPEEDS = ("ours/s", "with ACL/s", "Apache with ACL/s", "with/without", "to Apache")
HEAD = ("load", *SPEEDS, "CPU us", "with ACL", "Apache", "without/with", "Apache/ours")


def rules() -> str:
    """Return the accounts, in the format of Apache 4.9."""
    key, secret = ACCESS.split(":")
    topics = [f"{load.options['topic']}=PUB|SUB" for load in (*SENDS, PULL)]
    own = f"- accessKey: {key}\n  secretKey: {secret}\n  topicPerms: [{', '.join(topics)}]\n"
    own += "  groupPerms: [loadgen_pull=SUB]\n"
    others = (f"- accessKey: account-{n:04}\n  secretKey: secret-{n:04}\n" for n in range(1_000))
    return "accounts:\n" + own + "".join(others)


@contextmanager
def guarded(name: str, home: Path) -> Iterator[RunningBroker]:
    """Run a broker with access control. Ours reads its accounts beside its settings, Apache's in its conf."""
    for folder in (home, home / "broker" / "conf"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "plain_acl.yml").write_text(rules())
    with broker(name, home, {"aclEnable": "true"}) as server:
        yield dataclasses.replace(server, name=f"{name} with ACL", access=ACCESS)


def main(*, quick: bool = False, rounds: int = 5) -> None:
    here, missing = brokers_here()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        servers = [
            stack.enter_context(broker(OURS, Path(folder, "plain"))),
            stack.enter_context(guarded(OURS, Path(folder, "guarded"))),
        ]
        if APACHE in here:
            servers.append(stack.enter_context(guarded(APACHE, Path(folder, "apache"))))
        results = measure(servers, 1 if quick else rounds, 1.0 if quick else 2.5)
    setting = (
        "ASYNC_FLUSH, full-size files. Medians of alternating rounds after a warm-up. Messages a second: ours with to "
        "ours without access control, and to Apache's with it; then CPU a message, and the same ratios of it."
    )
    publish("signed", "Access control", setting, table(HEAD, [row(each) for each in results]), missing, quick=quick)
    keep_figures("signed", {each.title: each.figures() for each in results})


def measure(servers: list[RunningBroker], rounds: int, seconds: float) -> list[Results]:
    for server in servers:  # a JVM compiles for longer than one load lasts
        with alone(server, servers):
            run_load(server, SENDS[0].lasting(4 * seconds))
    found = [alternate(load, servers, rounds=rounds, seconds=seconds, warm_up_seconds=1.0) for load in SENDS]
    for server in servers:
        with alone(server, servers):
            fill(server, "Backlog", BACKLOG)
    return [*found, alternate(PULL, servers, rounds=rounds, seconds=seconds, warm_up_seconds=1.0)]


def row(result: Results) -> list[str]:
    names = [name for name in (OURS, GUARDED, APACHE_GUARDED) if name in result.rounds]
    speed = [result.median(name) for name in names]
    cpu = [result.median_cpu_us(name) for name in names]
    gaps = [""] * (3 - len(names))
    faster = [speed[1] / speed[0], *(speed[1] / other for other in speed[2:])]
    cheaper = [cpu[0] / cpu[1], *(other / cpu[1] for other in cpu[2:])]
    speeds = [*(f"{each:,.0f}" for each in speed), *gaps, *(f"{each:.2f}" for each in faster), *gaps]
    return [result.title, *speeds, *(f"{each:.1f}" for each in cpu), *gaps, *(f"{each:.2f}" for each in cheaper), *gaps]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benches.signed", description="What access control costs.")
    parser.add_argument("--quick", action="store_true", help="few short rounds: to see that it works, not to quote")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    main(quick=arguments.quick, rounds=arguments.rounds)
