"""Reader of an archive as a table, with the sources' columns in their order."""

from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from hanabi.errors import ConfigError
from hanabi.spark.pipelines.archive.home import open_archive
from hanabi.spark.pipelines.archive.layout import HOUR, PYTHON_HOUR, TOPIC, WHOLE
from hanabi.spark.shared.columns import MESSAGE
from hanabi.spark.shared.suggestions import did_you_mean


def read_archive(
    spark: SparkSession,
    url: str,
    *,
    topics: list[str] | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> DataFrame:
    """Return the messages of the archive at *url*, stored in [since, until).

    Reads only files of these topics and hours. Raises ConfigError if there is no archive, or a named topic is not in
    it.
    """
    home = open_archive(spark, url)
    there = {each.topic for each in home.state.queues}
    for topic in topics or ():
        if topic not in there:
            raise ConfigError(f"{url} has no topic {topic!r}{did_you_mean(topic, there)}")
    if home.state.format == "delta":
        found = spark.read.format("delta").load(url)
    elif home.state.messages:
        found = spark.read.schema(WHOLE).parquet(url)
    else:
        found = spark.createDataFrame([], WHOLE)
    if topics is not None:
        found = found.where(f.col(TOPIC).isin(*topics))
    if since_ms is not None:
        found = found.where((f.col(HOUR) >= _hour(since_ms)) & (f.unix_millis("storeTimestamp") >= since_ms))
    if until_ms is not None:
        found = found.where((f.col(HOUR) <= _hour(until_ms)) & (f.unix_millis("storeTimestamp") < until_ms))
    return found.select(*MESSAGE)


def _hour(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1_000, UTC).strftime(PYTHON_HOUR)
