"""The pipeline `trace`: Apache's own lines, those of older clients, broken ones, and what our client traces."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import hanabi
from hanabi.spark.pipelines.trace import tables as trace_tables
from hanabi.spark.pipelines.trace.lines import trace_lines
from hanabi.spark.pipelines.trace.pipeline import PIPELINE, TraceOptions
from tests.serving import QUICK, serving
from tests.spark.broker_world import make_topic
from tests.spark.pipelines.running import Steps
from tests.spark.pipelines.tables import only, rows_of

_APACHES = Path(__file__).parents[3] / "client" / "observe" / "apache_traces.txt"
REQUEST, MESSAGE = "AC1100017A2B18B4AAC20000000000CD", "AC1100017A2B18B4AAC20000000000AB"

OLDER = [  # 4.4: no offset id; 4.8: no time and group behind a message; and one that adds its host
    f"Pub|1700000000000|R|old|Orders|{MESSAGE}|null|null|10.0.0.1:10911|12|7|0|true~",
    f"Pub|1700000000000|R|new|Orders|{MESSAGE}|null|null|10.0.0.1:10911|12|8|0|0A00|true|10.0.0.9~",
    f"SubAfter|{REQUEST}|{MESSAGE}|30|true|null|0~",
    f"SubAfter|{REQUEST}|{MESSAGE}|31|false|null~",
    f"Recall|1700000000000|R|new|Orders|{MESSAGE}|true~",
]
BROKEN = [
    "Pub|soon|R|g|T|id|null|null|h|1|2|0|o|true~",
    "SubAfter|only~",
    "Unheard|1|2~",
    f"Pub|1|R|g|T|{MESSAGE}|null|null|h|1|2|0|o|perhaps~",
    "~",
]


def _lines(spark: SparkSession, lines: list[str], host: str = "10.0.0.7:4711") -> DataFrame:
    body = "".join(lines).replace("|", "\x01").replace("~", "\x02").encode()
    frame = spark.createDataFrame([(body, host)], "body binary, bornHost string")
    return trace_lines(frame.selectExpr("*", "timestamp_millis(1700000001000) as storeTimestamp"))


def test_apaches_lines_are_read_field_by_field(spark: SparkSession) -> None:
    found = _lines(spark, _APACHES.read_text().splitlines()).collect()
    assert all(row.is_readable for row in found)
    pub, before, after, end = found[:4]
    assert (pub.type, pub.time_ms, pub.group, pub.topic, pub.id, pub.cost_ms, pub.success) == (
        "Pub",
        1700000000123,
        "billing",
        "Orders",
        MESSAGE,
        17,
        False,
    )
    assert (before.request, before.id, before.retries, before.group) == (REQUEST, MESSAGE, 3, "billing")
    assert (after.request, after.id, after.cost_ms, after.success, after.outcome, after.time_ms, after.group) == (
        REQUEST,
        MESSAGE,
        17,
        False,
        2,
        1700000000123,
        "billing",
    )
    assert (end.state, end.from_check, end.topic) == ("ROLLBACK_MESSAGE", True, "Orders")
    assert {row.client for row in found} == {"10.0.0.7@31275"}  # 0x7A2B


def test_lines_of_older_clients_are_read_and_broken_ones_are_told_apart(spark: SparkSession) -> None:
    found = _lines(spark, OLDER + BROKEN, "[fe80::1]:4711").collect()
    told = [(row.type, row.group, row.cost_ms, row.success) for row in found if row.is_readable]
    assert told == [
        ("Pub", "old", 7, True),
        ("Pub", "new", 8, True),
        ("SubAfter", None, 30, True),
        ("SubAfter", None, 31, False),
        ("Recall", "new", None, True),
    ]
    assert sum(not row.is_readable for row in found) == 4
    assert found[0].client == "[fe80::1]@31275"


def test_a_consumer_that_never_ends_is_slow(spark: SparkSession) -> None:
    """And the group of a line that tells none is that of the line before it."""
    begun, ended = "B" * 32, "C" * 32
    lines = [
        f"SubBefore|1000|R|g|{REQUEST}|{begun}|0|null~",
        f"SubBefore|1000|R|g|{REQUEST}|{ended}|1|null~",
        f"SubAfter|{REQUEST}|{ended}|40|true|null|0~",
        f"SubBefore|9000|R|g|{REQUEST}|{'D' * 32}|0|null~",
    ]
    good = _lines(spark, lines).where("is_readable")
    consumed = trace_tables.consumption(good)
    measured = trace_tables.consumers(consumed, f.lit(5_000))
    (row,) = trace_tables.slow_consumers(consumed, measured, 1_000).collect()
    assert (row.group, row.consumed, row.never_ended, row.slow, row.slowest_message) == ("g", 1, 1, 0, ended)


def test_what_our_client_traces_is_measured(spark: SparkSession, tmp_path: Path) -> None:
    with serving(tmp_path / "broker", {**QUICK, "traceTopicEnable": "true"}) as broker:
        orders = make_topic(broker, "Orders", queues=1)
        with hanabi.Producer("shop", namesrv=broker.namesrv, trace=True) as producer:
            for number in range(10):
                producer.send(hanabi.Message(orders, b"%d" % number))
        transactions = hanabi.TransactionProducer(
            "tx", namesrv=broker.namesrv, trace=True, check=lambda _: hanabi.TransactionState.ROLLBACK
        )
        with transactions:
            transactions.send_in_transaction(
                hanabi.Message(orders, b"rolled back"), lambda *_: hanabi.TransactionState.ROLLBACK
            )
        consumer = hanabi.LitePullConsumer("billing", namesrv=broker.namesrv, consume_from="first", trace=True)
        consumer.subscribe(orders)
        with consumer:
            seen = 0
            while seen < 10:
                seen += len(consumer.poll(5))
        outcome = PIPELINE.run(
            spark, TraceOptions(namesrv=broker.namesrv, slow_ms=0, output=str(tmp_path / "out")), Steps()
        )
    sends = {str(row["group"]): row for row in rows_of(outcome, "sends")}
    assert only(sends["shop"], "topic", "sends", "failed", "success_rate") == ("Orders", 10, 0, 1.0)
    assert float(sends["shop"]["p50_ms"] or 0) <= float(sends["shop"]["max_ms"] or 0)
    assert str(sends["shop"]["client"]).partition("@")[2].isdigit()
    (billing,) = rows_of(outcome, "consumers")
    assert only(billing, "group", "consumed", "failed", "never_ended") == ("billing", 10, 0, 0)
    (slow,) = rows_of(outcome, "slow consumers: 0 ms")
    assert slow["group"] == "billing"
    assert rows_of(outcome, "transactions") == [
        {"group": "tx", "topic": "Orders", "committed": 0, "rolled_back": 1, "unknown": 0, "after_check": 0}
    ]
    assert (outcome.facts["sends"], outcome.facts["consumed"], outcome.facts["unreadable_lines"]) == (11, 10, 0)
    assert spark.read.parquet(str(tmp_path / "out" / "lines")).count() == outcome.facts["lines"]
