"""RocketMQ in Spark: sources, sink and pipelines. Needs the extra `spark`.

    df = spark.read.format("rocketmq-store").load("/var/lib/rocketmq/store")

Most sessions discover the formats automatically; call `register(spark)` in sessions that do not. `deduplicated(df)`
drops the repeats of messages that the sink sent more than once.
"""

from hanabi.spark.registration import register
from hanabi.spark.sink.deduplication import deduplicated

__all__ = ["deduplicated", "register"]
