"""On a real cluster: executor, broker and driver are killed in the middle of two streams, and no message is lost.

One story, because each part of it needs the same cluster, and a cluster takes a while to start.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import hanabi
from hanabi.spark import deduplicated
from hanabi.testing.waiting import wait_until
from tests.faults.our_servers import OurServers
from tests.spark.broker_world import make_topic, read, rows
from tests.spark.standalone import Standalone, Submitted, standalone

PROGRAM = Path(__file__).parent / "copy_program.py"
FIRST, MORE, A_TRIGGER = 1_500, 1_000, 120


class World:
    """The servers, as `broker_world` wants them."""

    def __init__(self, servers: OurServers) -> None:
        self.servers, self.namesrv = servers, servers.namesrv
        self.broker = servers.process.wait_for_line("ready broker ").split()[-1]

    def restart(self) -> None:
        self.servers.process.kill()
        self.servers.start_again()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    servers = OurServers(tmp_path / "servers")
    try:
        yield World(servers)
    finally:
        servers.process.kill()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Standalone]:
    with standalone(tmp_path / "cluster") as running:
        yield running


def send_many(serving: World, topic: str, first: int, count: int) -> None:
    with hanabi.Producer("tests", namesrv=serving.namesrv) as producer:
        queues = producer.queues(topic)
        for at, queue in enumerate(queues):
            numbers = range(first + at, first + count, len(queues))
            producer.send_batch([hanabi.Message(topic, b"%d" % number) for number in numbers], queue=queue)


def batches(program: Submitted) -> list[int]:
    """Return the last batch of each query that the driver told of."""
    assert not program.is_over(), program.output()
    lines = [line for line in program.output().splitlines() if line.startswith("batches ")]
    found = [int(word) for word in lines[-1].split()[1:]] if lines else []
    return found + [-1] * (2 - len(found))


def wait_for_batches(program: Submitted, beyond: list[int]) -> list[int]:
    """Wait until both queries have finished a batch that they had not before."""
    wait_until(
        lambda: all(now > old for now, old in zip(batches(program), beyond, strict=True)), "a batch", seconds=600
    )
    return batches(program)


@pytest.mark.slow
@pytest.mark.timeout(1_200)  # on a machine with much else to do; alone it takes a minute
def test_what_is_killed_in_mid_stream_loses_and_repeats_nothing(
    spark: SparkSession, world: World, cluster: Standalone, tmp_path: Path
) -> None:
    topic, copies = make_topic(world, "Source", 4), make_topic(world, "Copies", 4)
    send_many(world, topic, 0, FIRST)
    files = str(tmp_path / "files")
    told = {
        "namesrv": world.namesrv,
        "topic": topic,
        "copies": copies,
        "files": files,
        "rows": A_TRIGGER,
        "drain": False,
    }
    program = cluster.submit(PROGRAM, json.dumps(told))
    seen = wait_for_batches(program, [0, 0])

    victim, *_ = cluster.executors()
    victim.kill()
    seen = wait_for_batches(program, seen)

    make_topic(world, topic, 8)
    world.restart()
    send_many(world, topic, FIRST, MORE)
    seen = wait_for_batches(program, [each + 1 for each in seen])

    program.kill()
    program = cluster.submit(PROGRAM, json.dumps(told | {"drain": True}))
    assert program.wait() == 0, program.output()

    sent = Counter((row["queueId"], row["queueOffset"]) for row in rows(world, "queueId queueOffset", subscribe=topic))
    assert len(sent) == FIRST + MORE
    assert {queue for queue, _ in sent} == set(range(8))
    found = spark.read.parquet(files).select("queueId", "queueOffset").collect()
    assert Counter((row.queueId, row.queueOffset) for row in found) == sent, "in files: each once"

    arrived = read(spark, world, subscribe=copies)
    once = Counter(row.tags for row in deduplicated(arrived).select("tags").collect())
    assert once == Counter(f"{queue}/{offset}" for queue, offset in sent), "in the topic, deduplicated: each once"
    assert arrived.count() >= len(sent)
