"""Source of the messages of a replay."""

from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, SparkSession

from hanabi.spark.broker.options import NAME as BROKER_FORMAT
from hanabi.spark.pipelines.archive_read import read_archive
from hanabi.spark.pipelines.replay.choice import NEEDED
from hanabi.spark.shared.columns import MESSAGE, struct_of
from hanabi.spark.shared.option_values import OptionValues

if TYPE_CHECKING:
    from hanabi.spark.pipelines.replay.pipeline import ReplayOptions

TASK_MESSAGES: Final = 20_000  # per task of a topic: progress is reported at the end of each task


def read_messages(spark: SparkSession, options: "ReplayOptions") -> DataFrame:
    """Return the messages of the selected topics and times, with the needed columns only."""
    if options.archive is not None:
        times = OptionValues(
            {name: text for name, text in (("since", options.since), ("until", options.until)) if text},
            ("since", "until"),
            "replay",
        )
        return read_archive(
            spark,
            options.archive,
            topics=options.topics or None,
            since_ms=times.time_ms("since"),
            until_ms=times.time_ms("until"),
        )
    # The sources decode only the selected columns; an SQL condition may use any column.
    names = NEEDED if options.where is None else tuple(MESSAGE)
    schema = struct_of({name: MESSAGE[name] for name in names})
    if options.store is not None:
        return options.read(spark, ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in schema))
    from_there = {} if options.from_namesrv is None else {"namesrv": options.from_namesrv}
    reader = spark.read.format(BROKER_FORMAT).options(**options.broker_options() | from_there)
    return reader.option("maxRecordsPerPartition", TASK_MESSAGES).schema(schema).load()
