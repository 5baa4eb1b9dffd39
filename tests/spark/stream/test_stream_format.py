"""`spark.readStream.format("rocketmq")` on a real session: offsets live in the checkpoint."""

from pathlib import Path

from pyspark.sql import SparkSession

import hanabi
from tests.serving import serving
from tests.spark.broker_world import make_topic, send


def test_available_now_goes_on_where_the_checkpoint_ends(spark: SparkSession, tmp_path: Path) -> None:
    with serving(tmp_path / "broker") as broker:
        topic = make_topic(broker, "Orders")
        frame = (
            spark.readStream.format("rocketmq")
            .options(namesrv=broker.namesrv, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=60)
            .option("groupId", "spark-orders")
            .load()
        )

        def drain() -> int:
            writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
            query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
            query.awaitTermination()
            return len([each for each in query.recentProgress if each["numInputRows"]])

        send(broker, topic, [f"{number:03}" for number in range(100)])
        assert drain() == 2
        send(broker, topic, [f"{number:03}" for number in range(100, 120)])
        assert drain() == 1
        rows = spark.read.parquet(str(tmp_path / "out")).collect()
        assert sorted(row.body.decode() for row in rows) == [f"{number:03}" for number in range(120)]
        with hanabi.PullConsumer("spark-orders", namesrv=broker.namesrv) as consumer:
            assert sum(consumer.committed(queue) or 0 for queue in consumer.queues_of(topic)) == 120
