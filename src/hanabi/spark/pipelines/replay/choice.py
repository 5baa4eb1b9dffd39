"""Selection and conversion of messages to replay: from the sources' columns to those of a message to send."""

from dataclasses import dataclass
from typing import Final

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from hanabi.errors import ConfigError
from hanabi.spark.pipelines.failures import first_line
from hanabi.wire.message import property_names as names
from hanabi.wire.system_names import DEAD_LETTER_PREFIX, RETRY_PREFIX

TARGET: Final = "target"  # null if the message's origin is unknown
ORDERING_KEY: Final = "orderingKey"
PLACE: Final = ("topic", "brokerName", "queueId")
NEEDED: Final = (*PLACE, "queueOffset", "tags", "keys", "body", "properties")


@dataclass(frozen=True)
class Choice:
    """Conditions on messages; None means no restriction. Without *to*, each message goes to its original topic."""

    keys: list[str] | None = None
    tags: list[str] | None = None
    where: str | None = None
    limit: int | None = None
    to: str | None = None
    mark: str | None = None
    keep_order: bool = False


def choose(messages: DataFrame, choice: Choice) -> DataFrame:
    """Return the messages to send. Raises ConfigError if the SQL is invalid."""
    if choice.tags is not None:
        messages = messages.where(f.col("tags").isin(*choice.tags))
    if choice.keys is not None:
        messages = messages.where(f.arrays_overlap("keys", f.array(*map(f.lit, choice.keys))))
    if choice.where is not None:
        try:
            messages = messages.where(choice.where)
            _ = messages.schema
        except (AnalysisException, ParseException) as error:
            raise ConfigError(f"option where={choice.where!r}: {first_line(str(error))}") from error
    if choice.limit is not None:
        messages = messages.limit(choice.limit)
    if choice.keep_order:
        messages = messages.repartition(*PLACE).sortWithinPartitions(*PLACE, "queueOffset")
    return messages.select(
        (f.lit(choice.to) if choice.to is not None else origin()).alias(TARGET),
        "body",
        "tags",
        "keys",
        _properties(choice.mark).alias("properties"),
        (_place() if choice.keep_order else f.lit(None).cast("string")).alias(ORDERING_KEY),
    )


def origin() -> Column:
    """Return the original topic of a message: dead letters and retried messages have it in a property, if known."""
    told = f.coalesce(_property(names.DLQ_ORIGIN_TOPIC), _property(names.RETRY_TOPIC))
    topic = f.col("topic")
    is_of_a_group = topic.startswith(DEAD_LETTER_PREFIX) | topic.startswith(RETRY_PREFIX)
    return f.when(is_of_a_group, told).otherwise(topic)


def _property(name: str) -> Column:
    return f.col("properties")[name]


def _place() -> Column:
    return f.concat_ws("/", *PLACE)


def _properties(mark: str | None) -> Column:
    """Return the message's own properties, without those that brokers and clients wrote."""
    reserved = sorted(names.RESERVED)

    def is_own(name: Column, _: Column) -> Column:
        return ~name.isin(*reserved) & ~name.startswith(names.TRANSIENT_PREFIX)

    own = f.map_filter("properties", is_own)
    if mark is None:
        return own
    stamp = f.create_map(f.lit(mark), f.concat_ws("/", *PLACE, "queueOffset"))
    return f.map_concat(f.map_filter(own, lambda name, _: name != f.lit(mark)), stamp)
