"""Support for Delta tables: a check for their package, and Delta's own compaction."""

from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from hanabi.errors import ConfigError

_EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_HOW: Final = (
    "--conf spark.jars.packages=io.delta:delta-spark_2.13:VERSION"
    f" --conf spark.sql.extensions={_EXTENSION} --conf spark.sql.catalog.spark_catalog={_CATALOG}"
)


def check_delta(spark: SparkSession) -> None:
    """Raise ConfigError if *spark* does not support Delta tables."""
    jvm: Any = spark.sparkContext._jvm
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(_EXTENSION)
    except Py4JError as error:
        raise ConfigError(f"format=delta: Spark has no Delta package; run with {_HOW}") from error
    if _EXTENSION not in (spark.conf.get("spark.sql.extensions", "") or ""):
        raise ConfigError(f"format=delta: Spark has the Delta package, but it is not enabled; run with {_HOW}")


def optimize_delta(spark: SparkSession, url: str) -> None:
    spark.sql(f"OPTIMIZE delta.`{url}`").collect()
