"""`spark.read.format("rocketmq")` on a real session, which finds the format by itself."""

import importlib
import sys
from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from hanabi.spark import register
from tests.serving import Serving, serving
from tests.spark.broker_world import make_topic, read, send


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("broker")) as running:
        send(running, make_topic(running, "Orders"), [f"{number:03}" for number in range(100)], tags="paid")
        yield running


def test_a_topic_is_a_table(spark: SparkSession, broker: Serving) -> None:
    found = read(spark, broker, subscribe="Orders").collect()
    assert sorted(row.body.decode() for row in found) == [f"{number:03}" for number in range(100)]
    row = next(row for row in found if row.body == b"081")
    assert (row.topic, row.brokerName, row.queueId, row.queueOffset) == ("Orders", "broker-a", 1, 20)
    assert (row.tags, row["keys"]) == ("paid", ["081"])
    assert row.storeTimestamp >= row.bornTimestamp


def test_a_schema_prunes_columns_and_an_empty_topic_an_empty_table(spark: SparkSession, broker: Serving) -> None:
    frame = read(spark, broker, "queueId int", subscribe="Orders", minPartitions=5)
    assert {row.queueId: row["count"] for row in frame.groupBy("queueId").count().collect()} == dict.fromkeys(
        range(4), 25
    )
    assert read(spark, broker, subscribe=make_topic(broker, "Empty")).count() == 0


def test_what_is_wrong_is_one_sentence(spark: SparkSession, broker: Serving) -> None:
    for options, reason in (
        ({"subscribe": "NoSuchTopic"}, "no broker serves topic NoSuchTopic"),
        ({"subscribe": "Orders", "startingOffset": "earliest"}, "did you mean 'startingOffsets'"),
    ):
        with pytest.raises(PySparkException) as caught:
            read(spark, broker, **options).collect()
        assert reason in str(caught.value)
        assert "Traceback" not in str(caught.value)


def test_a_table_is_refused_with_what_to_do_and_a_view_can_be_read(spark: SparkSession, broker: Serving) -> None:
    using = f"USING rocketmq OPTIONS (namesrv '{broker.namesrv}', subscribe 'Orders')"
    with pytest.raises(PySparkException, match="CREATE TEMPORARY VIEW name USING rocketmq OPTIONS"):
        spark.sql(f"CREATE TABLE orders {using}")
    spark.sql(f"CREATE TEMPORARY VIEW orders {using}")
    assert spark.sql("SELECT max(CAST(body AS STRING)) FROM orders").collect()[0][0] == "099"


def test_spark_still_hands_no_option_of_a_table_to_a_source_in_python(spark: SparkSession) -> None:
    # When this fails Spark has mended it: then tables can be allowed.
    spark.dataSource.register(ToldOptions)
    spark.sql("CREATE TABLE told USING told_options OPTIONS (given 'yes')")
    try:
        assert [row.told for row in spark.table("told").collect()] == ["{}"]
    finally:
        spark.sql("DROP TABLE told")


class ToldOptions(DataSource):
    """A source of one row, which says what options it was given."""

    @classmethod
    def name(cls) -> str:
        return "told_options"

    def schema(self) -> str:
        return "told string"

    def reader(self, schema: StructType) -> DataSourceReader:
        return ToldReader(str(dict(self.options)))


class ToldReader(DataSourceReader):
    def __init__(self, told: str) -> None:
        self._told = told

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        yield (self._told,)


def test_a_session_can_be_told_of_the_format(spark: SparkSession, broker: Serving) -> None:
    register(spark)
    assert read(spark, broker, "queueId int", subscribe="Orders").count() == 100


def test_the_package_that_spark_imports_never_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pyspark_rocketmq", raising=False)
    assert importlib.import_module("pyspark_rocketmq").DefaultSource.name() == "rocketmq"
    monkeypatch.delitem(sys.modules, "pyspark_rocketmq")
    monkeypatch.setitem(sys.modules, "hanabi.spark.broker_source", None)  # as if it could not be imported
    found = importlib.import_module("pyspark_rocketmq").DefaultSource
    assert found.name() == "rocketmq"
    with pytest.raises(ImportError, match="pip install"):
        found({})
    monkeypatch.delitem(sys.modules, "pyspark_rocketmq")
