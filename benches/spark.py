"""Spark on a store's files and on a broker, beside Parquet and plain programs: `python -m benches.spark [--quick]`.

One session, one broker, one set of messages: the broker serves the very files that the store reader reads. What is
compared is measured in turn, round by round, because a machine is not the same from one minute to the next. Before,
every way of reading is shown to deliver the same: see `spark_proof`.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import pyspark
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

import hanabi
from benches.broker_servers import FULL_SIZE, RunningBroker
from benches.report import publish, table
from benches.rounds import Load, run_load
from benches.spark_clients import finish, start
from benches.spark_data import BODY_BYTES, QUEUES, TOPIC, fill
from benches.spark_live import HEAD as LIVE_HEAD
from benches.spark_live import OFFERED, Live, measure_live
from benches.spark_proof import digest, digest_of_records, same_digest, written
from benches.spark_ways import (
    HEAD,
    QUICK_CHECKPOINTS,
    QUICK_SESSION,
    Way,
    alternate,
    cells,
    demand,
    session,
    speed_ratio,
)
from hanabi.client.cluster.core import Core
from hanabi.client.config import ClientConfig
from hanabi.testing.topics import plain_topic
from tests.interop.processes import ServerProcess

PARQUET = "Parquet, uncompressed"
DECODED = "store, all columns"
RAW = "store, raw record column"
BY_ROW = "store, row by row"
BROKER = "broker, all columns"
PULL = "loadgen: raw pull"
LOOP = "plain Python loop"
AS_SPARK_COMES = "store stream, Spark's own checkpoint manager"
STORE_STREAM = "store stream"
BROKER_STREAM = "broker stream"
TO_PARQUET, COPY = "store to Parquet", "Parquet to Parquet"
SINK, CLIENT = "sink", "plain Python send"


def main(*, quick: bool = False, directory: str | None = None) -> None:
    messages, rounds = (100_000, 2) if quick else (1_000_000, 5)
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        home = Path(folder)
        fill(home / "store", messages)
        with serving(home) as broker:
            spark = session()
            try:
                bench = Bench(spark, broker, home, messages)
                bench.prepare()
                bench.prove()
                reading = alternate(bench.reading(), rounds, frozenset({broker.pid}))
                streams = alternate(bench.streams(), rounds, frozenset({broker.pid}))
                copying = alternate(bench.copying(), rounds, frozenset({broker.pid}))
                sending = alternate(bench.sending(), rounds, frozenset({broker.pid}))
                bench.prove_written(rounds + 1)
                lives = [bench.live(offered, 5 if quick else 30) for offered in OFFERED]
            finally:
                spark.stop()
    report(messages, rounds, [*reading, *streams, *copying, *sending], bench.batches_per_second, lives, quick=quick)


class Bench:
    """Measurements, by group."""

    def __init__(self, spark: SparkSession, broker: RunningBroker, home: Path, messages: int) -> None:
        self._spark, self._broker, self._home, self._messages = spark, broker, home, messages
        self._store, self._parquet = str(home / "store"), str(home / "parquet")
        self._checkpoints = 0
        self.batches_per_second: dict[str, list[float]] = {AS_SPARK_COMES: [], STORE_STREAM: [], BROKER_STREAM: []}

    def prepare(self) -> None:
        self._store_reader().load(self._store).write.option("compression", "none").parquet(self._parquet)
        assert self._spark.read.parquet(self._parquet).count() == self._messages
        some = self._spark.read.parquet(self._parquet).select("body").limit(self._messages // 5)
        some.repartition(2).write.option("compression", "none").parquet(f"{self._parquet}.some")
        make_topic(self._broker, "Sink")
        make_topic(self._broker, "Plain")
        for offered in OFFERED:
            make_topic(self._broker, f"Live-{offered}")

    def prove(self) -> None:
        """Check that all ways of reading deliver the same rows, to the last byte. The files do not know the broker's
        name."""
        parquet = digest(self._spark.read.parquet(self._parquet))
        assert parquet["rows"] == self._messages
        assert parquet["bytes of bodies"] == self._messages * BODY_BYTES
        same_digest(parquet, digest(self._store_reader().load(self._store)))
        same_digest(parquet, digest(self._broker_reader().load()), but=frozenset({"brokerName"}))
        same_digest(parquet, digest_of_records(self._store_reader("record binary").load(self._store), BODY_BYTES))
        same_digest(parquet, digest(self._store_reader("tags string").load(self._store)))

    def prove_written(self, times: int) -> None:
        """Check that the last copy has all that it should, and every message of the sink arrived."""
        same_digest(
            digest(self._spark.read.parquet(self._parquet)), digest(self._spark.read.parquet(f"{self._parquet}.copy"))
        )
        with hanabi.PullConsumer("proof", namesrv=self._broker.namesrv) as consumer:
            arrived = sum(consumer.end_offset(queue) for queue in consumer.queues_of("Sink"))
        assert arrived == self._messages // 5 * times

    def _store_reader(self, schema: str | None = None) -> DataFrameReader:
        """Return a new one each time: `schema` changes the reader that it is asked of, for all that it loads later."""
        reader = self._spark.read.format("rocketmq-store").option("subscribe", TOPIC)
        return reader if schema is None else reader.schema(schema)

    def _broker_reader(self) -> DataFrameReader:
        return self._spark.read.format("rocketmq").options(namesrv=self._broker.namesrv, subscribe=TOPIC)

    def reading(self) -> list[Way]:
        share = self._messages // 10

        def stored(schema: str | None = None) -> int:
            return written(self._store_reader(schema).load(self._store))

        return [
            Way(PARQUET, lambda: written(self._spark.read.parquet(self._parquet))),
            Way(DECODED, stored),
            Way(RAW, lambda: stored("record binary")),
            Way("store, only tags", lambda: stored("tags string")),
            Way(BROKER, lambda: written(self._broker_reader().load())),
            Way(PULL, self._pull),
            Way(LOOP, lambda: finish(start("pull", self._broker.namesrv, TOPIC, share)).messages, rounds_max=2),
            Way(
                BY_ROW,
                lambda: written(self._spark.read.format("rows-of-a-store").load(self._store)),
                rounds_max=1,
            ),
        ]

    def streams(self) -> list[Way]:
        """Whole runs with triggers of 300,000 rows; the speed of full triggers is taken from Spark's own progress."""
        a_trigger = min(300_000, self._messages // 3)

        def drain(name: str, frame: DataFrame) -> int:
            self._checkpoints += 1
            if name != AS_SPARK_COMES:
                self._spark.conf.set(*QUICK_CHECKPOINTS)
            query = (
                frame.writeStream.format("noop")
                .option("checkpointLocation", str(self._home / f"checkpoint-{self._checkpoints}"))
                .trigger(availableNow=True)
                .start()
            )
            self._spark.conf.unset(QUICK_CHECKPOINTS[0])  # a query keeps what was set when it began
            query.awaitTermination()
            full = [each for each in query.recentProgress if each["numInputRows"] == a_trigger]
            self.batches_per_second[name] += [each["processedRowsPerSecond"] for each in full[1:]]
            rows: int = sum(each["numInputRows"] for each in query.recentProgress)
            assert rows == self._messages
            return rows

        stream = self._spark.readStream.options(
            subscribe=TOPIC, startingOffsets="earliest", maxOffsetsPerTrigger=a_trigger
        )
        store = stream.format("rocketmq-store").load(self._store)
        broker = (
            self._spark.readStream.format("rocketmq")
            .options(namesrv=self._broker.namesrv, subscribe=TOPIC)
            .options(startingOffsets="earliest", maxOffsetsPerTrigger=a_trigger)
            .load()
        )
        return [
            Way(AS_SPARK_COMES, lambda: drain(AS_SPARK_COMES, store)),
            Way(STORE_STREAM, lambda: drain(STORE_STREAM, store)),
            Way(BROKER_STREAM, lambda: drain(BROKER_STREAM, broker)),
        ]

    def copying(self) -> list[Way]:
        def copy(frame: DataFrame) -> int:
            writer = frame.write.mode("overwrite").option("compression", "snappy")
            writer.parquet(f"{self._parquet}.copy")
            return self._messages

        return [
            Way(COPY, lambda: copy(self._spark.read.parquet(self._parquet))),
            Way(TO_PARQUET, lambda: copy(self._store_reader().load(self._store))),
        ]

    def sending(self) -> list[Way]:
        def sink() -> int:
            rows = self._spark.read.parquet(f"{self._parquet}.some")
            rows.write.format("rocketmq").mode("append").options(namesrv=self._broker.namesrv, topic="Sink").save()
            return self._messages // 5

        return [
            Way(CLIENT, lambda: finish(start("send", self._broker.namesrv, "Plain", self._messages // 5)).messages),
            Way(SINK, sink),
        ]

    def live(self, offered: int, seconds: float) -> Live:
        checkpoint = self._home / f"checkpoint-live-{offered}"
        return measure_live(self._spark, self._broker, f"Live-{offered}", checkpoint, offered, seconds)

    def _pull(self) -> int:
        run_load(self._broker, Load("pull", "pull", topic=TOPIC, queues=QUEUES, seconds=60))
        return self._messages


@contextmanager
def serving(home: Path) -> Iterator[RunningBroker]:
    """Our broker on the store that was filled."""
    config = home / "broker.conf"
    settings = FULL_SIZE | {"storePathRootDir": home / "store", "storePathCommitLog": home / "store" / "commitlog"}
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    command = [sys.executable, "-m", "hanabi", "serve", "--home", str(home / "data"), "-c", str(config)]
    process = ServerProcess("our broker", [*command, "--namesrv-port", "0", "--broker-port", "0"], home / "console.log")
    try:
        # It looks through the last gigabyte of its log first.
        process.wait_until(lambda: "\nready broker " in process.output(), "be ready", timeout_s=600)
        namesrv = process.wait_for_line("ready namesrv ").split()[-1]
        host, _, port = process.wait_for_line("ready broker ").split()[-1].rpartition(":")
        broker = RunningBroker("Hanabi", host, int(port), process.pid, namesrv)
        make_topic(broker, TOPIC)
        yield broker
    finally:
        process.kill()


def make_topic(broker: RunningBroker, topic: str) -> None:
    """Create it with as many queues as the store has; the name server knows it when this returns."""

    async def make() -> None:
        core = await Core.acquire(ClientConfig(namesrv=broker.namesrv))
        try:
            await core.api.create_topic(f"{broker.host}:{broker.port}", plain_topic(topic, QUEUES))
            for _ in range(600):
                try:
                    await core.routes.find(topic, fresh=True)
                    return
                except Exception:  # noqa: BLE001 - not known yet
                    await asyncio.sleep(0.05)
            raise AssertionError(f"topic {topic} has no route")
        finally:
            await core.release()

    asyncio.run(make())


def report(
    messages: int,
    rounds: int,
    ways: list[Way],
    batches: dict[str, list[float]],
    lives: list[Live],
    *,
    quick: bool,
) -> None:
    by_name = {way.name: way for way in ways}
    base = {way.name: by_name[PARQUET] for way in ways} | {TO_PARQUET: by_name[COPY], SINK: by_name[CLIENT]}
    base |= {BROKER: by_name[PULL], LOOP: by_name[PULL]}
    rows = [
        cells(way, None if way is base[way.name] or way.name in (PULL, COPY, CLIENT) else base[way.name])
        for way in ways
    ]
    full = {name: median(found) if found else 0.0 for name, found in batches.items()}
    demands = [
        demand(f"{DECODED}, of Parquet's speed", speed_ratio(by_name[DECODED], by_name[PARQUET]), 0.6),
        demand(f"{RAW}, of Parquet's speed", speed_ratio(by_name[RAW], by_name[PARQUET]), 0.9),
        demand("CPU of row by row to ours", by_name[BY_ROW].cpu_us / by_name[DECODED].cpu_us, 2.0),
        demand("broker source, of loadgen's raw pull", speed_ratio(by_name[BROKER], by_name[PULL]), 0.5),
        demand(f"{STORE_STREAM}, rows/s of full triggers", full[STORE_STREAM], 300_000, 0),
        demand(f"{AS_SPARK_COMES}, likewise", full[AS_SPARK_COMES], 300_000, 0),
        demand("live stream from the broker, rows/s", lives[0].read, 60_000, 0),
        demand("store to Parquet, of Parquet to Parquet", speed_ratio(by_name[TO_PARQUET], by_name[COPY]), 0.6),
        demand("sink, of the client's best", speed_ratio(by_name[SINK], by_name[CLIENT]), 0.7),
    ]
    publish(
        "spark",
        "Spark",
        f"{messages:,} messages of 1 KiB in {QUEUES} queues, pyspark {pyspark.__version__}, local[2], files in the page"
        f" cache; reads are written to `noop`. Medians of {rounds} rounds in turn after a warm-up (row by row: one, the"
        " plain loop: two, over a tenth). CPU is that of the JVM and its Python workers, or of the plain program,"
        " without the broker's. The base is Parquet; for the broker source and the plain loop it is the raw pull, for"
        " copies Parquet to Parquet, for the sink the plain client. The session has "
        + " and ".join(f"{name}={value}" for name, value in QUICK_SESSION.items())
        + ".",
        table(HEAD, rows),
        f"Full triggers of {min(300_000, messages // 3):,} rows, median of Spark's processedRowsPerSecond: "
        + ", ".join(f"{name} {median(found):,.0f}" for name, found in batches.items() if found)
        + f". Streams run with {QUICK_CHECKPOINTS[0]}={QUICK_CHECKPOINTS[1].rpartition('.')[2]}, but for the one that"
        " says otherwise.",
        "Live: the load generator, the broker and Spark on the same cores; what came in a window between the ends of"
        " two triggers, after a warm-up and while the producer went on. Afterwards every message was read.",
        table(LIVE_HEAD, [live.cells for live in lives]),
        table(("demand", "measured", "wanted", "met"), demands),
        quick=quick,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benches.spark", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few short rounds: to see that it works, not to quote")
    parser.add_argument("--directory", help="where to measure; a fresh directory is made inside and removed")
    asked = parser.parse_args()
    main(quick=asked.quick, directory=asked.directory)
