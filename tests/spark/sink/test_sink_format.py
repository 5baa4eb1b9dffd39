"""`df.write.format("rocketmq")` and `df.writeStream.format("rocketmq")` on a real session."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hanabi.errors import ConfigError
from hanabi.spark import deduplicated
from hanabi.spark.sink.row_ids import ROW_ID_PROPERTY
from tests.serving import serving
from tests.spark.broker_world import make_topic, read, rows, send


def test_rows_are_sent_by_a_batch_and_by_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    with serving(tmp_path / "broker") as broker:
        source, copies = make_topic(broker, "Source"), make_topic(broker, "Copies")
        frame = spark.range(50).selectExpr("cast(id as string) as body", "'made' as tags", "id as orderingKey")
        frame.write.format("rocketmq").mode("append").options(namesrv=broker.namesrv, topic=source).save()
        sent = rows(broker, "body tags", subscribe=source)
        assert sorted(int(row["body"]) for row in sent) == list(range(50))
        assert {row["tags"] for row in sent} == {"made"}

        send(broker, copies, ["0", "hand"])
        stream = spark.readStream.format("rocketmq").options(
            namesrv=broker.namesrv, subscribe=source, startingOffsets="earliest"
        )
        query = (
            stream.load()
            .selectExpr("body", "tags")
            .writeStream.format("rocketmq")
            .options(namesrv=broker.namesrv, topic=copies, checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        stamps = [row["properties"].get(ROW_ID_PROPERTY) for row in rows(broker, "properties", subscribe=copies)]
        assert len(stamps) == 52
        assert len({stamp for stamp in stamps if stamp}) == 50
        assert all(stamp.startswith(f"{query.id}/0/") for stamp in stamps if stamp)

        for stamp in sorted(stamp for stamp in stamps if stamp)[:10]:
            send(broker, copies, ["again"], properties={ROW_ID_PROPERTY: stamp})  # as a batch that is replayed does
        arrived = read(spark, broker, subscribe=copies)
        assert (arrived.count(), deduplicated(arrived).count()) == (62, 52)
        stream = spark.readStream.format("rocketmq").options(
            namesrv=broker.namesrv, subscribe=copies, startingOffsets="earliest"
        )
        once = deduplicated(stream.load(), within="1 hour").writeStream.format("parquet")
        once = once.option("checkpointLocation", str(tmp_path / "once")).trigger(availableNow=True)
        once.start(str(tmp_path / "files")).awaitTermination()
        assert spark.read.parquet(str(tmp_path / "files")).count() == 52
        with pytest.raises(ConfigError, match="within='1 hour'"):
            deduplicated(stream.load())
        with pytest.raises(ConfigError, match="needs the column properties"):
            deduplicated(arrived.select("body"))

        with pytest.raises(PySparkException) as caught:
            frame.selectExpr("body as text").write.format("rocketmq").mode("append").options(
                namesrv=broker.namesrv, topic=source
            ).save()
        assert "the sink has no column 'text'" in str(caught.value)
        assert "Traceback" not in str(caught.value)
