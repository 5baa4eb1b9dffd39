"""An archive in a Delta table, in a session that has Delta's jars: run twice, and replayed. Prints what came of it."""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.pipelines.running import run_pipeline


def main() -> None:
    told = json.loads(sys.argv[1])
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", told["jars"])
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    options: dict[str, Any] = {"namesrv": told["namesrv"]}
    if told["replay_to"]:
        outcome = run_pipeline(spark, "replay", archive=told["archive"], to=told["replay_to"], **options)
    else:
        outcome = run_pipeline(spark, "archive", topics=[told["topic"]], to=told["archive"], format="delta", **options)
    sys.stdout.write(json.dumps(outcome.facts) + "\n")
    spark.stop()


main()
