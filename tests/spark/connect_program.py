"""A program on Spark Connect. Registers nothing. Prints what it found as JSON, or how many rows a table has."""

import json
import sys

from pyspark.sql import SparkSession


def main() -> None:
    remote, *asked = sys.argv[1:]
    spark = SparkSession.builder.remote(remote).getOrCreate()
    answer = spark.table(asked[0]).count() if len(asked) == 1 else found_formats(spark, *asked)
    sys.stdout.write(json.dumps(answer) + "\n")
    spark.stop()


def found_formats(spark: SparkSession, store: str, folder: str) -> dict[str, object]:
    """Reads a store as a table and as a stream, and asks for a cluster that is not there."""
    table = spark.read.format("rocketmq-store").load(store)
    found: dict[str, object] = {"session": type(spark).__module__, "rows": table.count()}
    stream = spark.readStream.format("rocketmq-store").option("startingOffsets", "earliest").load(store)
    query = (
        stream.writeStream.format("parquet")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{folder}/copy")
    )
    query.awaitTermination()
    found["streamed"] = spark.read.parquet(f"{folder}/copy").count()
    broker = spark.read.format("rocketmq").options(namesrv="127.0.0.1:1", subscribe="Orders").load()
    try:
        broker.collect()
    except Exception as error:  # noqa: BLE001 - what it says is what is asked
        found["refused"] = str(error)
    return found


main()
