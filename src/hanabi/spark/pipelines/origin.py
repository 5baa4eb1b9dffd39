"""Origin of a pipeline's messages: the topics of a cluster, or the files of a broker. Base class of option Structs.

Knows options and the two formats; the pipeline processes the messages.
"""

from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from pyspark.sql import DataFrame, SparkSession

from hanabi.errors import ConfigError
from hanabi.spark.broker.cluster import ask_cluster
from hanabi.spark.broker.options import NAME as BROKER_FORMAT
from hanabi.spark.broker.options import parse_batch_options
from hanabi.spark.pipelines.connection import Connection
from hanabi.spark.shared.option_values import OptionValues
from hanabi.spark.store.options import LIGHT_QUEUE_PREFIX
from hanabi.spark.store.options import NAME as STORE_FORMAT
from hanabi.store.inspection.home import StoreHome
from hanabi.store.inspection.queues import find_queues
from hanabi.wire.system_names import DEAD_LETTER_PREFIX, RETRY_PREFIX, is_system

_TIME: Final = "milliseconds since 1970, or a time such as 2026-11-15T06:45:00 (UTC)"
_NOTHING: Final = "(?!)"  # no topic has this name


class Origin(Connection, frozen=True, kw_only=True):
    """Selection of messages and their source. With `store` no broker is contacted."""

    store: Annotated[str | None, msgspec.Meta(description="read a broker's files in this directory, not a cluster")] = (
        None
    )
    commit_log: Annotated[
        str | None, msgspec.Meta(description="storePathCommitLog of that store, if it is outside the directory")
    ] = None
    topics: Annotated[list[str], msgspec.Meta(description="topics; default: all topics of users")] = msgspec.field(
        default_factory=list
    )
    pattern: Annotated[str | None, msgspec.Meta(description="topics, as a regular expression")] = None
    since: Annotated[str | None, msgspec.Meta(description=f"stored at this time or later: {_TIME}")] = None
    until: Annotated[str | None, msgspec.Meta(description=f"stored before this time: {_TIME}")] = None

    on_damage: Annotated[
        Literal["fail", "skip"], msgspec.Meta(description="for an unreadable body: fail, or leave its message out")
    ] = "fail"

    def __post_init__(self) -> None:
        if self.topics and self.pattern is not None:
            raise ConfigError("topics and pattern exclude each other: give one of them")
        if self.commit_log is not None and self.store is None:
            raise ConfigError(f"commit-log={self.commit_log} is given, but store is not")
        times = OptionValues(
            {name: text for name, text in (("since", self.since), ("until", self.until)) if text is not None},
            ("since", "until"),
            "a pipeline",
        )
        since_ms, until_ms = times.time_ms("since"), times.time_ms("until")
        if since_ms is not None and until_ms is not None and since_ms >= until_ms:
            raise ConfigError(f"since={self.since} does not lie before until={self.until}")

    @property
    def store_home(self) -> StoreHome | None:
        """The store, if one is read. Raises StoreError if the directory is not a store."""
        if self.store is None:
            return None
        return StoreHome.open(Path(self.store), Path(self.commit_log) if self.commit_log else None)

    def read(self, spark: SparkSession, columns: str) -> DataFrame:
        """Return the messages with *columns* only (as for `.schema(...)`): other columns are not decoded."""
        home = self.store_home
        if home is not None:
            reader = spark.read.format(STORE_FORMAT).options(**self._store_options(home))
            return reader.schema(columns).load(str(home.root))
        return spark.read.format(BROKER_FORMAT).options(**self.broker_options()).schema(columns).load()

    def read_existing(self, spark: SparkSession, columns: str) -> DataFrame:
        """Return the messages as `read`, without missing `topics`. For topics that are created on first use."""
        there = self._topics_there()
        topics = [topic for topic in self.topics if topic in there]
        if self.topics and not topics:
            return spark.createDataFrame([], columns)
        return msgspec.structs.replace(self, topics=topics).read(spark, columns)

    def _topics_there(self) -> set[str]:
        home = self.store_home
        if home is not None:
            return {queue.topic for queue in find_queues(home.queues)}
        return set(ask_cluster(parse_batch_options(self.broker_options()).read, lambda cluster: cluster.topics()))

    def broker_options(self) -> dict[str, str]:
        """Return the options of a batch for the format `rocketmq`."""
        options = self.spark_options() | self._times() | {"onDamage": self.on_damage}
        if self.since is not None:
            options["startingOffsetsByTimestampStrategy"] = "latest"  # a queue may have no later message
        if self.topics:
            return options | {"subscribe": ",".join(self.topics)}
        return options | {"subscribePattern": self.pattern or ".*"}

    def _store_options(self, home: StoreHome) -> dict[str, str]:
        options = self._times() | {"onDamage": self.on_damage}
        if self.commit_log:
            options["commitLog"] = self.commit_log
        if self.topics:
            return options | {"subscribe": ",".join(self.topics)}
        if self.pattern is not None:
            return options | {"subscribePattern": self.pattern}
        topics = ",".join(user_topics(home))
        return options | ({"subscribe": topics} if topics else {"subscribePattern": _NOTHING})

    def _times(self) -> dict[str, str]:
        given = {"startingTimestamp": self.since, "endingTimestamp": self.until}
        return {name: text for name, text in given.items() if text is not None}


def user_topics(home: StoreHome) -> list[str]:
    """Return the topics of a store that are neither the broker's own nor made for retries and dead letters."""
    prefixes = (RETRY_PREFIX, DEAD_LETTER_PREFIX, LIGHT_QUEUE_PREFIX)
    topics = {queue.topic for queue in find_queues(home.queues)}
    return sorted(topic for topic in topics if not is_system(topic) and not topic.startswith(prefixes))
