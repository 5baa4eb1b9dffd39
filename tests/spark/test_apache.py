"""The source, the stream, the sink and the pipelines against Apache's own brokers, of the 4.9 and of the 5.3 line.

One file, because the brokers take seconds to start.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, StructField, StructType

import hanabi
from hanabi.errors import MQError
from hanabi.spark import deduplicated
from hanabi.spark.broker_source import BrokerSource
from hanabi.wire.system_names import DEAD_LETTER_PREFIX
from tests.interop.apache import ApacheBroker
from tests.interop.jars import SERVERS_4, JavaUnavailable, classpath, required
from tests.spark.apaches import LINES, Apache, apache_brokers
from tests.spark.broker_world import WAIT_S, bodies, make_topic, read, rows, send, wait_for_messages
from tests.spark.pipelines.running import run_pipeline
from tests.spark.pipelines.tables import only, rows_of

pytestmark = pytest.mark.interop

EACH = 60
LETTERS = 5


@pytest.fixture(scope="module")
def apaches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Apache]]:
    """Yield a broker of each line, in one cluster."""
    try:
        for jar_set in LINES.values():
            classpath(jar_set)
    except JavaUnavailable as error:
        if required():
            pytest.fail(f"CI must run the interop tests, but {error}", pytrace=False)
        pytest.skip(f"no Apache RocketMQ here: {error}")
    with apache_brokers(tmp_path_factory.mktemp("apache")) as brokers:
        yield brokers


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
    """Yield a broker of 4.9 that checks who asks; it knows the topic Guarded and makes no other."""
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


def test_progress_is_told_by_a_stream_that_starts_again_before_it_pulls(apache: Apache) -> None:
    """5.x refuses the progress of a group that it does not know, and it knows one from its first pull on."""
    topic = apache.topic("Unpulled", 2)
    send(apache, topic, texts(0, 10))
    options = {"namesrv": apache.namesrv, "subscribe": topic, "groupid": "spark-unpulled"}
    source = BrokerSource(options)
    done = {topic: {f"broker-{apache.line}": {"0": 4, "1": 5}}}
    source.streamReader(source.schema()).latestOffset(done, ReadAllAvailable())
    with hanabi.PullConsumer("spark-unpulled", namesrv=apache.namesrv) as consumer:
        assert [consumer.committed(queue) for queue in consumer.queues_of(topic)] == [4, 5]


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
    wait_for_messages(apache, copies, 400)
    arrived = read(spark, apache, subscribe=copies)
    found = deduplicated(arrived).select("body", "tags", "keys").collect()
    assert sorted(row.body.decode() for row in found) == texts(0, 400)
    assert {(row.tags, row["keys"][0] == row.body.decode()) for row in found} == {("x", True)}
    with hanabi.PullConsumer("spark-stream", namesrv=apache.namesrv) as consumer:
        assert sum(consumer.committed(queue) or 0 for queue in consumer.queues_of(topic)) == 400


def plan(guarded: Apache, kind: str, **options: str) -> object:
    """Ask as Spark's planner does."""
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


def letters_of(serving: Apache, *topics: str) -> Counter[tuple[object, ...]]:
    """Return what producers said: key, body, tags and their own property of each message."""
    return Counter(
        (*row["keys"], row["body"], row["tags"], dict(row["properties"])["region"])
        for row in rows(serving, "keys body tags properties", subscribe=",".join(topics))
    )


def test_what_is_archived_and_replayed_is_what_was_sent(
    spark: SparkSession, apaches: dict[str, Apache], tmp_path: Path
) -> None:
    cluster = apaches["4"]
    topics = [apache.topic("Archived", 2) for apache in apaches.values()]
    for at, topic in enumerate(topics):
        send(cluster, topic, texts(1_000 * at, 1_000 * at + EACH), tags="paid", properties={"region": "eu"})
    told: dict[str, Any] = {"namesrv": cluster.namesrv, "topics": topics, "to": str(tmp_path / "archive")}
    first = run_pipeline(spark, "archive", **told, batch_messages=50, group="archive")
    assert (first.facts["messages_archived"], first.facts["messages_lost"]) == (2 * EACH, 0)
    for at, topic in enumerate(topics):
        send(cluster, topic, texts(1_000 * at + EACH, 1_000 * at + EACH + 10), tags="open", properties={"region": "us"})
    second = run_pipeline(spark, "archive", **told, group="archive")
    assert (second.facts["messages_archived"], second.facts["messages_in_archive"]) == (20, 2 * EACH + 20)
    assert [only(row, "topic", "broker", "archived to", "behind") for row in rows_of(second, "Archived")] == [
        (topic, f"broker-{line}", (EACH + 10) // 2, 0)
        for topic, line in zip(topics, LINES, strict=True)
        for _queue in range(2)
    ]
    with hanabi.PullConsumer("archive", namesrv=cluster.namesrv) as consumer:
        committed = [consumer.committed(queue) or 0 for topic in topics for queue in consumer.queues_of(topic)]
    assert sum(committed) == 2 * EACH + 20

    copies = apaches["5"].topic("Replayed")
    again = run_pipeline(spark, "replay", namesrv=cluster.namesrv, archive=str(tmp_path / "archive"), to=copies)
    assert (again.facts["messages_sent"], again.complaint) == (2 * EACH + 20, None)
    wait_for_messages(cluster, copies, 2 * EACH + 20)
    assert letters_of(cluster, copies) == letters_of(cluster, *topics)
    live = run_pipeline(spark, "replay", namesrv=cluster.namesrv, topics=[topics[1]], to=topics[0], tags=["open"])
    assert live.facts["messages_sent"] == 10
    assert rows_of(live, "Sent") == [{"topic": topics[0], "messages": 10, "bytes": 40}]


def kill_letters(apache: Apache, topic: str, group: str) -> None:
    """Let a group fail on messages for good."""
    send(apache, topic, texts(0, LETTERS), tags="a")
    # 5.3 makes it too, but at the same time as the group's retry topic, and then the name server may never know of it.
    make_topic(apache, DEAD_LETTER_PREFIX + group, 1)
    with hanabi.PullConsumer(group, namesrv=apache.namesrv, max_reconsume_times=0) as consumer:
        for queue in consumer.queues_of(topic):
            for message in consumer.pull(queue, 0).messages:
                consumer.send_back(message)
    wait_for_messages(apache, DEAD_LETTER_PREFIX + group, LETTERS)


@pytest.mark.parametrize("line", LINES)
def test_dead_letters_are_counted_and_sent_again(spark: SparkSession, apaches: dict[str, Apache], line: str) -> None:
    apache = apaches[line]
    topic, group = apache.topic("Mortal", 2), f"mortal-{line}"
    kill_letters(apache, topic, group)
    found = run_pipeline(spark, "dead-letters", namesrv=apache.namesrv, groups=[group], resend=True)
    assert (found.facts["dead_letters"], found.facts["messages_sent"], found.complaint) == (LETTERS, LETTERS, None)
    assert [only(row, "group", "origin topic", "messages") for row in rows_of(found, "Dead letters")] == [
        (group, topic, LETTERS)
    ]
    assert [only(row, "group", "tag", "messages") for row in rows_of(found, "By tag")] == [(group, "a", LETTERS)]
    wait_for_messages(apache, topic, 2 * LETTERS)
    assert read(spark, apache, "topic string", subscribe=topic).count() == 2 * LETTERS


def test_traffic_is_measured_and_told_to_a_topic(spark: SparkSession, apaches: dict[str, Apache]) -> None:
    cluster = apaches["4"]
    topics = [apache.topic("Measured", 2) for apache in apaches.values()]
    reports = apaches["5"].topic("Reports", 1)
    for topic in topics:
        send(cluster, topic, ["small"] * 6, tags="paid")
    with hanabi.PullConsumer("billing", namesrv=cluster.namesrv) as billing:
        for queue in (queue for topic in topics for queue in billing.queues_of(topic)):
            assert billing.pull(queue, 0, count=1).messages  # 5.3 knows a group from then on, and no offset before
            billing.commit({queue: 1})
    outcome = run_pipeline(spark, "traffic", namesrv=cluster.namesrv, topics=topics, output_topic=reports)
    assert (outcome.facts["messages"], outcome.facts["topics"]) == (12, 2)
    assert [only(row, "topic", "queues", "fewest", "most") for row in rows_of(outcome, "how")] == [
        (topic, 2, 3, 3) for topic in topics
    ]
    assert [row for row in rows_of(outcome, "what groups") if row["group"] == "billing"] == [
        {"group": "billing", "topic": topic, "queues": 2, "queues_behind": 2, "lag": 4} for topic in topics
    ]
    kinds = {"minutes", "sizes", "queues", "lag"}
    wait_for_messages(cluster, reports, len(kinds))
    deadline = time.monotonic() + WAIT_S
    while (said := {row["tags"] for row in rows(cluster, "tags", subscribe=reports)}) < kinds:
        assert time.monotonic() < deadline, said
    assert said == kinds


def test_traces_in_its_trace_topic_are_measured(spark: SparkSession, apaches: dict[str, Apache]) -> None:
    cluster = apaches["4"]
    topics = [apache.topic("Traced", 1) for apache in apaches.values()]
    with hanabi.Producer("traced-shop", namesrv=cluster.namesrv, trace=True) as producer:
        for topic in topics:
            for number in range(10):
                producer.send(hanabi.Message(topic, b"%d" % number))
    consumer = hanabi.LitePullConsumer("traced-billing", namesrv=cluster.namesrv, consume_from="first", trace=True)
    for topic in topics:
        consumer.subscribe(topic)
    with consumer:
        seen, deadline = 0, time.monotonic() + WAIT_S
        while seen < 20:
            seen += len(consumer.poll(5))
            assert time.monotonic() < deadline, f"{seen} of 20 messages came"
    outcome = run_pipeline(spark, "trace", namesrv=cluster.namesrv)
    assert [
        only(row, "topic", "sends", "failed", "success_rate")
        for row in sorted(rows_of(outcome, "sends"), key=lambda row: str(row["topic"]))
        if row["group"] == "traced-shop"
    ] == [(topic, 10, 0, 1.0) for topic in topics]
    (billing,) = (row for row in rows_of(outcome, "consumers") if row["group"] == "traced-billing")
    assert only(billing, "consumed", "failed", "never_ended") == (20, 0, 0)
    assert outcome.facts["unreadable_lines"] == 0


def test_orders_are_taken_once_added_up_and_sent(spark: SparkSession, apache: Apache, tmp_path: Path) -> None:
    orders, totals = apache.topic("Orders", 2), apache.topic("Totals", 1)
    paid = [
        ("O-1", "tea", 2, "10:05"),
        ("O-2", "bread", 3, "10:20"),
        ("O-1", "tea", 2, "10:06"),
        ("O-3", "tea", 1, "12:30"),
    ]
    with hanabi.Producer("shop", namesrv=apache.namesrv) as producer:
        for order, product, quantity, at in paid:  # the last one closes the first hour
            fields = {"order": order, "customer": "C-1", "product": product, "quantity": quantity, "price": 1.25}
            body = json.dumps(fields | {"at": f"2024-05-01T{at}:00Z"}).encode()
            producer.send(hanabi.Message(orders, body))
    told: dict[str, Any] = {"namesrv": apache.namesrv, "topic": orders, "output_topic": totals}
    told |= {"output": str(tmp_path / "out"), "group": f"orders-{apache.line}"}
    outcome = run_pipeline(spark, "orders", **told)
    assert [only(row, "from", "product", "orders", "amount", "state") for row in rows_of(outcome, "totals")] == [
        ("2024-05-01T12:00:00Z", "tea", 1, "1.25", "open"),
        ("2024-05-01T10:00:00Z", "bread", 1, "3.75", "sent"),
        ("2024-05-01T10:00:00Z", "tea", 1, "2.50", "sent"),
    ]
    assert only(outcome.facts, "messages_read", "duplicates_left_out", "totals_sent") == (4, 1, 2)
    wait_for_messages(apache, totals, 2)
    assert sorted(row["keys"][0] for row in rows(apache, "keys", subscribe=totals)) == [
        "bread@2024-05-01T10:00:00",
        "tea@2024-05-01T10:00:00",
    ]
    again = run_pipeline(spark, "orders", **told)
    assert only(again.facts, "messages_read", "totals_sent") == (0, 0)
