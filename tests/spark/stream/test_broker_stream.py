"""The stream reader, asked as Spark asks it, on a real broker; and the decisions behind it."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

import hanabi
from hanabi.errors import MQError
from hanabi.message import MessageQueue
from hanabi.spark.broker_source import BrokerSource
from hanabi.spark.stream.broker_stream import BrokerStreamReader
from hanabi.spark.stream.trigger_size import capped, next_offsets
from tests.serving import Serving, serving
from tests.spark.broker_world import bodies, make_topic, remake_topic, send, send_poison
from tests.spark.decoded import rows_of

ALL = ReadAllAvailable()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("broker")) as running:
        yield running


def reader(broker: Serving, topic: str, **options: Any) -> BrokerStreamReader:
    given = {"namesrv": broker.namesrv, "subscribe": topic, "offsetPollMs": 0, "discoveryMs": 0} | options
    source = BrokerSource({name.lower(): str(value) for name, value in given.items()})
    return source.streamReader(source.schema())


def batch(stream: BrokerStreamReader, start: Any, end: Any) -> list[str]:
    rows = [row for task in stream.partitions(start, end) for each in stream.read(task) for row in rows_of(each)]
    return sorted(row["body"].decode() for row in rows)


def texts(start: int, end: int) -> list[str]:
    return [f"{number:03}" for number in range(start, end)]


def test_a_stream_begins_at_the_end_and_reads_what_comes(broker: Serving) -> None:
    topic = make_topic(broker, "Comes")
    send(broker, topic, texts(0, 10))
    stream = reader(broker, topic)
    start = stream.initialOffset()
    assert stream.latestOffset(start, ALL) == start
    send(broker, topic, texts(10, 30))
    end = stream.latestOffset(start, ALL)
    assert batch(stream, start, end) == texts(10, 30)
    assert batch(stream, start, end) == texts(10, 30), "a replay gives the same rows"
    assert batch(reader(broker, topic), start, end) == texts(10, 30), "also after a restart"
    assert stream.latestOffset(end, ALL) == end


def test_a_limit_holds_and_the_stream_drains(broker: Serving) -> None:
    topic = make_topic(broker, "Limited")
    send(broker, topic, texts(0, 50))
    stream = reader(broker, topic, startingOffsets="earliest", maxOffsetsPerTrigger=7)
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMaxRows(7)
    found, offsets = [], stream.initialOffset()
    while (end := stream.latestOffset(offsets, limit)) != offsets:
        rows = batch(stream, offsets, end)
        assert len(rows) <= 7
        found += rows
        offsets = end
    assert sorted(found) == texts(0, 50)


def test_available_now_drains_what_was_there_and_no_more(broker: Serving) -> None:
    topic = make_topic(broker, "Now")
    send(broker, topic, texts(0, 20))
    stream = reader(broker, topic, startingOffsets="earliest")
    stream.prepareForTriggerAvailableNow()
    start = stream.initialOffset()
    send(broker, topic, texts(20, 40))
    end = stream.latestOffset(start, ALL)
    assert batch(stream, start, end) == texts(0, 20)
    assert stream.latestOffset(end, ALL) == end


def test_a_topic_that_grows_loses_nothing(broker: Serving) -> None:
    topic = make_topic(broker, "Grows", 4)
    stream = reader(broker, topic)
    start = stream.initialOffset()
    make_topic(broker, topic, 8)
    send(broker, topic, texts(0, 40))
    end = stream.latestOffset(start, ReadMaxRows(1_000))
    assert batch(stream, start, end) == texts(0, 40)


def test_brokers_hear_how_far_a_group_has_come(broker: Serving) -> None:
    topic = make_topic(broker, "Told", 2)
    send(broker, topic, texts(0, 10))
    stream = reader(broker, topic, startingOffsets="earliest", groupId="spark-told")
    end = stream.latestOffset(stream.initialOffset(), ALL)
    stream.latestOffset(end, ALL)  # what it begins with is done
    with hanabi.PullConsumer("spark-told", namesrv=broker.namesrv) as consumer:
        assert [consumer.committed(queue) for queue in consumer.queues_of(topic)] == [5, 5]


def test_a_trigger_waits_until_it_is_worth_it(broker: Serving) -> None:
    topic = make_topic(broker, "Waits", 1)
    stream = reader(broker, topic, minOffsetsPerTrigger=10, maxTriggerDelayMs=200)
    start = stream.initialOffset()
    send(broker, topic, texts(0, 5))
    assert stream.latestOffset(start, ALL) == start
    time.sleep(0.25)
    assert stream.latestOffset(start, ALL) != start, "the delay is over"
    send(broker, topic, texts(5, 12))
    assert stream.latestOffset(start, ALL) != start, "there are enough"


def test_ends_are_not_asked_for_all_the_time(broker: Serving) -> None:
    topic = make_topic(broker, "Idle", 1)
    stream = reader(broker, topic, offsetPollMs=60_000, discoveryMs=60_000)
    start = stream.initialOffset()
    assert stream.latestOffset(start, ALL) == start
    send(broker, topic, texts(0, 5))
    assert stream.latestOffset(start, ALL) == start


def test_what_the_checkpoint_says_and_the_cluster_has_not_is_lost(broker: Serving) -> None:
    topic = make_topic(broker, "Lost", 1)
    send(broker, topic, texts(0, 5))
    start, end = {topic: {"broker-a": {"0": 2}}}, {topic: {"broker-a": {"0": 9, "7": 3}}}
    with pytest.raises(MQError, match="queue 7 of broker-a: messages 0 to 2 are lost"):
        batch(reader(broker, topic), start, end)
    assert batch(reader(broker, topic, failOnDataLoss=False), start, end) == texts(2, 5)


@pytest.mark.parametrize("again", [10, 28, 60])
def test_a_topic_that_was_made_again_is_a_loss_and_not_left_out_silently(broker: Serving, again: int) -> None:
    """Fewer messages than were read, as many, and more."""
    topic = make_topic(broker, f"Again{again}")
    send(broker, topic, texts(0, 28))
    stream = reader(broker, topic, startingOffsets="earliest")
    start = stream.latestOffset(stream.initialOffset(), ALL)
    remake_topic(broker, topic)
    send(broker, topic, texts(100, 100 + again))
    for each in (stream, reader(broker, topic)):
        with pytest.raises(
            MQError, match=rf"topic {topic}, queue 0 of broker-a was read up to 7, .*re-created.*failOnDataLoss=false"
        ):
            each.latestOffset(start, ALL)
    stream = reader(broker, topic, failOnDataLoss=False, maxOffsetsPerTrigger=9)
    found, offsets = list[str](), start
    while (end := stream.latestOffset(offsets, ReadMaxRows(9))) != offsets:
        rows = batch(stream, offsets, end)
        assert len(rows) <= 9
        assert batch(reader(broker, topic, failOnDataLoss=False), offsets, end) == rows, "a replay has the same rows"
        found, offsets = found + rows, end
    assert sorted(found) == texts(100, 100 + again)
    send(broker, topic, texts(200, 208))
    strict = reader(broker, topic)
    assert batch(strict, offsets, strict.latestOffset(offsets, ALL)) == texts(200, 208)


def test_a_batch_that_was_planned_before_its_topic_was_made_again_is_not_replayed(broker: Serving) -> None:
    topic = make_topic(broker, "Planned", 1)
    stream = reader(broker, topic, startingOffsets="earliest")
    start = stream.initialOffset()
    send(broker, topic, texts(0, 20))
    end = stream.latestOffset(start, ALL)
    remake_topic(broker, topic, 1)
    send(broker, topic, texts(100, 150))
    with pytest.raises(MQError, match="re-created"):
        batch(reader(broker, topic), start, end)
    going_on = reader(broker, topic, failOnDataLoss=False)
    assert batch(going_on, start, end) == []
    assert batch(going_on, end, going_on.latestOffset(end, ALL)) == texts(100, 150), "each once"


def test_a_topic_that_is_made_again_between_the_plan_and_the_tasks_of_a_trigger_is_told(broker: Serving) -> None:
    topic = make_topic(broker, "Between", 1)
    stream = reader(broker, topic, startingOffsets="earliest")
    start = stream.initialOffset()
    send(broker, topic, texts(0, 20))
    (task,) = stream.partitions(start, stream.latestOffset(start, ALL))
    remake_topic(broker, topic, 1)
    send(broker, topic, texts(100, 120))
    with pytest.raises(MQError, match="re-created"):
        list(stream.read(task))


def test_a_checkpoint_of_an_earlier_version_is_read(broker: Serving) -> None:
    topic = make_topic(broker, "Earlier", 1)
    send(broker, topic, texts(0, 10))
    stream, start = reader(broker, topic), {topic: {"broker-a": {"0": 4}}}
    end = stream.latestOffset(start, ALL)
    assert batch(stream, start, end) == texts(4, 10)
    assert stream.latestOffset(end, ALL) == end
    behind: Any = {topic: {"broker-a": {"0": 11}}}
    with pytest.raises(MQError, match="ends at 10"):
        stream.latestOffset(behind, ALL)


def test_a_body_that_does_not_unpack_does_not_stop_a_stream_for_good(broker: Serving) -> None:
    topic = make_topic(broker, "Poison", 1)
    stream = reader(broker, topic)
    start = stream.initialOffset()
    send(broker, topic, texts(0, 5))
    send_poison(broker, topic)
    send(broker, topic, texts(5, 8))
    end = stream.latestOffset(start, ALL)
    with pytest.raises(MQError, match="the body of message 5 is damaged"):
        batch(stream, start, end)
    assert batch(reader(broker, topic, onDamage="skip"), start, end) == texts(0, 8)
    assert batch(reader(broker, topic, onDamage="raw"), start, end) == [*texts(0, 8), "not zlib"]


def test_what_a_checkpoint_says_can_be_given_as_an_option(broker: Serving) -> None:
    topic = make_topic(broker, "Given", 1)
    send(broker, topic, texts(0, 10))
    stream = reader(broker, topic, startingOffsets="earliest", maxOffsetsPerTrigger=6)
    told = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
    assert bodies(broker, subscribe=topic, startingOffsets=json.dumps(told)) == texts(6, 10)


def test_a_thousand_queues_are_followed_and_made_again(broker: Serving) -> None:
    topic = make_topic(broker, "Wide", 1_000)
    stream = reader(broker, topic)
    start = stream.initialOffset()
    send(broker, topic, texts(0, 1_000))
    end = stream.latestOffset(start, ALL)
    planned = stream.partitions(start, end)
    assert len(planned) == 1_000
    found = [row["body"] for task in planned[::250] for each in stream.read(task) for row in rows_of(each)]
    assert len(found) == 4
    assert stream.latestOffset(end, ALL) == end
    remake_topic(broker, topic, 1_000)
    going_on = reader(broker, topic, failOnDataLoss=False)
    again = going_on.latestOffset(end, ALL)
    assert {offset for queues in again[topic].values() for offset in queues.values()} == {0}
    assert going_on.partitions(end, again) == []


def test_no_queue_goes_back() -> None:
    queue, gone = MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)
    assert next_offsets({queue: 9, gone: 4}, {queue: 3}, None) == {queue: 9, gone: 4}
    assert capped({queue: 9, gone: 4}, {queue: 5}) == {queue: 5}
