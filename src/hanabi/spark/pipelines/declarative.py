"""Ready tables for `spark-pipelines`, Spark's declarative pipelines. A definition file of yours says which ones:

    from hanabi.spark.pipelines.declarative import define_messages, define_traffic

    define_messages(subscribe="Orders,Bills")
    define_traffic()

Spark then keeps them up to date, run by run. `examples/declarative` is such a project.

These functions only say what is to be computed, and run in a session of Spark Connect. So nothing here collects, looks
at the cluster or registers a format: a definition must not.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from hanabi.spark.broker.options import NAME as BROKER_FORMAT
from hanabi.spark.pipelines.traffic import tables as traffic_tables
from hanabi.spark.store.options import NAME as STORE_FORMAT

MESSAGES = "messages"


def define_messages(name: str = MESSAGES, *, store: str | None = None, **options: str) -> None:
    """Define the streaming table *name*: every message of the selected topics, with the source's columns.

    *options* are those of the stream (`namesrv`, `subscribe`, `maxOffsetsPerTrigger`...); by default it begins with the
    oldest messages. With *store*, it reads the files of a broker in that directory instead of a cluster.
    """

    @dp.table(name=name, comment="messages of RocketMQ, each once")
    def messages() -> DataFrame:
        told = {"startingOffsets": "earliest", **options}
        stream = SparkSession.active().readStream.format(STORE_FORMAT if store else BROKER_FORMAT).options(**told)
        return stream.load(store)


def define_traffic(messages: str = MESSAGES, *, prefix: str = "traffic") -> None:
    """Define the tables of the pipeline `traffic`, except the lag of groups, as materialized views over *messages*.

    The views are *prefix*_minutes, *prefix*_sizes and *prefix*_queues.
    """
    counts = f"{prefix}_counts"

    @dp.materialized_view(name=counts, comment="messages by all that the other tables tell apart")
    def _counts() -> DataFrame:
        return traffic_tables.count_messages(SparkSession.active().read.table(messages))

    @dp.materialized_view(name=f"{prefix}_minutes", comment="messages, bytes and latencies by topic, tag and minute")
    def _minutes() -> DataFrame:
        return traffic_tables.by_minute(SparkSession.active().read.table(counts))

    @dp.materialized_view(name=f"{prefix}_sizes", comment="how many bodies have up to 64, 128, 256... bytes")
    def _sizes() -> DataFrame:
        return traffic_tables.by_size(SparkSession.active().read.table(counts))

    @dp.materialized_view(name=f"{prefix}_queues", comment="how evenly messages lie in their queues")
    def _queues() -> DataFrame:
        return traffic_tables.by_queue(SparkSession.active().read.table(counts))
