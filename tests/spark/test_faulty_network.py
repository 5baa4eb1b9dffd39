"""Batches, streams and the sink behind the shared fault proxy: connections are cut, delayed, reset in the middle of an
answer, swallowed, half-closed and stalled.

A source reads each message once. The sink sends each row at least once, and repeats have the stamp of the first.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.streaming.query import StreamingQuery

from hanabi.spark.broker_source import BrokerSource
from hanabi.spark.sink.options import parse_sink_options
from hanabi.spark.sink.row_ids import ROW_ID_PROPERTY, RowIds
from hanabi.spark.sink.writer import send_rows
from hanabi.testing.proxied import ProxiedCluster, proxied_cluster
from hanabi.testing.proxy import Proxy
from hanabi.testing.threads import Running, in_thread
from tests.spark.broker_world import rows
from tests.spark.decoded import rows_of

COUNT, A_BATCH, STRIKES = 3_000, 150, 6
STALL_S: Final = 1.5
IMPATIENT: Final = {"requestTimeoutMs": "1000", "retryTimeoutMs": "120000"}


def reset_in_an_answer(proxy: Proxy) -> None:
    proxy.cut_after([300, 5_000])
    proxy.cut()


def delay(proxy: Proxy) -> None:
    proxy.latency_s = 0.05 if not proxy.latency_s else 0.0


def stall(proxy: Proxy) -> None:
    proxy.stall()
    asyncio.get_running_loop().call_later(STALL_S, proxy.go_on)


FAULTS: Final[dict[str, Callable[[Proxy], None]]] = {
    "cut": Proxy.cut,
    "reset": reset_in_an_answer,
    "delay": delay,
    "swallow": Proxy.swallow,
    "half-close": Proxy.half_close,
    "stall": stall,
}


class Trouble:
    """Strikes one broker after the other, so many times, whenever a test says that it has come a bit further."""

    def __init__(self, cluster: Running[ProxiedCluster], fault: str) -> None:
        self._cluster, self._fault = cluster, FAULTS[fault]
        self.strikes = 0

    def strike(self) -> None:
        if self.strikes < STRIKES:
            name = list(self._cluster.it.brokers)[self.strikes % 2]
            self._cluster.do(lambda cluster: self._fault(cluster.proxies[name]))
            self.strikes += 1


class World:
    """The cluster, as `broker_world` wants it."""

    def __init__(self, cluster: Running[ProxiedCluster]) -> None:
        self.cluster, self.namesrv = cluster, cluster.it.namesrv
        self.broker = cluster.it.proxies["broker-a"].address

    def make(self, topic: str) -> str:
        return self.cluster.run(self.cluster.it.create_topic(topic, queues=2))

    def fill(self, topic: str, first: int = 0) -> None:
        """Send numbers to *topic*, before there is any trouble."""
        options = parse_sink_options({"namesrv": self.namesrv, "topic": topic})
        send_rows(options, iter([pa.record_batch({"body": numbers(first, first + COUNT)})]), RowIds("fill/0", 0))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with in_thread(proxied_cluster(tmp_path / "cluster")) as running:
        yield World(running)


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def source_of(world: World, **options: Any) -> BrokerSource:
    given = {"namesrv": world.namesrv, "maxRowsPerBatch": A_BATCH, "pullsInFlight": 2} | IMPATIENT | options
    return BrokerSource({name.lower(): str(value) for name, value in given.items()})


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_batch_reads_each_message_once(world: World, fault: str) -> None:
    topic, trouble = world.make("Source"), Trouble(world.cluster, fault)
    world.fill(topic)
    source = source_of(world, subscribe=topic)
    reader = source.reader(source.schema())
    found: Counter[bytes] = Counter()
    for task in reader.partitions():
        for batch in reader.read(task):
            trouble.strike()
            found.update(row["body"] for row in rows_of(batch))
    assert found == Counter(numbers(0, COUNT))
    assert trouble.strikes == STRIKES


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_stream_reads_each_message_once(world: World, fault: str) -> None:
    topic, trouble = world.make("Source"), Trouble(world.cluster, fault)
    world.fill(topic)
    source = source_of(world, subscribe=topic, startingOffsets="earliest", offsetPollMs=0)
    stream = source.streamReader(source.schema())
    offsets, found = stream.initialOffset(), Counter[bytes]()
    while (end := stream.latestOffset(offsets, ReadMaxRows(COUNT // 3))) != offsets:
        for task in stream.partitions(offsets, end):
            for batch in stream.read(task):
                trouble.strike()
                found.update(row["body"] for row in rows_of(batch))
        stream.commit(end)
        offsets = end
    assert found == Counter(numbers(0, COUNT))
    assert trouble.strikes == STRIKES


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_sink_sends_each_row_and_stamps_its_repeats_alike(world: World, fault: str) -> None:
    topic, trouble = world.make("Sink"), Trouble(world.cluster, fault)

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, COUNT, A_BATCH):
            yield pa.record_batch({"body": numbers(first, first + A_BATCH)})
            trouble.strike()

    options = parse_sink_options({"namesrv": world.namesrv, "topic": topic} | IMPATIENT)
    assert send_rows(options, batches(), RowIds("query/0", 0)) == COUNT
    found = rows(world, "body properties", subscribe=topic)
    assert {row["body"] for row in found} == set(numbers(0, COUNT))
    by_stamp = {row["properties"][ROW_ID_PROPERTY]: row["body"] for row in found}
    assert Counter(by_stamp.values()) == Counter(numbers(0, COUNT)), "deduplicated: each once"
    assert trouble.strikes == STRIKES


def is_slow(query: StreamingQuery) -> bool:
    """Spark gives a new Python ten seconds, however busy the machine is. A stream that is started again goes on."""
    return "Python worker failed to connect back" in str(query.exception() or "")


@pytest.mark.timeout(600)
def test_a_query_from_topic_to_topic_goes_on_while_connections_are_reset(
    spark: SparkSession, world: World, tmp_path: Path
) -> None:
    topic, copies = world.make("Source"), world.make("Copies")
    world.fill(topic)
    checkpoint = tmp_path / "checkpoint"
    stream = spark.readStream.format("rocketmq").options(namesrv=world.namesrv, subscribe=topic, **IMPATIENT)
    stream = stream.options(startingOffsets="earliest", maxOffsetsPerTrigger=COUNT // 5)
    sink = stream.load().selectExpr("body").writeStream.format("rocketmq").options(namesrv=world.namesrv, topic=copies)
    sink = sink.options(checkpointLocation=str(checkpoint), **IMPATIENT).trigger(availableNow=True)
    troubles = [Trouble(world.cluster, "reset"), Trouble(world.cluster, "cut")]
    query = sink.start()
    while query.isActive or is_slow(query):
        if not query.isActive:
            query = sink.start()
        # A cluster that does not answer the first questions of a query is taken for one that is not there.
        if (checkpoint / "commits" / "0").exists():
            troubles[troubles[0].strikes == STRIKES].strike()
        time.sleep(0.5)
    query.awaitTermination()  # raises what ended it
    found = rows(world, "body properties", subscribe=copies)
    by_stamp = {row["properties"][ROW_ID_PROPERTY]: row["body"] for row in found}
    assert Counter(by_stamp.values()) == Counter(numbers(0, COUNT))
    assert world.cluster.it.proxies["broker-a"].cuts + world.cluster.it.proxies["broker-b"].cuts > 0
