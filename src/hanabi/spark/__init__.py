"""RocketMQ in Spark: sources, sink and pipelines. Needs the extra `spark`.

    df = spark.read.format("rocketmq-store").load("/var/lib/rocketmq/store")

The formats are found by themselves in most sessions; `register(spark)` is for the others. `deduplicated(df)` keeps one
of each message that the sink sent more than once.
"""

from hanabi.spark.registration import register
from hanabi.spark.sink.deduplication import deduplicated

__all__ = ["deduplicated", "register"]
