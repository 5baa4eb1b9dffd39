"""Tests of what the source reads of a real broker. Most of it without Spark, whose own part takes seconds a query."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

import hanabi
from hanabi.errors import ConfigError, MQError
from hanabi.spark.broker_source import BrokerSource
from tests.serving import QUICK, Serving, serving
from tests.spark.broker_world import bodies, make_topic, remake_topic, rows, send, send_poison, tasks
from tests.spark.decoded import rows_of


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("broker"), QUICK | {"enablePropertyFilter": "true"}) as running:
        yield running


@pytest.fixture(scope="module")
def orders(broker: Serving) -> str:
    """100 messages over 4 queues, the last 20 with a tag."""
    topic = make_topic(broker, "Orders")
    send(broker, topic, [f"{number:03}" for number in range(80)], properties={"amount": "7"})
    send(broker, topic, [f"{number:03}" for number in range(80, 100)], tags="paid", properties={"amount": "900"})
    return topic


def numbers(start: int, end: int, step: int = 1) -> list[str]:
    return [f"{number:03}" for number in range(start, end, step)]


def test_what_the_source_reads_is_what_our_consumer_reads(broker: Serving, orders: str) -> None:
    found = {row["messageId"]: row for row in rows(broker, subscribe=orders)}
    with hanabi.PullConsumer("compare", namesrv=broker.namesrv) as consumer:
        pulled = [m for queue in consumer.queues_of(orders) for m in consumer.pull(queue, 0, count=32).messages]
    assert len(pulled) == len(found) == 100
    for message in pulled:
        row = found[message.message_id]
        assert row["topic"] == message.topic
        assert (row["brokerName"], row["queueId"]) == (message.broker_name, message.queue_id)
        assert (row["queueOffset"], row["commitLogOffset"]) == (message.queue_offset, message.log_offset)
        assert (row["body"], dict(row["properties"])) == (message.body, message.properties)
        assert (row["tags"], tuple(row["keys"])) == (message.tags, message.keys)
        assert (row["bornHost"], row["storeHost"]) == (str(message.born_host), str(message.store_host))


def test_offsets_say_where_to_begin_and_to_end(broker: Serving, orders: str) -> None:
    starting = json.dumps({orders: {"broker-a": {"0": 20, "1": -1, "2": -2}}})
    ending = json.dumps({orders: {"broker-a": {"2": 1, "3": 0}}})
    found = bodies(broker, subscribe=orders, startingOffsets=starting, endingOffsets=ending)
    assert found == sorted([*numbers(80, 100, 4), "002"])


def test_assigned_queues_are_the_only_ones(broker: Serving, orders: str) -> None:
    assert bodies(broker, assign=json.dumps({orders: [1]})) == numbers(1, 100, 4)
    assert bodies(broker, assign=json.dumps({orders: {"broker-a": [3]}})) == numbers(3, 100, 4)


def test_tags_and_sql_are_filters_of_the_broker(broker: Serving, orders: str) -> None:
    assert bodies(broker, subscribe=orders, tags="paid || nothing") == numbers(80, 100)
    assert bodies(broker, subscribe=orders, sql="amount > 100") == numbers(80, 100)


def test_times_say_where_to_begin_and_to_end(broker: Serving) -> None:
    topic = make_topic(broker, "Times", 2)
    send(broker, topic, numbers(0, 40))
    time.sleep(0.01)
    middle = time.time_ns() // 1_000_000
    time.sleep(0.01)
    send(broker, topic, numbers(40, 80))
    assert bodies(broker, subscribe=topic, startingTimestamp=middle) == numbers(40, 80)
    assert bodies(broker, subscribe=topic, endingTimestamp=middle) == numbers(0, 40)
    by_queue = json.dumps({topic: {"broker-a": {"0": middle}}})
    found = bodies(broker, subscribe=topic, startingOffsetsByTimestamp=by_queue)
    assert found == sorted([*numbers(40, 80)[::2], *numbers(0, 80)[1::2]])
    later: dict[str, Any] = {"subscribe": topic, "startingTimestamp": middle + 3_600_000}
    with pytest.raises(MQError, match="has no message of"):
        bodies(broker, **later)
    assert bodies(broker, **later, startingOffsetsByTimestampStrategy="latest") == []


def test_an_empty_queue_has_no_time_and_the_strategy_says_what_then(broker: Serving) -> None:
    # As Kafka's connector has it, which ends the query too unless the strategy is `latest`.
    topic = make_topic(broker, "Half", 2)
    with hanabi.Producer("tests", namesrv=broker.namesrv) as producer:
        producer.send(hanabi.Message(topic, b"one"), queue=producer.queues(topic)[0])
    since: dict[str, Any] = {"subscribe": topic, "startingTimestamp": 0}
    with pytest.raises(ConfigError) as caught:
        bodies(broker, **since)
    assert str(caught.value) == (
        "option startingTimestamp: topic Half, queue 1 of broker-a has no message of 0 or later; "
        "startingOffsetsByTimestampStrategy=latest begins at its end instead"
    )
    assert bodies(broker, **since, startingOffsetsByTimestampStrategy="latest") == ["one"]
    assert bodies(broker, subscribe=topic, endingTimestamp=1) == []

    options = {"namesrv": broker.namesrv, "subscribe": topic, "startingtimestamp": "0"}
    stream = BrokerSource(options)
    with pytest.raises(ConfigError, match=r"queue 1 of broker-a has no message of 0 or later"):
        stream.streamReader(stream.schema()).initialOffset()
    told = BrokerSource(options | {"startingoffsetsbytimestampstrategy": "latest"})
    assert told.streamReader(told.schema()).initialOffset() == {topic: {"broker-a": {"0": 0, "1": 0}}}


def test_tasks_are_as_many_and_as_short_as_asked_for(broker: Serving, orders: str) -> None:
    assert [len(task) for task in tasks(broker, subscribe=orders)] == [25] * 4
    assert len(tasks(broker, subscribe=orders, minPartitions=7)) == 7
    assert bodies(broker, subscribe=orders, minPartitions=7) == numbers(0, 100)
    assert max(len(task) for task in tasks(broker, subscribe=orders, maxRecordsPerPartition=10)) <= 10
    assert bodies(broker, subscribe=orders, maxRecordsPerPartition=10) == numbers(0, 100)


def test_more_messages_than_one_batch_come_in_their_order(broker: Serving) -> None:
    topic = make_topic(broker, "Many", 1)
    with hanabi.Producer("tests", namesrv=broker.namesrv) as producer:
        sent = [hanabi.Message(topic, b"%05d" % number, tags=["even", "odd"][number % 2]) for number in range(3_000)]
        producer.send_batch(sent, queue=producer.queues(topic)[0])
    found = rows(broker, "queueOffset body", subscribe=topic, maxRowsPerBatch=200)
    assert [(row["queueOffset"], int(row["body"])) for row in found] == [(n, n) for n in range(3_000)]
    odd = rows(broker, "queueOffset", subscribe=topic, tags="odd", maxRecordsPerPartition=700)
    assert [row["queueOffset"] for row in odd] == list(range(1, 3_000, 2))


def test_compressed_bodies_are_unpacked(broker: Serving) -> None:
    topic = make_topic(broker, "Large", 1)
    send(broker, topic, ["long" * 5_000, "short"])
    assert bodies(broker, subscribe=topic) == ["long" * 5_000, "short"]


def test_an_empty_topic_has_nothing_to_read(broker: Serving) -> None:
    assert tasks(broker, subscribe=make_topic(broker, "Empty")) == []


def test_a_pattern_finds_topics(broker: Serving) -> None:
    for topic in ("North-1", "North-2", "South-1"):
        send(broker, make_topic(broker, topic, 1), [topic])
    assert bodies(broker, subscribePattern="North-.*") == ["North-1", "North-2"]
    assert "South-1" in bodies(broker, subscribePattern=".*")


def test_pushdown_is_refused_with_what_to_use_instead(broker: Serving, orders: str) -> None:
    with pytest.raises(ConfigError, match=r"no option 'pushdown': Spark 4\.3 uses the filters .* such as subscribe"):
        bodies(broker, subscribe=orders, pushdown=True)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"subscribe": "NoSuchTopic"}, "no broker serves topic NoSuchTopic"),
        ({"assign": '{"Orders": [9]}'}, "there is no topic Orders, queue 9"),
        ({"subscribe": "Orders", "startingOffsets": '{"Other": {"broker-a": {"0": 3}}}'}, "there is no topic Other"),
        ({"subscribe": "Orders", "endingOffsets": '{"Orders": {"broker-a": {"0": 999}}}'}, "the queue ends at 25"),
        ({"subscribe": "Orders", "namesrv": "127.0.0.1:1"}, "no name server of 127.0.0.1:1"),
        ({"subscribe": "Orders", "sql": "amount >"}, "the SQL92 expression is wrong"),
    ],
)
def test_what_the_cluster_cannot_give_is_told(
    broker: Serving, orders: str, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(MQError, match=reason):
        rows(broker, **options)


def test_offsets_that_are_gone_are_left_out_where_that_is_allowed(broker: Serving, orders: str) -> None:
    ending = json.dumps({orders: {"broker-a": {"0": 999}}})
    found = bodies(broker, subscribe=orders, endingOffsets=ending, failOnDataLoss=False)
    assert found == numbers(0, 100)


def test_a_body_that_does_not_unpack_is_an_error_left_out_or_given_as_it_is_stored(
    broker: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic(broker, "spoilt", 1)
    send(broker, topic, numbers(0, 5))
    send_poison(broker, topic)
    send(broker, topic, numbers(5, 10))
    with pytest.raises(MQError, match=r"queue 0 of broker-a: the body of message 5 is damaged \(option onDamage"):
        rows(broker, subscribe=topic)
    assert bodies(broker, subscribe=topic, onDamage="skip") == numbers(0, 10)
    assert "1 damaged bodies between 0 and 11 are left out; the first is that of message 5" in caplog.text
    found = rows(broker, "queueOffset body damage", subscribe=topic, onDamage="raw")
    assert [row["queueOffset"] for row in found] == list(range(11))
    assert [(row["body"], row["damage"]) for row in found if row["damage"]] == [
        (b"not zlib", "the body does not unpack")
    ]
    assert len(rows(broker, "queueOffset", subscribe=topic)) == 11, "where nobody asks for bodies, none is damaged"
    with pytest.raises(ConfigError, match="there is no column 'damage'"):
        rows(broker, "damage", subscribe=topic)
    source = BrokerSource({"namesrv": broker.namesrv, "subscribe": topic, "ondamage": "raw"})
    assert source.schema()["damage"].nullable


@pytest.mark.parametrize("options", [{}, {"maxRecordsPerPartition": 3}, {"tags": "new"}, {"endingOffsets": "half"}])
def test_a_topic_that_is_made_again_while_a_batch_reads_it_is_told_though_nothing_is_missing(
    broker: Serving, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic(broker, f"Remade{len(options)}{''.join(options)}", 1)
    send(broker, topic, numbers(0, 10), tags="new")
    if "endingOffsets" in options:
        options = {"endingOffsets": json.dumps({topic: {"broker-a": {"0": 5}}})}
    given = {"namesrv": broker.namesrv, "subscribe": topic} | options
    source = BrokerSource({name.lower(): str(value) for name, value in given.items()})
    reader = source.reader(source.schema())
    planned = reader.partitions()
    remake_topic(broker, topic, 1)
    send(broker, topic, numbers(100, 115), tags="new")
    for task in planned:
        with pytest.raises(MQError, match=r"another message stands at \d than .* topic was re-created"):
            list(reader.read(task))
    lenient = BrokerSource({name.lower(): str(value) for name, value in (given | {"failOnDataLoss": False}).items()})
    going_on = lenient.reader(source.schema())
    found = [row["body"].decode() for task in planned for batch in going_on.read(task) for row in rows_of(batch)]
    assert found == numbers(100, 105 if "endingOffsets" in options else 110)
    assert "its topic was re-created" in caplog.text
