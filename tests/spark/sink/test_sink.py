"""Tests of what the sink makes of rows, on a real broker; Spark's own part is in test_sink_format."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructField, StructType

from hanabi.errors import ConfigError, MQError
from hanabi.spark.sink.columns import check_columns
from hanabi.spark.sink.options import parse_sink_options
from hanabi.spark.sink.row_ids import ROW_ID_PROPERTY, RowIds
from hanabi.spark.sink.writer import send_rows
from tests.serving import Serving, serving
from tests.spark.broker_world import make_topic, rows


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("broker")) as running:
        yield running


def write(broker: Serving, table: dict[str, Any], partition: int = 0, rows_max: int = 1_000, **options: Any) -> int:
    given = {"namesrv": broker.namesrv} | {name.lower(): str(value) for name, value in options.items()}
    batches = pa.table(table).to_batches(max_chunksize=rows_max)
    return send_rows(parse_sink_options(given), iter(batches), RowIds("query/0", partition))


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_rows_become_messages(broker: Serving) -> None:
    topic = make_topic(broker, "Rows")
    table = {
        "value": ["text", "more"],
        "tags": ["paid", None],
        "keys": [["a", "b"], None],
        "properties": pa.array([[("amount", "7")], None], pa.map_(pa.string(), pa.string())),
    }
    assert write(broker, table, topic=topic) == 2
    found = {row["body"]: row for row in rows(broker, subscribe=topic)}
    assert set(found) == {b"text", b"more"}
    row = found[b"text"]
    assert (row["tags"], row["keys"], row["properties"]["amount"]) == ("paid", ["a", "b"], "7")
    stamps = {row["properties"][ROW_ID_PROPERTY] for row in found.values()}
    assert len(stamps) == 2
    assert all(stamp.startswith("query/0/0/") for stamp in stamps)


def test_a_row_names_its_topic_and_the_option_is_for_the_others(broker: Serving) -> None:
    one, other = make_topic(broker, "One"), make_topic(broker, "Other")
    write(broker, {"body": [b"1", b"2", b"3"], "topic": [one, None, one]}, topic=other)
    assert sorted(row["body"] for row in rows(broker, "body", subscribe=one)) == [b"1", b"3"]
    assert [row["body"] for row in rows(broker, "body", subscribe=other)] == [b"2"]


def test_rows_of_one_key_lie_in_one_queue_in_their_order(broker: Serving) -> None:
    topic = make_topic(broker, "Ordered")
    keys = [f"customer-{number % 7}" for number in range(700)]
    table = {"body": [f"{number:04}" for number in range(700)], "orderingKey": keys, "tags": keys}
    write(broker, table, topic=topic, rows_max=100, maxMessagesPerBatch=5)
    found = rows(broker, "tags body queueId", subscribe=topic)
    assert len(found) == 700
    for key in set(keys):
        mine = [row for row in found if row["tags"] == key]
        assert len({row["queueId"] for row in mine}) == 1
        assert [row["body"] for row in mine] == sorted(row["body"] for row in mine)


def test_a_replay_stamps_its_rows_as_before(broker: Serving) -> None:
    topic = make_topic(broker, "Again")
    table = {"body": [f"{number}" for number in range(300)]}
    write(broker, table, topic=topic, rows_max=70)
    write(broker, table, topic=topic, rows_max=70)
    found = rows(broker, "body properties", subscribe=topic)
    assert len(found) == 600
    by_stamp = {row["properties"][ROW_ID_PROPERTY]: row["body"] for row in found}
    assert sorted(by_stamp.values()) == sorted(str(number).encode() for number in range(300))


def by_stamp(broker: Serving, topic: str) -> list[bytes]:
    """Return one body of each stamp, as `deduplicated` keeps them: the first that is stored."""
    kept: dict[str, bytes] = {}
    found = rows(broker, "body properties storeTimestamp", subscribe=topic)
    for row in sorted(found, key=lambda row: row["storeTimestamp"]):
        kept.setdefault(row["properties"][ROW_ID_PROPERTY], row["body"])
    return sorted(kept.values())


def test_a_retry_behind_a_shuffle_stamps_the_same_rows_alike_in_any_order(broker: Serving) -> None:
    """Spark fetches the blocks of a shuffle in any order. Some rows are the same, in one task and in two."""
    topic = make_topic(broker, "Shuffled")
    sent = [f"{number % 250}" for number in range(300)]
    write(broker, {"body": sent[:150]}, topic=topic, rows_max=70)  # and then the task failed
    write(broker, {"body": sent[::-1]}, topic=topic, rows_max=110)
    assert by_stamp(broker, topic) == sorted(body.encode() for body in sent)
    write(broker, {"body": ["7"]}, topic=topic, partition=1)
    assert by_stamp(broker, topic) == sorted([*(body.encode() for body in sent), b"7"])


def test_rows_that_name_themselves_are_the_same_wherever_a_retry_puts_them(broker: Serving) -> None:
    # Where a plan is not deterministic, a row may also come in another task, and with another body.
    topic = make_topic(broker, "Named")
    write(broker, {"body": ["a at 1", "b at 1", "c at 1"], "rowKey": [1, 2, 3]}, topic=topic)
    write(broker, {"body": ["c at 2", "a at 2"], "rowKey": [3, 1]}, topic=topic, partition=5)
    assert [body[:1] for body in by_stamp(broker, topic)] == [b"a", b"b", b"c"]


def test_what_was_read_can_be_written_back(broker: Serving) -> None:
    # The properties of a message that was read have what brokers and clients wrote there; a message has its own.
    topic = make_topic(broker, "Original")
    table = {
        "body": ["1", "2"],
        "tags": ["paid", None],
        "keys": [["a", "b"], None],
        "properties": pa.array([[("amount", "7")], None], pa.map_(pa.string(), pa.string())),
    }
    write(broker, table, topic=topic)
    for columns in ("body tags keys properties", "body properties"):
        to = make_topic(broker, f"Copied{len(columns)}")
        assert write(broker, arrow(rows(broker, columns, subscribe=topic)), topic=to) == 2
        found = {row["body"]: row for row in rows(broker, subscribe=to)}
        row = found[b"1"]
        assert (row["tags"], row["keys"], row["properties"]["amount"]) == ("paid", ["a", "b"], "7")
        assert (found[b"2"]["tags"], found[b"2"]["keys"]) == (None, [])
        assert found[b"1"]["messageId"] != found[b"2"]["messageId"]
    originals = {row["messageId"] for row in rows(broker, "messageId", subscribe=topic)}
    assert originals.isdisjoint(row["messageId"] for row in found.values()), "they are messages of their own"


def arrow(found: list[Any]) -> dict[str, Any]:
    """Rows that were read, as columns to write."""
    kinds = {"properties": pa.map_(pa.string(), pa.string())}
    return {
        name: pa.array([list(row[name].items()) if name in kinds else row[name] for row in found], kinds.get(name))
        for name in found[0]
    }


def test_a_delayed_row_is_delivered_later(broker: Serving) -> None:
    topic = make_topic(broker, "Later")
    assert write(broker, {"body": ["now", "later"], "delayLevel": [0, 1]}, topic=topic) == 2
    assert b"now" in {row["body"] for row in rows(broker, "body", subscribe=topic)}


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ({"body": ["x", None]}, "row 1: the body is missing"),
        ({"body": ["x", ""]}, "row 1, topic Bad: .*the body is empty"),
        ({"body": ["x", "y", "z" * (5 << 20), "x"]}, "row 2, topic Bad: .*5242880 bytes, limit 4194304"),
        ({"body": ["x"], "keys": [["a b"]]}, "no space"),
        ({"body": ["x"], "topic": ["not a topic"]}, "not a topic"),
    ],
)
def test_a_row_that_cannot_be_sent_is_named(broker: Serving, table: dict[str, Any], reason: str) -> None:
    with pytest.raises(MQError, match=reason):
        write(broker, table, topic=make_topic(broker, "Bad", 1))


def test_a_broker_that_is_away_is_told_with_the_topic(broker: Serving) -> None:
    with pytest.raises(MQError, match=r"row 0, topic Orders: .*127\.0\.0\.1:1"):
        write(broker, {"body": ["x"]}, topic="Orders", namesrv="127.0.0.1:1", retryTimeoutMs=0)


@pytest.mark.parametrize(
    ("columns", "topic", "reason"),
    [
        ({"topic": StringType()}, None, "needs one column body"),
        ({"body": StringType(), "value": StringType()}, "T", "needs one column body"),
        ({"body": IntegerType()}, "T", "of type int, must be binary or string"),
        ({"body": BinaryType()}, None, "no destination"),
        ({"body": BinaryType(), "tag": StringType()}, "T", "did you mean 'tags'"),
    ],
)
def test_a_wrong_schema_is_one_sentence(columns: dict[str, DataType], topic: str | None, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        check_columns(schema(**columns), topic)
