"""Messages a second of one process: our client and the others, against the same broker, in turn, round by round.

The rounds alternate because a machine is not the same from one minute to the next; the ratio is taken in each pair.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from benches.broker_servers import FLOOR, RunningBroker, broker, brokers_here, pure_python
from benches.client_programs import OURS, Failed, Program, Round, program, programs_here
from benches.report import publish, table
from hanabi import aio
from hanabi.client.config import ClientConfig
from hanabi.client.core import Core
from hanabi.message import Message
from hanabi.wire.headers.topic import CreateTopicHeader

BODY_BYTES, DEPTH, BATCH, QUEUES = 1024, 64, 32, 8
SENDS = {
    "send, one at a time": ("send", ()),
    f"send, {DEPTH} under way (asyncio)": ("concurrent", (DEPTH,)),
    "send_many": ("many", (DEPTH,)),
    f"send_batch of {BATCH}": ("batch", (BATCH,)),
}
CONSUMES = {"push consumer": "push", "lite pull consumer": "pull"}
HEAD = ("broker", "what", "client", "messages/s", "its CPU us/message", "ours to this one")


def main(*, quick: bool = False) -> None:
    names, missing = brokers_here()
    clients, missing_clients = programs_here()
    rounds, seconds, backlog = (2, 1.0, 20_000) if quick else (5, 3.0, 200_000)
    rows: list[list[str]] = []
    for name in [name for name in names if name != FLOOR]:
        with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
            server = stack.enter_context(broker(name, Path(folder, "broker")))
            asyncio.run(prepare(server, backlog))
            running = [
                stack.enter_context(program(client, server.namesrv, Path(folder, str(number))))
                for number, client in enumerate(clients)
            ]
            for what, (word, more) in SENDS.items():
                asked = (word, seconds, "BenchSends", BODY_BYTES, *more)
                rows += measured(name, what, running, [asked] * (rounds + 2), rounds)
            for what, word in CONSUMES.items():
                groups = [f"Bench-{word}-{number}" for number in range(rounds + 1)]
                tagged = [(word, "BenchBacklog", group, backlog) for group in groups]
                for client in running:
                    asyncio.run(from_the_start(server, [f"{group}-{running.index(client)}" for group in groups]))
                rows += measured(name, what, running, tagged, rounds)
    setting = (
        f"Bodies of {BODY_BYTES} bytes, {QUEUES} queues, one process each; medians of {rounds} alternating rounds. Our"
        f" compiled functions are {'off' if pure_python() else 'on'}."
    )
    publish("clients", "Clients", setting, table(HEAD, rows), missing, missing_clients, quick=quick)


def measured(
    server: str, what: str, programs: list[Program], asked: Sequence[tuple[object, ...]], rounds: int
) -> list[list[str]]:
    """The rows of one kind of work: what was asked first only warms up."""
    able = [(number, each) for number, each in enumerate(programs) if str(asked[0][0]) in each.can]
    results: dict[str, list[Round]] = {each.name: [] for _, each in able}
    failed: dict[str, str] = {}
    for words in asked:
        for number, each in able:
            own = [
                f"{word}-{number}" if isinstance(word, str) and word.startswith("Bench-") else word for word in words
            ]
            if each.name in failed:
                continue
            try:
                results[each.name].append(each.ask(*own))
            except Failed as error:
                if each.name == OURS:
                    raise
                failed[each.name] = str(error)
    kept = {name: mine[-rounds:] for name, mine in results.items() if name not in failed}
    return [[server, what, name, f"failed: {why}", "", ""] for name, why in failed.items()] + [
        [
            server,
            what,
            name,
            f"{median(each.per_second for each in mine):,.0f}",
            f"{median(each.cpu_us for each in mine):.1f}",
            "" if name == OURS else f"{_ratio(kept[OURS], mine):.2f}",
        ]
        for name, mine in kept.items()
    ]


def _ratio(ours: list[Round], theirs: list[Round]) -> float:
    return median(a.per_second / b.per_second for a, b in zip(ours, theirs, strict=True))


async def prepare(server: RunningBroker, backlog: int) -> None:
    """Make the topics, and a backlog to consume."""
    config = ClientConfig(namesrv=server.namesrv, request_timeout_s=20.0)
    core = await Core.acquire(config)
    try:
        for topic in ("BenchSends", "BenchBacklog"):
            header = CreateTopicHeader(
                topic=topic,
                default_topic="TBW102",
                read_queue_nums=QUEUES,
                write_queue_nums=QUEUES,
                perm=6,
                topic_filter_type="SINGLE_TAG",
                topic_sys_flag=0,
                order=False,
            )
            await core.api.create_topic(f"{server.host}:{server.port}", header, 20.0)
    finally:
        await core.release()
    body = bytes(BODY_BYTES).replace(b"\0", b"x")
    async with aio.Producer("BenchBacklogProducers", config=config, send_timeout_s=20.0) as producer:
        for _ in range(-(-backlog // BATCH) + QUEUES):
            await producer.send_batch([Message("BenchBacklog", body, tags="a", keys=["k"]) for _ in range(BATCH)])


async def from_the_start(server: RunningBroker, groups: list[str]) -> None:
    """Let *groups* begin at the first message, also those of clients that cannot be told to. Joins none of them: who
    leaves may still be counted as a member for a while."""
    core = await Core.acquire(ClientConfig(namesrv=server.namesrv, request_timeout_s=20.0))
    try:
        for group in groups:
            for queue in (await core.routes.find("BenchBacklog")).read_queues:
                address = f"{server.host}:{server.port}"
                await core.api.update_consumer_offset(address, group, queue, 0, oneway=False)
    finally:
        await core.release()


if __name__ == "__main__":
    main()
