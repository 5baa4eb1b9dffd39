"""Messages a second of one process: our client and the others, against the same broker of Apache, in turn.

The rounds alternate because a machine is not the same from one minute to the next; the ratio is taken in each pair.
`python -m benches.clients [--quick] [--only WORD]`.
"""

import argparse
import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benches.client_peers import OURS, clients_here
from benches.client_programs import Failed, Program, Round, program
from benches.client_results import Rounds, demands, figures, rates
from benches.client_servers import APACHE, ClientSite, client_site
from benches.report import keep_figures, publish
from hanabi import aio
from hanabi.admin import Admin, GroupChange
from hanabi.client.cluster.core import Core
from hanabi.client.config import ClientConfig
from hanabi.message import Message
from tests.interop.jars import PROXY_5, JavaUnavailable, classpath

BODY_BYTES, DEPTH, BATCH, QUEUES = 1024, 64, 32, 8
SENDS_TOPIC, BACKLOG_TOPIC = "BenchSends", "BenchBacklog"

BLOCKING: Final = "send, one at a time (blocking)"
ASYNCIO: Final = f"send, {DEPTH} under way (asyncio)"
SENDS: Final[Mapping[str, tuple[str, tuple[int, ...]]]] = {
    BLOCKING: ("send", ()),
    ASYNCIO: ("concurrent", (DEPTH,)),
    "send_many": ("many", (DEPTH,)),
    f"send_batch of {BATCH}": ("batch", (BATCH,)),
}
CONSUMES: Final[Mapping[str, tuple[str, tuple[int, ...]]]] = {
    f"push, def, up to {BATCH} a call": ("push", (BATCH,)),
    f"push, async def, up to {BATCH} a call": ("push_async", (BATCH,)),
    "push, def, one a call": ("push_one", ()),
    "lite pull": ("pull", ()),
}
DEMANDED: Final = tuple(row for row, (word, _) in CONSUMES.items() if word != "push_one")


@dataclass(frozen=True)
class Plan:
    """Extent of a measurement."""

    rounds: int
    warm_ups: int
    send_seconds: float
    consume_rounds: int
    consume_seconds: float
    backlog: int


FULL: Final = Plan(rounds=5, warm_ups=1, send_seconds=2.0, consume_rounds=3, consume_seconds=2.0, backlog=200_000)
QUICK: Final = Plan(rounds=1, warm_ups=0, send_seconds=0.7, consume_rounds=1, consume_seconds=0.7, backlog=50_000)


def main(*, quick: bool = False, only: Sequence[str] = ()) -> None:
    try:
        classpath(PROXY_5)
    except JavaUnavailable as error:
        publish("clients", "Clients", f"Nothing was measured: {error}, and so no broker of Apache's.", quick=quick)
        return
    plan = QUICK if quick else FULL
    names, missing = clients_here()
    results: dict[str, dict[str, Rounds | str]] = {}
    with ExitStack() as stack, tempfile.TemporaryDirectory(prefix="hanabi-bench-") as folder:
        site = stack.enter_context(client_site(Path(folder, "site")))
        asyncio.run(prepare(site, plan.backlog))
        running = []
        for number, name in enumerate(names):
            try:
                running.append(stack.enter_context(program(name, site, Path(folder, str(number)))))
            except Failed as error:
                missing.append(f"{name} was not measured: {error}.")
        for what, (word, more) in SENDS.items():
            if not only or word in only:
                asked = (word, plan.send_seconds, SENDS_TOPIC, BODY_BYTES, *more)
                results[what] = measured(running, word, [asked] * (plan.warm_ups + plan.rounds), plan.rounds)
        for what, (word, more) in CONSUMES.items():
            if not only or word in only:
                groups = [f"Bench-{word}-{number}" for number in range(plan.warm_ups + plan.consume_rounds)]
                own = [f"{group}-{number}" for group in groups for number in range(len(running))]
                asyncio.run(from_the_start(site, own))
                asked_each = [
                    (word, plan.consume_seconds, BACKLOG_TOPIC, group, plan.backlog, *more) for group in groups
                ]
                results[what] = measured(running, word, asked_each, plan.consume_rounds)
    report(results, plan, missing, quick=quick)


def measured(
    programs: Sequence[Program], word: str, asked: Sequence[tuple[object, ...]], rounds: int
) -> dict[str, Rounds | str]:
    """Return one row: what every client did that can. The last *rounds* count; what was asked before them only warms
    up."""
    results: dict[str, list[Round]] = {each.name: [] for each in programs if word in each.can}
    failed: dict[str, str] = {}
    print(f"{word}: {len(results)} clients", file=sys.stderr)  # minutes without a word are long
    for words in asked:
        for number, each in enumerate(programs):
            if each.name not in results or each.name in failed:
                continue
            own = [f"{said}-{number}" if str(said).startswith("Bench-") else said for said in words]
            try:
                results[each.name].append(each.ask(*own))
            except Failed as error:
                if each.name == OURS:
                    raise
                failed[each.name] = str(error)
                each.end()
                each.start()  # the next row is another matter
    return {name: failed.get(name, mine[-rounds:]) for name, mine in results.items()}


def report(results: dict[str, dict[str, Rounds | str]], plan: Plan, missing: Sequence[str], *, quick: bool) -> None:
    setting = (
        f"{APACHE} with its proxy in local mode as the broker of all; bodies of {BODY_BYTES} bytes, {QUEUES} queues,"
        f" one process each; medians of {plan.rounds} (consuming: {plan.consume_rounds}) alternating rounds. Our"
        f" compiled functions are {'off' if os.environ.get('HANABI_PURE_PYTHON') else 'on'}."
    )
    whole = not quick and {BLOCKING, ASYNCIO, *DEMANDED} <= results.keys()  # one short round judges nothing
    judged = demands(results, blocking=BLOCKING, asyncio=ASYNCIO, consuming=DEMANDED) if whole else ""
    keep_figures("clients", figures(results))
    publish("clients", "Clients", setting, rates(results), judged, " ".join(missing), quick=quick)


async def prepare(site: ClientSite, backlog: int) -> None:
    """Make the topics, and a backlog to consume."""
    config = ClientConfig(namesrv=site.namesrv, request_timeout_s=20.0)
    async with Admin(config) as admin:
        for topic in (SENDS_TOPIC, BACKLOG_TOPIC):
            await admin.topics.create(topic, read_queues=QUEUES, write_queues=QUEUES)
    body = b"x" * BODY_BYTES
    async with aio.Producer("BenchBacklogProducers", config=config, send_timeout_s=20.0) as producer:
        for _ in range(-(-backlog // BATCH) + QUEUES):
            await producer.send_batch([Message(BACKLOG_TOPIC, body, tags="a", keys=["k"]) for _ in range(BATCH)])


async def from_the_start(site: ClientSite, groups: Sequence[str]) -> None:
    """Let *groups* begin at the first message, also those of clients that cannot be told to. Joins none of them: who
    leaves may still be counted as a member for a while."""
    config = ClientConfig(namesrv=site.namesrv, request_timeout_s=20.0)
    core = await Core.acquire(config)
    try:
        queues = (await core.routes.find(BACKLOG_TOPIC)).read_queues
        async with Admin(config) as admin:
            for group in groups:
                await admin.groups.create(group, GroupChange())
                for queue in queues:
                    await core.api.update_consumer_offset(site.broker, group, queue, 0, oneway=False)
    finally:
        await core.release()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that no server is left behind
    parser = argparse.ArgumentParser(prog="python -m benches.clients", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round: to see that it works, not to quote")
    parser.add_argument("--only", nargs="*", default=(), metavar="WORD", help="send concurrent many batch push ...")
    arguments = parser.parse_args()
    main(quick=arguments.quick, only=arguments.only)
