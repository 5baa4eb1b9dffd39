"""A program on Spark Connect, which starts its server by itself. Registers nothing; prints what it found as JSON."""

import json
import sys

from pyspark.sql import SparkSession


def main() -> None:
    store, folder = sys.argv[1:]
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    table = spark.read.format("rocketmq-store").load(store)
    found = {"session": type(spark).__module__, "rows": table.count()}
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
    sys.stdout.write(json.dumps(found) + "\n")
    spark.stop()


main()
