"""A program as users submit it: one topic as a stream, into files and into another topic, until drained or killed.

Imports nothing of the tests, and registers nothing: on the cluster there is the installed package and no more.
"""

import json
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

TOO_SLOW = "Python worker failed to connect back"  # Spark gives a new Python ten seconds, however busy the machine is


def main() -> None:
    told = json.loads(sys.argv[1])
    spark = SparkSession.builder.appName("copy").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    messages = (
        spark.readStream.format("rocketmq")
        .options(namesrv=told["namesrv"], subscribe=told["topic"], startingOffsets="earliest")
        .options(
            maxOffsetsPerTrigger=told["rows"] * (10 if told["drain"] else 1), discoveryMs=500, retryTimeoutMs=90_000
        )
        .load()
    )

    files = messages.writeStream.format("parquet").option("checkpointLocation", told["files"] + ".checkpoint")
    topic = (
        messages.selectExpr("body", "concat(queueId, '/', queueOffset) as tags")
        .writeStream.format("rocketmq")
        .options(namesrv=told["namesrv"], topic=told["copies"], retryTimeoutMs=90_000)
        .option("checkpointLocation", told["files"] + ".copies.checkpoint")
    )
    if told["drain"]:
        files, topic = files.trigger(availableNow=True), topic.trigger(availableNow=True)
    starts = [lambda: files.start(told["files"]), topic.start]
    queries: list[StreamingQuery] = []
    while len(queries) < len(starts) or any(query.isActive or is_slow(query) for query in queries):
        if len(queries) < len(starts) and all(query.lastProgress for query in queries):
            queries.append(starts[len(queries)]())  # one after the other: both at once is much for a busy machine
        for number, query in enumerate(queries):
            if is_slow(query):
                queries[number] = starts[number]()
        say("batches", *(str(last["batchId"] if (last := query.lastProgress) else -1) for query in queries))
        time.sleep(0.1)
    for query in queries:
        query.awaitTermination()  # raises what ended it
    say("drained")


def is_slow(query: StreamingQuery) -> bool:
    return TOO_SLOW in str(query.exception() or "")


def say(*words: str) -> None:
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


main()
