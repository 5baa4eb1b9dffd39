"""The pipeline `traffic`, on a broker and on files."""

import json
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from pyspark.sql import SparkSession

import hanabi
from hanabi.errors import ConfigError
from hanabi.spark.pipelines.support.group_lag import GroupLag, lags_of
from hanabi.spark.pipelines.traffic.chart import Bin, draw
from hanabi.spark.pipelines.traffic.pipeline import PIPELINE, TrafficOptions
from hanabi.wire.bodies.offsets import ConsumerOffsetTable
from tests.serving import serving
from tests.spark.broker_world import make_topic, rows, send
from tests.spark.pipelines.running import Steps
from tests.spark.pipelines.tables import only, rows_of
from tests.store.sample_stores import FIRST_STORED_MS, make_store


def test_a_store_is_measured_minute_by_minute(spark: SparkSession, tmp_path: Path) -> None:
    """60 messages, one a second, in three queues; the first 40 of them in one minute."""
    make_store(tmp_path / "store", 60, queues=3, body_bytes=200)
    offsets = {"offsetTable": {"T@billing": {"0": 20, "1": 5, "2": 0}, "Other@billing": {"0": 1}}}
    (tmp_path / "store" / "config").mkdir()
    (tmp_path / "store" / "config" / "consumerOffset.json").write_text(json.dumps(offsets))
    options = TrafficOptions(
        store=str(tmp_path / "store"), output=str(tmp_path / "out"), chart=str(tmp_path / "chart.svg")
    )
    outcome = PIPELINE.run(spark, options, Steps())
    minutes = rows_of(outcome, "messages by minute")
    assert [only(row, "topic", "tag", "minute", "messages", "bytes") for row in minutes] == [
        ("T", "A", "2023-11-14T22:14:00Z", 20, 4_000),
        ("T", "A", "2023-11-14T22:13:00Z", 40, 8_000),
    ]
    assert rows_of(outcome, "sizes") == [{"topic": "T", "size_up_to": 256, "messages": 60, "bytes": 12_000}]
    assert rows_of(outcome, "how evenly") == [
        {"topic": "T", "queues": 3, "messages": 60, "fewest": 20, "most": 20, "skew": 1.0}
    ]
    assert rows_of(outcome, "what groups") == [
        {"group": "billing", "topic": "T", "queues": 3, "queues_behind": 2, "lag": 35}
    ]
    assert outcome.facts == {"messages": 60, "bytes": 12_000, "topics": 1, "stored_before_born": 0, "lag": 35}

    written = spark.read.parquet(str(tmp_path / "out" / "minutes"))
    assert [row.messages for row in written.orderBy("minute").collect()] == [40, 20]
    assert spark.read.parquet(str(tmp_path / "out" / "lag")).count() == 1
    chart = (tmp_path / "chart.svg").read_text()
    assert chart.startswith("<svg ")
    assert "Messages stored per minute" in chart
    assert "22:13" in chart

    with pytest.raises(ConfigError, match="minutes is there already"):
        PIPELINE.run(spark, options, Steps())


def test_times_choose_what_is_measured(spark: SparkSession, tmp_path: Path) -> None:
    make_store(tmp_path / "store", 60)
    since, until = str(FIRST_STORED_MS + 30_000), str(FIRST_STORED_MS + 50_000)
    measured = TrafficOptions(store=str(tmp_path / "store"), since=since, until=until)
    assert measured.read(spark, "queueId int").count() == 20
    assert TrafficOptions(store=str(tmp_path / "store"), pattern="U").read(spark, "queueId int").count() == 0


def test_a_cluster_is_measured_and_the_result_is_sent_to_a_topic(spark: SparkSession, tmp_path: Path) -> None:
    with serving(tmp_path / "broker") as broker:
        bills, reports = make_topic(broker, "Bills", queues=2), make_topic(broker, "Reports", queues=1)
        send(broker, bills, ["small"] * 6, tags="paid")
        send(broker, bills, ["b" * 70] * 3, tags="open")
        with hanabi.PullConsumer("billing", namesrv=broker.namesrv) as billing:
            for queue in billing.queues_of(bills):
                billing.commit({queue: 1})
        options = TrafficOptions(namesrv=broker.namesrv, output_topic=reports)
        outcome = PIPELINE.run(spark, options, Steps())
        minutes = rows_of(outcome, "messages by minute")
        assert sum(int(row["messages"] or 0) for row in minutes) == outcome.facts["messages"] == 9
        assert {row["tag"] for row in minutes} == {"paid", "open"}
        assert all(0 <= float(row["latency_p50_ms"] or 0) <= float(row["latency_max_ms"] or 0) for row in minutes)
        assert [only(row, "size_up_to", "messages") for row in rows_of(outcome, "sizes")] == [(64, 6), (128, 3)]
        assert [only(row, "queues", "fewest", "most", "skew") for row in rows_of(outcome, "how")] == [(2, 4, 5, 1.11)]
        assert rows_of(outcome, "what groups") == [
            {"group": "billing", "topic": "Bills", "queues": 2, "queues_behind": 2, "lag": 7}
        ]
        sent = rows(broker, "body tags keys", subscribe=reports)
        assert {row["tags"] for row in sent} == {"minutes", "sizes", "queues", "lag"}
        assert {tuple(row["keys"]) for row in sent} == {("Bills",)}
        (lag,) = (json.loads(row["body"]) for row in sent if row["tags"] == "lag")
        assert lag == {"group": "billing", "topic": "Bills", "queues": 2, "queues_behind": 2, "lag": 7}


def test_the_lag_of_a_group_is_that_of_all_brokers_and_never_negative() -> None:
    a = ConsumerOffsetTable(offset_table={"T@g": {0: 3, 1: 12}, "%RETRY%g@g": {0: 0}})
    b = ConsumerOffsetTable(offset_table={"T@g": {0: 1, 7: 5}, "T@h": {0: -1}})
    ends = {("T", 0): 10, ("T", 1): 10}
    assert lags_of([(a, ends), (b, ends)]) == [GroupLag("g", "T", 3, 2, 16)]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"topics": ["A"], "pattern": "B"}, "topics and pattern exclude each other"),
        ({"since": "yesterday"}, "since='yesterday': must be milliseconds"),
        ({"since": "2000", "until": "1000"}, "since=2000 does not lie before until=1000"),
        ({"topics": ["A"], "output_topic": "A"}, "output-topic=A is one of the topics"),
        ({"chart": "/no/such/place/chart.svg"}, "there is no directory /no/such/place"),
        ({"commit_log": "/log"}, "commit-log=/log is given, but store is not"),
    ],
)
def test_options_that_cannot_be_right_are_refused_before_spark_starts(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        TrafficOptions(**given)  # type: ignore[arg-type]


def test_a_chart_is_a_picture_whatever_is_in_it() -> None:
    """Bars are as high as their messages are many; names are text, and not markup; many topics share one colour."""
    bins = [
        Bin(at_s=60 * minute, minutes=1, topic=f"<T{number}&>", messages=10 * (number + 1), p50_ms=1.5, p99_ms=40.0)
        for minute in (0, 1, 3)
        for number in range(8)
    ]
    picture = ET.fromstring(draw(bins))  # noqa: S314 - ours
    texts = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"<T7&>", "other topics", "00:00", "00:01", "00:02", "00:03"} <= set(texts)
    heights: dict[str | None, float] = defaultdict(float)
    for bar in picture.iter("{http://www.w3.org/2000/svg}rect"):
        if float(bar.get("y", 0)) + float(bar.get("height", 0)) > 64 and bar.get("width") != "11" and bar.get("x"):
            heights[bar.get("x")] += float(bar.get("height", 0))
    assert len(heights) == 3
    assert max(heights.values()) - min(heights.values()) < 1
    assert "no messages" in draw([])
