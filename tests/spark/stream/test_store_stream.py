"""The stream over a store's files, asked as Spark asks it, while a store writes them."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from hanabi.errors import ConfigError, MQError
from hanabi.spark.store.reader import StoreReader
from hanabi.spark.store_source import StoreSource
from hanabi.spark.stream.store_stream import StoreStreamReader
from hanabi.spark.stream.trigger_size import SmallTriggers
from hanabi.store.config import StoreConfig
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import MessageStore
from hanabi.wire.message.properties import encode_properties
from tests.spark.decoded import rows_of
from tests.spark.reading import reader as store_reader
from tests.store.sample_stores import HOST

ALL = ReadAllAvailable()
STORED_MS = 1_700_000_000_000


class Writer:
    """A store that is open and written."""

    def __init__(self, root: Path, store: MessageStore, first: int = 0) -> None:
        self.root, self._store, self._count = root, store, first

    def delete(self, topic: str) -> None:
        self._store.delete_topic(topic)

    def put(self, topic: str, count: int, *, queues: int = 2, tags: str = "A") -> list[int]:
        """Store that many messages; their bodies are numbers that go on."""
        numbers = list(range(self._count, self._count + count))
        for number in numbers:
            properties = encode_properties({"TAGS": tags})
            self._store.put(PendingMessage(topic, number % queues, b"%d" % number, properties, STORED_MS, HOST, HOST))
        self._store.flush()  # a broker does that every second
        self._count += count
        return numbers


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    """Yield a store with small files, so that queues and log go over several of them."""
    root = tmp_path / "store"
    config = StoreConfig(root=str(root), commit_log_segment_bytes=1 << 16, consume_queue_segment_bytes=400)
    with MessageStore.open(config, disk_ratio=lambda _: 0.1) as store:
        yield Writer(root, store)


def reader(root: Path, **options: Any) -> StoreStreamReader:
    given = {"path": str(root), "offsetPollMs": 0} | options
    source = StoreSource({name.lower(): str(value) for name, value in given.items()})
    return source.streamReader(source.schema())


def batch(stream: StoreStreamReader, start: Any, end: Any) -> list[int]:
    rows = [row for task in stream.partitions(start, end) for each in stream.read(task) for row in rows_of(each)]
    return sorted(int(row["body"]) for row in rows)


def offsets_of(positions: Any) -> dict[str, dict[str, int]]:
    return {
        topic: {number: at[0] if isinstance(at, list) else at for number, at in queues.items()}
        for topic, queues in positions.items()
    }


def test_a_stream_begins_at_the_end_and_reads_what_is_written(writer: Writer) -> None:
    writer.put("Orders", 30)
    stream = reader(writer.root)
    start = stream.initialOffset()
    assert offsets_of(start) == {"Orders": {"0": 15, "1": 15}}
    assert stream.latestOffset(start, ALL) == start
    new = writer.put("Orders", 200)
    end = stream.latestOffset(start, ALL)
    assert batch(stream, start, end) == new
    assert batch(reader(writer.root), start, end) == new, "a replay after a restart gives the same rows"
    assert stream.latestOffset(end, ALL) == end


def test_new_queues_and_topics_are_read_from_their_first_message(writer: Writer) -> None:
    old = writer.put("Orders", 10, queues=2)
    stream = reader(writer.root, startingOffsets="earliest", maxBytesPerPartition=1_000)
    start = stream.initialOffset()
    new = [*writer.put("Orders", 40, queues=8), *writer.put("Other", 10)]
    end = stream.latestOffset(start, ALL)
    assert len(stream.partitions(start, end)) > 3
    assert batch(stream, start, end) == [*old, *new]


def test_a_limit_holds_and_available_now_stops_at_what_was_there(writer: Writer) -> None:
    there = writer.put("Orders", 50)
    stream = reader(writer.root, startingOffsets="earliest", maxOffsetsPerTrigger=7)
    stream.prepareForTriggerAvailableNow()
    offsets: Any = stream.initialOffset()
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMaxRows(7)
    writer.put("Orders", 20)
    found: list[int] = []
    while (end := stream.latestOffset(offsets, limit)) != offsets:
        rows = batch(stream, offsets, end)
        assert len(rows) <= 7
        found += rows
        offsets = end
    assert sorted(found) == there


def test_topics_tags_and_offsets_are_chosen(writer: Writer) -> None:
    writer.put("Other", 10)
    writer.put("Orders", 10, tags="B")
    wanted = writer.put("Orders", 10)
    stream = reader(writer.root, subscribe="Orders", tags="A", startingOffsets="earliest")
    assert batch(stream, stream.initialOffset(), stream.latestOffset({}, ALL)) == wanted
    told = '{"Orders": {"0": 8, "1": 9}}'
    stream = reader(writer.root, subscribe="Orders", startingOffsets=told)
    assert offsets_of(stream.initialOffset()) == {"Orders": {"0": 8, "1": 9}}


def test_a_time_says_where_to_begin(writer: Writer) -> None:
    writer.put("Orders", 10)
    stream = reader(writer.root, startingTimestamp=0)
    assert stream.initialOffset() == {"Orders": {"0": 0, "1": 0}}
    stream = reader(writer.root, startingTimestamp="2999-01-01")
    assert offsets_of(stream.initialOffset()) == {"Orders": {"0": 5, "1": 5}}


def test_what_retention_deleted_is_lost_or_left_out(writer: Writer) -> None:
    writer.put("Orders", 2_000)
    start, end = {"Orders": {"0": 0, "1": 0}}, {"Orders": {"0": 1_000, "1": 1_000}}
    logs = sorted((writer.root / "commitlog").iterdir())
    logs[0].rename(writer.root / "gone")
    with pytest.raises(MQError, match=r"topic Orders, queue 0 of store: messages 0 to .* are lost: the oldest"):
        batch(reader(writer.root), start, end)
    left = batch(reader(writer.root, failOnDataLoss=False), start, end)
    assert left == list(range(left[0], 2_000))
    assert left[0] > 0
    shutil.rmtree(writer.root / "consumequeue" / "Orders" / "1")
    with pytest.raises(MQError, match=r"queue 1 of store: .* the queue is not there any more"):
        batch(reader(writer.root), {"Orders": {"0": 900, "1": 900}}, end)


@pytest.mark.parametrize("again", [10, 28, 60])
def test_a_topic_that_was_made_again_is_a_loss_and_not_left_out_silently(writer: Writer, again: int) -> None:
    """Fewer messages than were read, as many, and more."""
    writer.put("Orders", 28)
    stream = reader(writer.root, startingOffsets="earliest")
    start = stream.latestOffset(stream.initialOffset(), ALL)
    writer.delete("Orders")
    time.sleep(0.002)  # as a clock that stands still tells nothing apart
    new = writer.put("Orders", again)
    with pytest.raises(MQError, match=r"topic Orders, queue 0 of store was read up to 14, .*re-created"):
        reader(writer.root).latestOffset(start, ALL)
    going_on = reader(writer.root, failOnDataLoss=False)
    end = going_on.latestOffset(start, ALL)
    assert batch(going_on, start, end) == new
    assert batch(reader(writer.root, failOnDataLoss=False), start, end) == new, "a replay has the same rows"
    more = writer.put("Orders", 4)
    strict = reader(writer.root)
    assert batch(strict, end, strict.latestOffset(end, ALL)) == more


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_topic_that_is_made_again_between_the_plan_and_the_tasks_is_told(writer: Writer, partitions: int) -> None:
    # Of a batch and of a trigger. Nothing is missing: the topic has as many messages as before.
    writer.put("T", 40)
    options: dict[str, Any] = {"subscribe": "T", "minPartitions": partitions}
    batch = store_reader(writer.root, **options)
    stream = reader(writer.root, **options, startingOffsets="earliest")
    start = stream.initialOffset()
    planned: list[tuple[StoreReader | StoreStreamReader, list[InputPartition]]] = [
        (batch, batch.partitions()),
        (stream, stream.partitions(start, stream.latestOffset(start, ALL))),
    ]
    writer.delete("T")
    writer.put("T", 60)
    for each, tasks in planned:
        assert len(tasks) == partitions
        for task in tasks:
            with pytest.raises(MQError, match=r"topic T, queue \d: another message .* the topic was re-created"):
                list(each.read(task))


def test_a_thousand_queues_are_followed_and_made_again(writer: Writer) -> None:
    sent = writer.put("Orders", 1_000, queues=1_000)
    stream = reader(writer.root, startingOffsets="earliest")
    end = stream.latestOffset({}, ALL)
    assert batch(stream, {}, end) == sent
    writer.delete("Orders")
    time.sleep(0.002)
    new = writer.put("Orders", 1_000, queues=1_000)
    with pytest.raises(MQError, match="another message stands at 0"):
        reader(writer.root).latestOffset(end, ALL)
    going_on = reader(writer.root, failOnDataLoss=False)
    assert batch(going_on, end, going_on.latestOffset(end, ALL)) == new


def test_an_end_that_went_back_is_a_loss_and_only_what_is_new_is_read(tmp_path: Path) -> None:
    # As after a power cut, or a restored backup: the last messages are gone, and others get their offsets.
    root, backup = tmp_path / "store", tmp_path / "backup"

    def write(count: int, first: int) -> list[int]:
        with MessageStore.open(StoreConfig(root=str(root)), disk_ratio=lambda _: 0.1) as store:
            writer = Writer(root, store, first)
            return writer.put("Orders", count, queues=1)

    write(90, 0)
    shutil.copytree(root, backup)
    time.sleep(0.002)
    write(10, 100)
    stream = reader(root, startingOffsets="earliest")
    start = stream.latestOffset(stream.initialOffset(), ALL)
    shutil.rmtree(root)
    shutil.copytree(backup, root)
    for end_of_queue in (95, 125):
        time.sleep(0.002)
        new = write(end_of_queue - 90 if end_of_queue == 95 else 30, end_of_queue * 10)
        with pytest.raises(MQError, match=r"queue 0 of store was read up to 100, .*its broker lost messages"):
            reader(root).latestOffset(start, ALL)
        going_on = reader(root, failOnDataLoss=False)
        end = going_on.latestOffset(start, ALL)
        assert batch(going_on, start, end)[-len(new) :] == new
        assert len(batch(going_on, start, end)) == end_of_queue - 90


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"endingTimestamp": "5"}, "a stream of rocketmq-store has no option 'endingtimestamp'"),
        ({"minOffsetsPerTrigger": 9, "maxOffsetsPerTrigger": 3}, "minOffsetsPerTrigger=9 is more than"),
        ({"startingOffsets": '{"Orders": {"9": 1}}'}, "there is no topic Orders, queue 9 of store"),
        ({"subscribe": "Order"}, "has no topic 'Order': did you mean 'Orders'"),
        ({"maxOffsetPerTrigger": 3}, "did you mean 'maxOffsetsPerTrigger'"),
    ],
)
def test_what_is_wrong_is_one_sentence(writer: Writer, options: dict[str, Any], reason: str) -> None:
    writer.put("Orders", 4)
    with pytest.raises(ConfigError, match=reason):
        reader(writer.root, **options).initialOffset()


def test_a_batch_has_no_options_of_streams(writer: Writer) -> None:
    writer.put("Orders", 4)
    source = StoreSource({"path": str(writer.root), "maxoffsetspertrigger": "5"})
    with pytest.raises(ConfigError, match="rocketmq-store has no option 'maxoffsetspertrigger'"):
        source.reader(source.schema())


def test_a_small_trigger_waits_but_not_for_ever() -> None:
    now = [0.0]
    small = SmallTriggers(10, 60.0, lambda: now[0])
    assert small.put_off(3)
    now[0] = 59.0
    assert small.put_off(9)
    now[0] = 60.0
    assert not small.put_off(9), "the time is over"
    assert small.put_off(1), "and begins anew"
    assert not small.put_off(10)
    assert not SmallTriggers(None, 60.0, lambda: now[0]).put_off(0)


def test_the_files_of_a_live_store_are_a_stream_with_a_checkpoint(
    spark: SparkSession, writer: Writer, tmp_path: Path
) -> None:
    sent = writer.put("Orders", 100)
    frame = (
        spark.readStream.format("rocketmq-store")
        .options(startingOffsets="earliest", maxOffsetsPerTrigger=60)
        .schema("body binary")
        .load(str(writer.root))
    )

    def drain() -> int:
        to = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = to.trigger(availableNow=True).start(str(tmp_path / "out"))
        query.awaitTermination()
        return len([each for each in query.recentProgress if each["numInputRows"]])

    assert drain() == 2
    sent += writer.put("Orders", 50, queues=4)
    assert drain() == 1
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(int(row.body) for row in rows) == sent
