"""Tests of users' mistakes: reported in one sentence when a query is planned, before any task has run.

Asked as Spark's planner asks: it makes the source, then a reader and its tasks, a stream reader and its first offsets,
or a writer. Spark's own part is in the tests of the formats.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructField, StructType

from hanabi.errors import MQError
from hanabi.spark.broker_source import BrokerSource
from hanabi.spark.sink.check import has_finished_batches
from tests.serving import QUICK, Serving, serving
from tests.spark.broker_world import make_topic, send

Plan = Callable[..., object]
BODY = StructType([StructField("body", BinaryType())])


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Five messages in each of four queues of Orders. New topics are not made by themselves."""
    settings = QUICK | {"autoCreateTopicEnable": "false", "enablePropertyFilter": "true"}
    with serving(tmp_path_factory.mktemp("broker"), settings) as running:
        send(running, make_topic(running, "Orders"), [f"{number}" for number in range(20)])
        yield running


def source(broker: Serving, options: dict[str, Any]) -> BrokerSource:
    given = {"namesrv": broker.namesrv} | options
    return BrokerSource({name.lower(): str(value) for name, value in given.items() if value is not None})


def plan_batch(broker: Serving, **options: Any) -> object:
    made = source(broker, options)
    return made.reader(made.schema()).partitions()


def plan_stream(broker: Serving, **options: Any) -> object:
    made = source(broker, options)
    return made.streamReader(made.schema()).initialOffset()


def plan_sink(broker: Serving, schema: StructType = BODY, **options: Any) -> object:
    return source(broker, {"topic": "Orders"} | options).writer(schema, overwrite=False)


def plan_stream_sink(broker: Serving, schema: StructType = BODY, **options: Any) -> object:
    return source(broker, {"topic": "Orders", "retryTimeoutMs": 0} | options).streamWriter(schema, overwrite=False)


def refused(plan: Plan, broker: Serving, reason: str, **options: Any) -> None:
    with pytest.raises(MQError) as caught:
        plan(broker, **options)
    sentence = str(caught.value)
    assert re.search(reason, sentence), sentence
    assert "\n" not in sentence


ORDERS = {"subscribe": "Orders"}
READING: list[tuple[dict[str, Any], str]] = [
    ({"subscribe": "Order"}, "no broker serves topic Order"),
    ({"subscribe": "Orders", "assign": '{"Orders": [1]}'}, "subscribe and assign exclude each other"),
    ({}, "which topics to read is not said"),
    ({"assign": '{"Orders": [9]}'}, "there is no topic Orders, queue 9"),
    (ORDERS | {"startingOffsets": "{oops"}, "option startingOffsets is not JSON"),
    (ORDERS | {"startingOffsets": '{"Orders": {"broker-a": {"0": "x"}}}'}, "queue 0: 'x' must be a whole number"),
    (
        ORDERS | {"startingOffsets": '{"Orders": {"broker-z": {"0": 1}}}'},
        "there is no topic Orders, queue 0 of broker-z",
    ),
    (ORDERS | {"startingTimestamp": "2999-01-01"}, "has no message of 32472144000000 or later"),
    (ORDERS | {"startingTimestamp": "soon"}, "startingTimestamp='soon': must be milliseconds since 1970"),
    (ORDERS | {"namesrv": "127.0.0.1:1"}, "no name server of 127.0.0.1:1"),
    (ORDERS | {"namesrv": "nonsense"}, "namesrv"),
    (ORDERS | {"accessKey": "somebody"}, "accessKey and secretKey need each other"),
    (ORDERS | {"startingOffset": "earliest"}, "no option 'startingoffset': did you mean 'startingOffsets'"),
    (ORDERS | {"namespace": "shop"}, "write the topic as shop%Orders"),
    (ORDERS | {"sql": "amount >"}, "the SQL92 expression is wrong"),
    (ORDERS | {"sql": "a > 1", "tags": "x"}, "tags and sql exclude each other"),
    (ORDERS | {"tlsKeyPath": "/key.pem"}, "tlsKeyPath is given, but tls=true is not"),
]


@pytest.mark.parametrize("plan", [plan_batch, plan_stream])
@pytest.mark.parametrize(("options", "reason"), READING)
def test_what_cannot_be_read_is_told_when_the_query_is_planned(
    broker: Serving, plan: Plan, options: dict[str, Any], reason: str
) -> None:
    refused(plan, broker, reason, **options)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets must not be latest in a batch"),
        ({"endingOffsets": "earliest"}, "endingOffsets must not be earliest"),
        ({"endingOffsets": '{"Orders": {"broker-a": {"0": 99}}}'}, "messages 5 to 98 are lost: the queue ends at 5"),
        ({"startingOffsets": '{"Orders": {"broker-a": {"0": 77}}}'}, "messages 5 to 76 are lost: the queue ends at 5"),
        ({"startingTimestamp": "9", "endingTimestamp": "5"}, "startingTimestamp=9 lies behind endingTimestamp=5"),
        ({"maxOffsetsPerTrigger": 5}, "rocketmq has no option 'maxoffsetspertrigger'"),
        ({"failOnDataLoss": "perhaps"}, "failOnDataLoss='perhaps': must be true or false"),
    ],
)
def test_what_is_wrong_with_a_batch_alone(broker: Serving, options: dict[str, Any], reason: str) -> None:
    refused(plan_batch, broker, reason, **ORDERS, **options)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"endingOffsets": "latest"}, "a stream of rocketmq has no option 'endingoffsets'"),
        ({"minOffsetsPerTrigger": 9, "maxOffsetsPerTrigger": 3}, "minOffsetsPerTrigger=9 is more than"),
        ({"maxOffsetsPerTrigger": "many"}, "must be a whole number, at least 1"),
    ],
)
def test_what_is_wrong_with_a_stream_alone(broker: Serving, options: dict[str, Any], reason: str) -> None:
    refused(plan_stream, broker, reason, **ORDERS, **options)


def table(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


WRITING: list[tuple[dict[str, Any], str]] = [
    ({"schema": table(tags=StringType())}, "the sink needs one column body"),
    ({"schema": table(body=IntegerType())}, "column 'body' is of type int, must be binary or string"),
    ({"schema": table(body=StringType(), tag=StringType())}, "no column 'tag': did you mean 'tags'"),
    ({"schema": table(body=StringType(), keys=IntegerType())}, "column 'keys' is of type int"),
    ({"topic": None}, "no destination"),
    ({"topic": "not a topic"}, "topic 'not a topic': only letters"),
    ({"topic": "Order"}, "no broker serves topic Order, and none makes topics by itself: create it"),
    ({"namesrv": "127.0.0.1:1"}, "no name server of 127.0.0.1:1"),
    (
        {"topic": None, "namesrv": "127.0.0.1:1", "schema": table(body=StringType(), topic=StringType())},
        "no name server",
    ),
    ({"secretKey": "x"}, "accessKey and secretKey need each other"),
    ({"producergrup": "g"}, "the sink rocketmq has no option 'producergrup': did you mean 'producerGroup'"),
    ({"namespace": "shop"}, "write the topic as shop%Orders"),
    ({"retries": "-1"}, "retries='-1': must be a whole number"),
]


@pytest.mark.parametrize("plan", [plan_sink, plan_stream_sink])
@pytest.mark.parametrize(("options", "reason"), WRITING)
def test_what_cannot_be_written_is_told_when_the_query_is_planned(
    broker: Serving, plan: Plan, options: dict[str, Any], reason: str
) -> None:
    refused(plan, broker, reason, **options)


def test_what_is_right_is_planned(broker: Serving) -> None:
    assert plan_batch(broker, **ORDERS)
    assert plan_stream(broker, **ORDERS)
    assert plan_sink(broker)
    assert plan_stream_sink(broker)
    assert plan_sink(broker, table(value=StringType(), topic=StringType()), topic=None)


def test_a_topic_is_not_overwritten(broker: Serving) -> None:
    with pytest.raises(MQError, match=r'use mode\("append"\)'):
        source(broker, {"topic": "Orders"}).writer(BODY, overwrite=True)


def test_a_stream_waits_for_its_cluster_when_it_has_found_it_before(tmp_path: Any) -> None:
    checkpoint = tmp_path / "checkpoint"
    assert has_finished_batches(str(checkpoint)), "Spark has made it, so it is elsewhere"
    checkpoint.mkdir()
    (checkpoint / "metadata").touch()
    assert not has_finished_batches(str(checkpoint))
    (checkpoint / "commits").mkdir()
    assert not has_finished_batches(checkpoint.as_uri())
    (checkpoint / "commits" / "0").touch()
    assert has_finished_batches(str(checkpoint))
    assert has_finished_batches("hdfs://cluster/checkpoint"), "what cannot be seen is taken for so"
    assert has_finished_batches(None)
