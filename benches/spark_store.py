"""Spark over a store's files, beside Spark over Parquet with the same rows: `python -m benches.spark_store [--quick]`.

All ways are measured in one session and in turn. The rows go nowhere (Spark's `noop`): it is reading that counts.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psutil
import pyspark
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benches.report import publish, table
from hanabi.spark import register
from hanabi.spark.columns import MESSAGE, struct_of
from hanabi.spark.store_options import parse_store_options
from hanabi.spark.store_plan import QueueTask, plan_queue_tasks
from hanabi.store.commit_log import PendingMessage
from hanabi.store.config import StoreConfig
from hanabi.store.inspection.home import FileReader, StoreHome
from hanabi.store.inspection.log_lookup import LogLookup
from hanabi.store.inspection.queues import QueueOnDisk
from hanabi.store.message_store import MessageStore
from hanabi.wire.hosts import encode_host
from hanabi.wire.message_id import UniqueIds
from hanabi.wire.properties import encode_properties
from hanabi.wire.record import decode_record
from hanabi.wire.stored import to_message

TOPIC = "TopicTest"
QUEUES = 4
HOST = encode_host("127.0.0.1", 10911)
PARQUET = "Parquet, uncompressed"
DECODED = "store, all columns"
RAW = "store, raw record column"
BY_ROW = "store, row by row"
DEMANDS = {DECODED: 0.6, RAW: 0.9}
BY_ROW_DEMAND = 2.0


@dataclass
class Way:
    """One way to read the messages, and what its rounds took."""

    name: str
    read: Callable[[], DataFrame]
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    rounds_max: int = 1_000


def main(*, quick: bool = False, directory: str | None = None) -> None:
    messages = 60_000 if quick else 900_000
    rounds = 3 if quick else 7
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        store, parquet = Path(folder, "store"), str(Path(folder, "parquet"))
        fill(store, messages)
        spark = session()
        try:
            ways = ways_to_read(spark, str(store), parquet)
            ways[0].read().write.option("compression", "none").parquet(parquet)
            assert spark.read.parquet(parquet).count() == messages
            for number in range(rounds + 1):
                for way in ways:
                    if number <= way.rounds_max:
                        measure(way, keep=number > 0)
        finally:
            spark.stop()
    base = next(way for way in ways if way.name == PARQUET)
    publish(
        "spark_store",
        "Spark on a store's files",
        f"{messages:,} messages of 1 KiB in {QUEUES} queues, pyspark {pyspark.__version__}, local[2], files in the page"
        f" cache, written to `noop`; medians of {rounds} alternating rounds after a warm-up (row by row: fewer). CPU is"
        " that of the JVM and its Python workers.",
        table(
            ("way", "seconds", "best", "rows/s", "CPU seconds", "of Parquet, wall", "of Parquet, CPU"),
            [cells(way, base, messages) for way in ways],
        ),
        verdict(ways, base),
        quick=quick,
    )


def ways_to_read(spark: SparkSession, store: str, parquet: str) -> list[Way]:
    def source() -> DataFrameReader:
        return spark.read.format("rocketmq-store")

    return [
        Way(DECODED, lambda: source().load(store)),
        Way("store, all columns, no CRC", lambda: source().option("checkCrc", "false").load(store)),
        Way(RAW, lambda: source().schema("record binary").load(store)),
        Way(f"{RAW}, no CRC", lambda: source().schema("record binary").option("checkCrc", "false").load(store)),
        Way(PARQUET, lambda: spark.read.parquet(parquet)),
        Way("store, only tags", lambda: source().schema("tags string").load(store)),
        Way(BY_ROW, lambda: spark.read.format("rows-of-a-store").load(store), rounds_max=1),
    ]


def cells(way: Way, base: Way, messages: int) -> list[str]:
    seconds, cpu = median(way.seconds), median(way.cpu_seconds)
    return [
        way.name,
        f"{seconds:.2f}",
        f"{min(way.seconds):.2f}",
        f"{messages / seconds:,.0f}",
        f"{cpu:.2f}",
        f"{median(base.seconds) / seconds:.2f}",
        f"{median(base.cpu_seconds) / cpu:.2f}",
    ]


def verdict(ways: list[Way], base: Way) -> str:
    by_name = {way.name: way for way in ways}
    told = [
        f"{name}: {median(base.seconds) / median(by_name[name].seconds):.2f} of Parquet's speed, demand {demand}"
        for name, demand in DEMANDS.items()
    ]
    times = median(by_name[BY_ROW].cpu_seconds) / median(by_name[DECODED].cpu_seconds)
    return "Demands: " + "; ".join([*told, f"CPU of row by row: {times:.1f} times ours, demand {BY_ROW_DEMAND}"]) + "."


def measure(way: Way, *, keep: bool) -> None:
    """One round."""
    data = way.read()
    cpu, began = cpu_seconds(), time.perf_counter()
    data.write.format("noop").mode("overwrite").save()
    seconds = time.perf_counter() - began
    if keep:
        way.seconds.append(seconds)
        way.cpu_seconds.append(cpu_seconds() - cpu)


def cpu_seconds() -> float:
    """What all processes below this one have used, those that ended included."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            total += sum(process.cpu_times())
        except psutil.NoSuchProcess:
            continue
    return total


def session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("benches.spark_store")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    spark.dataSource.register(RowSource)
    return spark


def fill(root: Path, count: int) -> None:
    """A store with messages as a Java client sends them."""
    ids = UniqueIds(lambda: int(time.time() * 1000), ip=bytes(4), process_id=os.getpid(), loader_hash=1)
    randoms = random.Random(1)
    noise = randoms.randbytes(1 << 20)
    with MessageStore.open(StoreConfig(root=str(root)), disk_ratio=lambda _: 0.1) as store:
        for number in range(count):
            at = randoms.randrange(len(noise) - 1024)
            properties = {
                "KEYS": f"order-{number}",
                "UNIQ_KEY": ids.make(),
                "WAIT": "true",
                "TAGS": f"Tag{number % 16}",
            }
            raw = encode_properties(properties)
            now_ms = int(time.time() * 1000)
            store.put(PendingMessage(TOPIC, number % QUEUES, noise[at : at + 1024], raw, now_ms, HOST, HOST))
        store.flush()


class RowSource(DataSource):
    """What one would write without the vectorised decoder: a tuple for each message."""

    @classmethod
    def name(cls) -> str:
        return "rows-of-a-store"

    def schema(self) -> StructType:
        return struct_of(MESSAGE)

    def reader(self, schema: StructType) -> DataSourceReader:
        return RowReader(self.options["path"])


class RowReader(DataSourceReader):
    def __init__(self, path: str) -> None:
        self._path = path

    def partitions(self) -> list[InputPartition]:
        options = parse_store_options({"path": self._path})
        return [*plan_queue_tasks(options, options.selection)]

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        assert isinstance(partition, QueueTask)
        from datetime import UTC, datetime

        home = StoreHome.open(Path(self._path))
        with FileReader() as reader, FileReader() as queue_reader:
            log = LogLookup(home, reader)
            for topic, queue_id, first, end in partition.spans:
                queue = QueueOnDisk(f"{home.queues}/{topic}/{queue_id}", topic, queue_id)
                for queue_offset in range(first, end):
                    entry = queue.entry(queue_reader, queue_offset)
                    assert entry is not None
                    message = to_message(decode_record(log.read(entry[0]) or b"", 0, entry[1]))
                    yield (
                        message.topic,
                        None,
                        message.queue_id,
                        message.queue_offset,
                        message.message_id,
                        message.offset_message_id,
                        message.tags,
                        list(message.keys),
                        message.body,
                        message.properties,
                        datetime.fromtimestamp(message.born_timestamp_ms / 1000, UTC),
                        datetime.fromtimestamp(message.store_timestamp_ms / 1000, UTC),
                        str(message.born_host),
                        str(message.store_host),
                        message.reconsume_times,
                        message.sys_flag,
                        message.log_offset,
                    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benches.spark_store", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few short rounds: to see that it works, not to quote")
    parser.add_argument("--directory", help="where to measure; a fresh directory is made inside and removed")
    asked = parser.parse_args()
    main(quick=asked.quick, directory=asked.directory)
