"""The source, the stream and the sink against Apache's own brokers, of the 4.9 and of the 5.3 line."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

import hanabi
from hanabi.errors import MQError
from hanabi.spark import deduplicated
from hanabi.spark.broker_source import BrokerSource
from tests.interop.apache import ApacheBroker, ApacheNameServer
from tests.interop.jars import ALL_5, SERVERS_4, JavaUnavailable, classpath, required
from tests.spark.broker_world import bodies, make_topic, read, rows, send

pytestmark = pytest.mark.interop

LINES = {"4": SERVERS_4, "5": ALL_5}


@dataclass(frozen=True)
class Apache:
    """A broker of Apache's, and who knows it. A topic is on one broker, so its name has the broker's line in it."""

    line: str
    namesrv: str
    broker: str
    store: Path

    def topic(self, name: str, queues: int = 4) -> str:
        return make_topic(self, f"{name}-{self.line}", queues)


@pytest.fixture(scope="module")
def apaches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Apache]]:
    """A broker of each line, in one cluster."""
    try:
        for jar_set in LINES.values():
            classpath(jar_set)
    except JavaUnavailable as error:
        if required():
            pytest.fail(f"CI must run the interop tests, but {error}", pytrace=False)
        pytest.skip(f"no Apache RocketMQ here: {error}")
    home = tmp_path_factory.mktemp("apache")
    with ExitStack() as stack:
        server = ApacheNameServer(home / "namesrv")
        stack.callback(server.process.kill)
        server.wait_ready()
        brokers = {}
        for line, jar_set in LINES.items():
            name = f"broker-{line}"
            brokers[line] = ApacheBroker(home / name, jar_set, name=name, cluster="spark", namesrv=server.address)
            stack.callback(brokers[line].process.kill)
        for broker in brokers.values():
            broker.wait_ready()
        yield {
            line: Apache(line, server.address, broker.address, broker.home / "store")
            for line, broker in brokers.items()
        }


@pytest.fixture(params=LINES)
def apache(apaches: dict[str, Apache], request: pytest.FixtureRequest) -> Apache:
    return apaches[request.param]


ACL = """
accounts:
- accessKey: rocketmq2
  secretKey: 12345678
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms:
  - Guarded=PUB|SUB
  groupPerms:
  - readers=SUB
"""
RIGHT = {"accessKey": "rocketmq2", "secretKey": "12345678"}


@pytest.fixture(scope="module")
def guarded(apaches: dict[str, Apache], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apache]:
    """A broker of 4.9 that checks who asks; it knows the topic Guarded and makes no other."""
    home = tmp_path_factory.mktemp("guarded")
    (home / "conf").mkdir()
    (home / "conf" / "plain_acl.yml").write_text(ACL)
    (home / "store" / "config").mkdir(parents=True)
    topic = {
        "topicName": "Guarded",
        "readQueueNums": 1,
        "writeQueueNums": 1,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
    }
    (home / "store" / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": {"Guarded": topic}}))
    known = apaches["4"].namesrv
    broker = ApacheBroker(
        home,
        SERVERS_4,
        name="guarded",
        cluster="spark",
        namesrv=known,
        settings={"aclEnable": "true", "autoCreateTopicEnable": "false"},
    )
    try:
        broker.wait_ready()
        yield Apache("guarded", known, broker.address, home / "store")
    finally:
        broker.process.kill()


def texts(start: int, end: int) -> list[str]:
    return [f"{number:04}" for number in range(start, end)]


def test_a_batch_has_what_a_consumer_has_and_filters_are_the_brokers(apache: Apache) -> None:
    topic = apache.topic("Table")
    send(apache, topic, texts(0, 80))
    send(apache, topic, texts(80, 100), tags="paid")
    found = {row["messageId"]: row for row in rows(apache, subscribe=topic, minPartitions=6)}
    with hanabi.PullConsumer("compare", namesrv=apache.namesrv) as consumer:
        pulled = [m for queue in consumer.queues_of(topic) for m in consumer.pull(queue, 0, count=32).messages]
    assert len(pulled) == len(found) == 100
    for message in pulled:
        row = found[message.message_id]
        assert (row["brokerName"], row["queueId"], row["queueOffset"]) == (
            message.broker_name,
            message.queue_id,
            message.queue_offset,
        )
        assert (row["body"], dict(row["properties"]), row["commitLogOffset"]) == (
            message.body,
            message.properties,
            message.log_offset,
        )
    assert bodies(apache, subscribe=topic, tags="paid") == texts(80, 100)
    middle = min(row["storeTimestamp"] for row in found.values() if row["tags"] == "paid") // 1_000
    assert set(texts(80, 100)) <= set(bodies(apache, subscribe=topic, startingTimestamp=middle))


def test_a_stream_into_a_topic_goes_on_at_its_checkpoint(spark: SparkSession, apache: Apache, tmp_path: Path) -> None:
    topic, copies = apache.topic("Stream"), apache.topic("Copies")
    frame = (
        spark.readStream.format("rocketmq")
        .options(namesrv=apache.namesrv, subscribe=topic, startingOffsets="earliest")
        .options(maxOffsetsPerTrigger=200, groupId="spark-stream")
        .load()
    )

    def drain() -> None:
        query = (
            frame.selectExpr("body", "tags", "keys")
            .writeStream.format("rocketmq")
            .options(namesrv=apache.namesrv, topic=copies, checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    send(apache, topic, texts(0, 300), tags="x")
    drain()
    apache.topic("Stream", 8)
    send(apache, topic, texts(300, 400), tags="x")
    drain()
    arrived = read(spark, apache, subscribe=copies)
    found = deduplicated(arrived).select("body", "tags", "keys").collect()
    assert sorted(row.body.decode() for row in found) == texts(0, 400)
    assert {(row.tags, row["keys"][0] == row.body.decode()) for row in found} == {("x", True)}
    with hanabi.PullConsumer("spark-stream", namesrv=apache.namesrv) as consumer:
        assert sum(consumer.committed(queue) or 0 for queue in consumer.queues_of(topic)) == 400


def plan(guarded: Apache, kind: str, **options: str) -> object:
    """As Spark's planner asks."""
    source = BrokerSource({"namesrv": guarded.namesrv} | {name.lower(): value for name, value in options.items()})
    if kind == "sink":
        return source.writer(StructType([StructField("body", BinaryType())]), overwrite=False)
    if kind == "stream":
        return source.streamReader(source.schema()).initialOffset()
    return source.reader(source.schema()).partitions()


def test_who_must_not_is_told_when_the_query_is_planned(guarded: Apache) -> None:
    reading, writing = {"subscribe": "Guarded", "groupId": "readers"}, {"topic": "Guarded"}
    wrong = RIGHT | {"secretKey": "87654321"}
    for kind, options in (("batch", reading), ("stream", reading), ("sink", writing)):
        assert plan(guarded, kind, **options, **RIGHT) is not None
        for credentials in (wrong, {"accessKey": "stranger1", "secretKey": "12345678"}, {}):
            with pytest.raises(MQError) as caught:
                plan(guarded, kind, **options, **credentials)
            assert "\n" not in str(caught.value)
            assert re.search("signature|access|[Aa]ccount", str(caught.value)), str(caught.value)
    with pytest.raises(MQError, match="others"):
        plan(guarded, "stream", **reading | {"groupId": "others"}, **RIGHT)


def test_its_files_are_a_stream_too(spark: SparkSession, apaches: dict[str, Apache], tmp_path: Path) -> None:
    apache = apaches["4"]
    topic = apache.topic("Files")
    send(apache, topic, texts(0, 100))
    query = (
        spark.readStream.format("rocketmq-store")
        .options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=70)
        .load(str(apache.store))
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination()
    found = spark.read.parquet(str(tmp_path / "out")).select("body").collect()
    assert sorted(row.body.decode() for row in found) == texts(0, 100)
