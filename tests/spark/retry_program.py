"""Pipelines and the sink in a session whose tasks all fail once (`dying_daemon`); prints what came of each as JSON."""

import json
import random
import sys
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from hanabi.spark import deduplicated
from tests.spark.scenario_subjects import RETRIED

DAEMON = "tests.spark.dying_daemon"
ROWS_AT_ONCE = 50


class Visited:
    """Parts of `scenario_world.World` that subjects need; the broker runs elsewhere."""

    def __init__(self, spark: SparkSession, told: dict[str, str]) -> None:
        self.spark, self.namesrv, self.out, self._store = spark, told["namesrv"], Path(told["out"]), Path(told["store"])

    def make(self, topic: str, queues: int) -> None:
        """Do nothing: all topics are there."""

    def written(self, topic: str) -> Path:
        return self._store


def in_another_order_each_time(rows: DataFrame) -> DataFrame:
    """*rows* behind a shuffle. An attempt of a task gets its rows in an order of its own."""

    @f.udf("double")
    def place(body: str) -> float:
        task = TaskContext.get()
        return random.Random(f"{body} {task.attemptNumber() if task else 0}").random()

    return rows.repartition(3).sortWithinPartitions(place.asNondeterministic()("body"))


def sink_of_batch(spark: SparkSession, told: dict[str, str]) -> dict[str, int]:
    bodies = spark.range(int(told["count"])).selectExpr("cast(id as string) as body")
    shuffled = in_another_order_each_time(bodies)
    shuffled.write.format("rocketmq").mode("append").options(namesrv=told["namesrv"], topic="SinkBatch").save()
    return arrived(spark, told, "SinkBatch")


def sink_of_stream(spark: SparkSession, told: dict[str, str]) -> dict[str, int]:
    source = spark.readStream.format("rocketmq").options(namesrv=told["namesrv"], subscribe="Input")
    bodies = source.option("startingOffsets", "earliest").load().selectExpr("cast(body as string) as body")
    sink = bodies.repartition(3).writeStream.format("rocketmq").trigger(availableNow=True)
    sink = sink.options(namesrv=told["namesrv"], topic="SinkStream", checkpointLocation=told["out"] + "/checkpoint")
    sink.start().awaitTermination()
    return arrived(spark, told, "SinkStream")


def arrived(spark: SparkSession, told: dict[str, str], topic: str) -> dict[str, int]:
    found = spark.read.format("rocketmq").options(namesrv=told["namesrv"], subscribe=topic).load()
    once = deduplicated(found)
    return {"sent": found.count(), "count": once.count(), "different": once.select("body").distinct().count()}


def main() -> None:
    told = json.loads(sys.argv[1])
    spark = (
        SparkSession.builder.master("local[2,3]")
        .config("spark.python.daemon.module", DAEMON)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", str(ROWS_AT_ONCE))
        .config("spark.sql.execution.sortBeforeRepartition", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    deaths, found = Path(told["deaths"]), dict[str, dict[str, int]]()

    def note(name: str, outcome: dict[str, int]) -> None:
        found[name] = outcome | {"deaths": len(list(deaths.iterdir()))}
        for each in deaths.iterdir():
            each.unlink()

    for kind in RETRIED:
        subject = kind()
        note(subject.name, {"count": subject.take(Visited(spark, told))})  # type: ignore[arg-type]
    note("sink of a batch", sink_of_batch(spark, told))
    note("sink of a stream", sink_of_stream(spark, told))
    sys.stdout.write(json.dumps(found) + "\n")
    spark.stop()


main()
