"""The archive: every message of the topics once, from a cluster or from a broker's files."""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import hanabi
from hanabi.errors import ConfigError, MQError
from hanabi.spark.pipelines.archive.compaction import join_small_files
from hanabi.spark.pipelines.archive.home import writing_archive
from hanabi.spark.pipelines.archive.state import ArchivedQueue
from hanabi.spark.pipelines.archive.step import in_ranges
from hanabi.spark.pipelines.archive_read import read_archive
from hanabi.spark.pipelines.support.file_system import FileSystem
from tests.serving import serving
from tests.spark.broker_world import make_topic, read, remake_topic, send
from tests.spark.pipelines.running import Steps, run_pipeline
from tests.spark.pipelines.tables import only, rows_of
from tests.spark.pipelines.written import wait_for_queues


def rows(frame: DataFrame) -> Counter[str]:
    """Return what messages are there, as a multiset; files of a broker do not know its name."""
    return Counter(row.value for row in frame.drop("brokerName").selectExpr("to_json(struct(*)) as value").collect())


def numbers(first: int, end: int) -> list[str]:
    return [f"{number:03}" for number in range(first, end)]


def parquet_files(root: Path) -> list[Path]:
    return sorted(root.glob("topic=*/hour=*/*.parquet"))


def test_an_archive_goes_on_where_it_was_and_any_program_can_read_it(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "archive"
    with serving(tmp_path / "broker") as broker:
        orders, bills = make_topic(broker, "Orders"), make_topic(broker, "Bills", 1)
        options: dict[str, Any] = {"namesrv": broker.namesrv, "topics": [orders, bills], "to": str(out)}
        send(broker, orders, numbers(0, 40), tags="new", properties={"region": "eu"})
        send(broker, bills, numbers(40, 50))
        told = Steps()
        first = run_pipeline(spark, "archive", told, **options, batch_messages=30, group="archive", compact=False)
        assert (first.facts["messages_archived"], first.facts["messages_lost"]) == (50, 0)
        assert told.advances[0] == (0, 50)
        assert (30, 50) in told.advances
        assert [
            only(row, "topic", "broker", "queue", "first", "archived to", "behind") for row in rows_of(first, "Arch")
        ] == [
            ("Bills", "broker-a", 0, 0, 10, 0),
            *(("Orders", "broker-a", number, 0, 10, 0) for number in range(4)),
        ]
        with hanabi.PullConsumer("archive", namesrv=broker.namesrv) as consumer:
            assert sum(consumer.committed(queue) or 0 for queue in consumer.queues_of(orders)) == 40

        send(broker, orders, numbers(50, 60))
        make_topic(broker, "Orders", 8)  # whose new queues are read from their first message on
        send(broker, orders, numbers(60, 68))
        second = run_pipeline(spark, "archive", **options, compact=False)
        assert (second.facts["messages_archived"], second.facts["messages_in_archive"]) == (18, 68)
        whole = rows(read(spark, broker, subscribe="Orders,Bills"))
        assert rows(read_archive(spark, str(out))) == whole
        nothing = run_pipeline(spark, "archive", **options, compact=False)
        assert nothing.facts["messages_archived"] == 0

        # The log may be deleted below the last message, because all queues are archived to their ends.
        last = max(
            row.commitLogOffset
            for row in read(spark, broker, "commitLogOffset long", subscribe="Orders,Bills").collect()
        )
        assert [only(row, "broker", "commit log offset", "messages behind") for row in rows_of(nothing, "Commit")] == [
            ("broker-a", last, 0)
        ]

    plain = spark.read.parquet(str(out))
    assert plain.count() == 68
    assert plain.select("topic", "hour").distinct().count() <= 4
    before = parquet_files(out)
    with writing_archive(FileSystem(spark, str(out))) as home:
        join_small_files(spark, home, Steps(), 128 << 20, "zstd", now=lambda: datetime(9999, 1, 1, tzinfo=UTC))
        assert home.state.loose == []
    after = parquet_files(out)
    assert len(after) == len({path.parent for path in before}) < len(before)
    assert rows(read_archive(spark, str(out))) == whole
    assert read_archive(spark, str(out), topics=["Bills"]).count() == 10
    with pytest.raises(ConfigError, match="has no topic 'Order': did you mean 'Orders'"):
        read_archive(spark, str(out), topics=["Order"])


def test_files_of_a_broker_are_archived_as_its_topics_are(spark: SparkSession, tmp_path: Path) -> None:
    store = tmp_path / "broker" / "data" / "broker" / "store"
    with serving(tmp_path / "broker") as broker:
        topic = make_topic(broker, "Orders", 2)
        send(broker, topic, numbers(0, 30))
        store = next(path.parent for path in (tmp_path / "broker" / "data").rglob("commitlog"))
        options: dict[str, Any] = {"store": str(store), "to": str(tmp_path / "archive"), "broker_name": "broker-a"}
        wait_for_queues(store, topic, 30)
        first = run_pipeline(spark, "archive", **options, topics=[topic], batch_messages=20)
        assert first.facts["messages_archived"] == 30
        middle_ms = max(
            row.ms
            for row in read(spark, broker, subscribe=topic).selectExpr("unix_millis(storeTimestamp) ms").collect()
        )
        send(broker, topic, numbers(30, 40))
        wait_for_queues(store, topic, 40)
        second = run_pipeline(spark, "archive", **options)
        assert [only(row, "topic", "queue", "archived to", "behind") for row in rows_of(second, "Arch")] == [
            ("Orders", 0, 20, 0),
            ("Orders", 1, 20, 0),
        ]
        whole = read(spark, broker, subscribe=topic)
        assert rows(read_archive(spark, str(tmp_path / "archive"))) == rows(whole)
        assert Counter(map(str, whole.collect())) == Counter(
            map(str, read_archive(spark, str(tmp_path / "archive")).collect())
        )

        # A cluster goes on where its files ended, but not under another name.
        send(broker, topic, numbers(40, 43))
        third = run_pipeline(spark, "archive", namesrv=broker.namesrv, topics=[topic], to=options["to"])
        assert third.facts["messages_archived"] == 3
        with pytest.raises(ConfigError, match="has messages of broker-a: say --broker-name"):
            run_pipeline(spark, "archive", store=str(store), to=options["to"])
        wait_for_queues(store, topic, 43)
        late = run_pipeline(
            spark, "archive", store=str(store), to=str(tmp_path / "late"), starting=str(middle_ms + 1), topics=[topic]
        )
        assert late.facts["messages_archived"] == 13
        same = run_pipeline(
            spark,
            "archive",
            namesrv=broker.namesrv,
            to=str(tmp_path / "late2"),
            starting=str(middle_ms + 1),
            topics=[topic],
        )
        assert same.facts["messages_archived"] == 13


def test_what_was_planned_is_found_again_for_a_thousand_queues(spark: SparkSession) -> None:
    # As a step into a Delta table does. A condition for each queue overflows the stack of Spark's optimizer.
    planned = [
        ArchivedQueue(topic="t", broker="b" if number % 2 else "", queue_id=number, first=3, end=5)
        for number in range(1_000)
    ]
    written = spark.range(10_000).selectExpr(
        "'t' as topic",
        "if(id % 1001 % 2 = 1, 'b', null) as brokerName",
        "cast(id % 1001 as int) as queueId",
        "id div 1001 as queueOffset",
    )
    found = in_ranges(written, planned).groupBy("queueOffset").count().collect()
    assert sorted((row.queueOffset, row["count"]) for row in found) == [(3, 1_000), (4, 1_000)]


@pytest.mark.parametrize("source", ["topics", pytest.param("files", marks=pytest.mark.slow)])
def test_a_topic_that_was_made_again_is_told_and_then_archived_whole(
    spark: SparkSession, tmp_path: Path, source: str
) -> None:
    with serving(tmp_path / "broker") as broker:
        orders = make_topic(broker, "Orders", 2)
        store = next(path.parent for path in (tmp_path / "broker" / "data").rglob("commitlog"))
        where = {"namesrv": broker.namesrv} if source == "topics" else {"store": str(store)}
        options: dict[str, Any] = {**where, "topics": [orders], "compact": False, "to": str(tmp_path / "archive")}
        send(broker, orders, numbers(0, 20))
        wait_for_queues(store, orders, 20)
        run_pipeline(spark, "archive", **options)
        remake_topic(broker, orders, 2)
        send(broker, orders, numbers(100, 150))
        wait_for_queues(store, orders, 50)
        with pytest.raises(MQError, match=r"queue 0 of .* has another message at 9 than was archived.*re-created"):
            run_pipeline(spark, "archive", **options)
        run_pipeline(spark, "archive", **options, fail_on_data_loss=False)
        found = [row.body.decode() for row in read_archive(spark, options["to"]).select("body").collect()]
        assert sorted(found) == [*numbers(0, 20), *numbers(100, 150)]
        assert run_pipeline(spark, "archive", **options).facts["messages_archived"] == 0


def test_what_cannot_be_archived_is_told_in_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    out = str(tmp_path / "archive")
    with serving(tmp_path / "broker") as broker:
        topic = make_topic(broker, "Orders", 1)
        send(broker, topic, numbers(0, 3))
        options: dict[str, Any] = {"namesrv": broker.namesrv, "topics": [topic], "to": out}
        run_pipeline(spark, "archive", **options)
        state = max((tmp_path / "archive" / "_archive" / "state").glob("*.json"))
        told = json.loads(state.read_text())
        told["queues"][0]["end"] = 9
        told["version"] += 1
        (state.parent / f"{told['version']:012}.json").write_text(json.dumps(told))
        with pytest.raises(MQError, match=r"ends at 3, but is archived up to 9: was the topic re-created\?"):
            run_pipeline(spark, "archive", **options)
        again = run_pipeline(spark, "archive", **options, fail_on_data_loss=False)
        assert again.facts["messages_archived"] == 3
        with pytest.raises(ConfigError, match="is an archive in parquet: say --format parquet"):
            run_pipeline(spark, "archive", **options, format="delta")
        with pytest.raises(MQError, match="Missing"):
            run_pipeline(spark, "archive", **(options | {"topics": ["Missing"]}))
    with pytest.raises(ConfigError, match="format=delta: Spark has no Delta package; run with --conf"):
        run_pipeline(spark, "archive", topics=["x"], to=str(tmp_path / "delta"), format="delta")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "no topics to archive: give --topics or --pattern"),
        ({"topics": ["a"], "pattern": "b"}, "options topics and pattern exclude each other: give one of them"),
        ({"store": "s", "group": "g"}, "option group: offsets cannot be committed"),
        ({"topics": ["a"], "broker_name": "g"}, "option broker-name is for --store"),
        ({"topics": ["a"], "starting": "soon"}, "option starting='soon': must be milliseconds since 1970 or a time"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_spark_is_started(options: dict[str, Any], sentence: str) -> None:
    from hanabi.spark.pipelines.archive.pipeline import ArchiveOptions

    with pytest.raises(ConfigError) as caught:
        ArchiveOptions(to="x", **options)
    assert str(caught.value).startswith(sentence)
