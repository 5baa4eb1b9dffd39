"""The store reader: every message once, in the order of the log, however the tasks are cut."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from hanabi.errors import ConfigError, MQError, StoreError
from hanabi.spark.shared.columns import MESSAGE
from hanabi.store.inspection.home import FileReader, StoreHome
from hanabi.store.inspection.log_scan import LogScan, Whole
from hanabi.wire.message.compression import CompressionType, compress
from hanabi.wire.message.record import decode_record
from hanabi.wire.message.stored import to_message
from hanabi.wire.message.sysflag import with_compression
from tests.golden_records import STORES
from tests.spark.decoded import Row, row_of
from tests.spark.reading import numbers, reader, rows, tasks
from tests.store.sample_stores import FIRST_STORED_MS, flip, make_store, overwrite, snapshot, unpack_golden
from tests.store.stores import message, open_store


def one_by_one(root: Path) -> list[Row]:
    """Return every message of the log, from the readable decoder."""
    with FileReader() as files:
        return [
            row_of(to_message(decode_record(piece.buffer, piece.position, piece.end))) | {"brokerName": None}
            for piece in LogScan(StoreHome.open(root).log_files(), files)
            if isinstance(piece, Whole)
        ]


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("scan", ["queues", "log"])
def test_a_store_of_apache_is_read_whole_and_left_as_it_was(tmp_path: Path, name: str, scan: str) -> None:
    root = unpack_golden(name, tmp_path)
    before = snapshot(root)
    found = rows(root, scan=scan)
    assert snapshot(root) == before
    assert found == one_by_one(root)
    assert len(found) > 3


@pytest.mark.parametrize("scan", ["queues", "log"])
def test_messages_with_long_runs_of_zeros_in_their_properties_are_rows(tmp_path: Path, scan: str) -> None:
    with open_store(tmp_path / "store", commit_log_segment_bytes=1 << 20) as store:
        for zeros in (1, 511, 512, 20_000, 32_760):
            assert store.put(message(b"%d" % zeros, properties={"n": "\0" * zeros})).appended
    found = rows(tmp_path / "store", scan=scan)
    assert [int(row["body"]) for row in found] == [1, 511, 512, 20_000, 32_760]
    assert [len(row["properties"]["n"]) for row in found] == [1, 511, 512, 20_000, 32_760]


@pytest.mark.parametrize("scan", ["queues", "log"])
@pytest.mark.parametrize("partitions", [1, 2, 7, 1000])
def test_every_message_is_in_one_task_and_the_tasks_follow_the_log(tmp_path: Path, scan: str, partitions: int) -> None:
    make_store(tmp_path / "store", 100, queues=3)
    found = tasks(tmp_path / "store", scan=scan, minPartitions=partitions, maxRowsPerBatch=7)
    assert numbers([row for task in found for row in task]) == list(range(100))
    assert min(partitions, 100) / 2 <= len(found) <= partitions
    if partitions == 7:
        assert max(map(len, found)) < 3 * min(map(len, found)), "about the same size"


def test_tasks_are_cut_by_bytes(tmp_path: Path) -> None:
    make_store(tmp_path / "store", 100, queues=3)
    assert [len(task) for task in tasks(tmp_path / "store", maxBytesPerPartition=12_000)] == [
        pytest.approx(33, abs=3)
    ] * 3


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 9), st.integers(1, 9))
def test_rows_do_not_depend_on_how_they_are_cut(count: int, queues: int, partitions: int, batch: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "store")
        make_store(root, count, queues=queues)
        found = rows(root, minPartitions=partitions, maxRowsPerBatch=batch)
        assert found == one_by_one(root)


def test_a_queue_that_does_not_begin_at_0_is_read_from_its_first_message(tmp_path: Path) -> None:
    make_store(tmp_path / "store", 30, queues=2, first_queue_offset=1_003)
    found = rows(tmp_path / "store")
    assert numbers(found) == list(range(30))
    assert min(row["queueOffset"] for row in found) == 1_003


def test_messages_whose_log_file_was_deleted_are_not_missed(tmp_path: Path) -> None:
    places = make_store(tmp_path / "store", 60)
    oldest = sorted((tmp_path / "store" / "commitlog").iterdir())[0]
    oldest.unlink()
    gone = sum(place < 4_096 for place in places)
    assert numbers(rows(tmp_path / "store")) == list(range(gone, 60))
    assert numbers(rows(tmp_path / "store", scan="log")) == list(range(gone, 60))


def test_a_running_brokers_directory_is_read_up_to_what_it_has_written(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        for number in range(30):
            store.put(message(b"%d" % number, queue_id=number % 2))
        store.flush()
        for number in range(30, 35):
            store.put(message(b"%d" % number))
        # The queue keeps its newest entries in memory; the log has everything at once.
        assert numbers(rows(tmp_path / "store")) == list(range(30))
        assert numbers(rows(tmp_path / "store", scan="log")) == list(range(35))
        store.flush()
        assert numbers(rows(tmp_path / "store")) == list(range(35))


def test_a_plan_is_not_changed_by_what_is_written_later(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        for scan in ("queues", "log"):
            store.put(message(b"1"))
            store.flush()
            planned = reader(tmp_path / "store", scan=scan)
            plan = planned.partitions()
            expected = [batch.num_rows for task in plan for batch in planned.read(task)]
            store.put(message(b"2"))
            store.flush()
            assert [batch.num_rows for task in plan for batch in planned.read(task)] == expected


def test_compressed_bodies_are_unpacked(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        for kind in CompressionType:
            store.put(message(compress(b"the same", kind), sys_flag=with_compression(0, kind)))
        store.put(message(b"the same"))
        store.flush()
    assert [row["body"] for row in rows(tmp_path / "store")] == [b"the same"] * 4


def test_an_empty_store_has_no_rows(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        store.put(message())
        store.flush()
    shutil.rmtree(tmp_path / "store" / "consumequeue")
    made = reader(tmp_path / "store")
    assert made.partitions() == []
    from pyspark.sql.datasource import InputPartition

    assert list(made.read(InputPartition(None))) == [], "which is what Spark asks for then"


def test_a_log_without_queues_can_be_scanned(tmp_path: Path) -> None:
    make_store(tmp_path / "store", 60)
    shutil.rmtree(tmp_path / "store" / "consumequeue")
    found = tasks(tmp_path / "store", scan="log", minPartitions=3)
    assert numbers([row for task in found for row in task]) == list(range(60))
    assert len(found) == 3


def test_the_log_may_lie_elsewhere(tmp_path: Path) -> None:
    make_store(tmp_path / "store", 20)
    (tmp_path / "store" / "commitlog").rename(tmp_path / "fast-disk")
    assert numbers(rows(tmp_path / "store", commitLog=tmp_path / "fast-disk")) == list(range(20))


# What is wanted


def test_topics_and_queues_are_chosen_by_name(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        for number in range(12):
            store.put(message(b"%d" % number, topic=("Orders", "Old-orders", "Bills")[number % 3], queue_id=number % 2))
        store.flush()
    root = tmp_path / "store"
    for scan in ("queues", "log"):
        assert numbers(rows(root, scan=scan, subscribe="Orders, Bills")) == [0, 2, 3, 5, 6, 8, 9, 11]
        assert numbers(rows(root, scan=scan, subscribePattern="(?i).*orders")) == [0, 1, 3, 4, 6, 7, 9, 10]
        assert numbers(rows(root, scan=scan, assign='{"Orders": [0], "Bills": [0, 1]}')) == [0, 2, 5, 6, 8, 11]
    assert rows(root, brokerName="broker-b")[0]["brokerName"] == "broker-b"


@pytest.mark.parametrize("scan", ["queues", "log"])
@pytest.mark.parametrize(("start", "end"), [(None, 20), (20, None), (13, 37), (0, 60), (59, 60), (60, 80), (7, 7)])
def test_times_are_cut_to_the_message(tmp_path: Path, scan: str, start: int | None, end: int | None) -> None:
    make_store(tmp_path / "store", 60, queues=3)  # one a second
    times = {"startingTimestamp": start, "endingTimestamp": end}
    options: dict[str, Any] = {name: FIRST_STORED_MS + at * 1000 for name, at in times.items() if at is not None}
    found = rows(tmp_path / "store", scan=scan, **options)
    assert numbers(found) == [*range(min(start or 0, 60), min(60 if end is None else end, 60))]


def test_a_time_may_be_written_as_people_write_it(tmp_path: Path) -> None:
    make_store(tmp_path / "store", 5)
    assert numbers(rows(tmp_path / "store", startingTimestamp="2023-11-14T22:13:22")) == [2, 3, 4]
    assert numbers(rows(tmp_path / "store", endingTimestamp="2023-11-14T23:13:22+01:00")) == [0, 1]


def test_messages_outside_of_the_time_are_not_looked_at(tmp_path: Path) -> None:
    places = make_store(tmp_path / "store", 60)
    for number, place in enumerate(places):  # what lies there would be damage, if anybody looked
        if not 24 <= number < 36:
            flip(tmp_path / "store" / "commitlog" / f"{place - place % 4_096:020d}", place % 4_096 + 100)
    assert numbers(rows(tmp_path / "store", **seconds(24, 36))) == list(range(24, 36))


@pytest.mark.parametrize("torn", range(0, 60, 7))
def test_a_search_by_time_that_meets_damage_loses_nothing_else(tmp_path: Path, torn: int) -> None:
    places = make_store(tmp_path / "store", 60, queues=1)
    place = places[torn]
    overwrite(tmp_path / "store" / "commitlog" / f"{place - place % 4_096:020d}", place % 4_096, bytes(91))
    found = rows(tmp_path / "store", onDamage="skip", **seconds(20, 40))
    assert numbers(found) == [number for number in range(20, 40) if number != torn]


def seconds(start: int, end: int) -> dict[str, Any]:
    """Options for the messages [start, end) of a store with one message a second."""
    return {
        "startingTimestamp": FIRST_STORED_MS + start * 1_000,
        "endingTimestamp": FIRST_STORED_MS + end * 1_000,
    }


def test_tags_are_told_apart_even_where_their_hashes_are_the_same(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        for number, tag in enumerate(["Aa", "BB", "C", "", "Aa"]):  # "Aa" and "BB" have one hash
            store.put(message(b"%d" % number, properties={"TAGS": tag} if tag else {}))
        store.flush()
    for scan in ("queues", "log"):
        assert numbers(rows(tmp_path / "store", scan=scan, tags="Aa")) == [0, 4]
        assert numbers(rows(tmp_path / "store", scan=scan, tags="BB || C")) == [1, 2]
        assert numbers(rows(tmp_path / "store", scan=scan, tags="*")) == [0, 1, 2, 3, 4]


def test_only_the_columns_asked_for_are_there_in_the_order_asked_for(tmp_path: Path) -> None:
    make_store(tmp_path / "store", 3)
    schema = StructType().add("tags", "string").add("queueId", "integer").add("record", "binary")
    found = rows(tmp_path / "store", schema)
    assert [list(row) for row in found] == [["tags", "queueId", "record"]] * 3
    assert [int(decode_record(row["record"]).body) for row in found] == [0, 1, 2]
    assert list(rows(tmp_path / "store", rawRecord=True)[0]) == [*MESSAGE, "record"]


def test_a_light_queue_gives_no_rows_of_its_own(tmp_path: Path) -> None:
    make_store(tmp_path / "store", 10)
    shutil.copytree(tmp_path / "store" / "consumequeue" / "T", tmp_path / "store" / "consumequeue" / "%LMQ%a")
    assert numbers(rows(tmp_path / "store")) == list(range(10))
    with pytest.raises(ConfigError, match="light queue"):
        rows(tmp_path / "store", subscribe="%LMQ%a")


def test_an_entry_for_a_message_that_belongs_to_two_queues_is_neither_a_row_nor_damage(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        store.put(
            message(b"1", topic="Own", properties={"INNER_MULTI_DISPATCH": "Other", "INNER_MULTI_QUEUE_OFFSET": "0"})
        )
        store.flush()
    queues = tmp_path / "store" / "consumequeue"
    if not (queues / "Other").exists():
        shutil.copytree(queues / "Own", queues / "Other")
    assert [row["topic"] for row in rows(tmp_path / "store")] == ["Own"]


# Bad input


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscribe": "Z"}, "has no topic 'Z'"),
        ({"subscribe": "T", "assign": '{"T":[0]}'}, "exclude each other"),
        ({"assign": '{"T":[9]}'}, "has no queue 9 of topic 'T'"),
        ({"assign": "T"}, "assign is not JSON"),
        ({"assign": "[1]"}, "must be a JSON object"),
        ({"assign": '{"T": "0"}'}, 'such as {"Orders": [0, 1]}'),
        ({"subscribe": " , "}, "names nothing"),
        ({"subscribePattern": "("}, "no regular expression"),
        ({"startingTimestamp": "yesterday"}, "milliseconds since 1970"),
        ({"startingTimestamp": 9, "endingTimestamp": 8}, "lies behind"),
        ({"onDamage": "ignore"}, "must be one of fail, skip, end"),
        ({"checkCrc": "perhaps"}, "must be true or false"),
        ({"minPartitions": "0"}, "at least 1"),
        ({"onDamaged": "skip"}, "has no option 'ondamaged': did you mean 'onDamage'?"),
        ({"subscirbe": "T"}, "did you mean 'subscribe'?"),
        ({"xyz": "T"}, "rocketmq-store has no option 'xyz'"),
    ],
)
def test_a_wrong_option_is_told_in_a_sentence_before_anything_is_read(
    tmp_path: Path, options: dict[str, Any], sentence: str
) -> None:
    make_store(tmp_path / "store", 3)
    with pytest.raises(ConfigError) as told:
        reader(tmp_path / "store", **options).partitions()
    assert sentence in str(told.value)
    assert "\n" not in str(told.value)


def test_a_directory_that_is_no_store_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nowhere does not exist"):
        reader(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="is not a store: there is no"):
        reader(tmp_path)
    (tmp_path / "commitlog").mkdir()
    with pytest.raises(StoreError, match="no file of a commit log"):
        reader(tmp_path)
    with pytest.raises(ConfigError, match="not hdfs:"):
        reader(Path("x"), path="hdfs://host/store")
    with pytest.raises(ConfigError, match=r"load\(dir\)"):
        reader(Path("x"), path="")


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        (StructType().add("tag", "string"), "there is no column 'tag': did you mean 'tags'?"),
        (StructType().add("body", "string"), "column 'body' is of type binary, not string"),
    ],
)
def test_a_wrong_schema_is_told_in_a_sentence(tmp_path: Path, schema: StructType, sentence: str) -> None:
    make_store(tmp_path / "store", 3)
    with pytest.raises(MQError) as told:
        reader(tmp_path / "store", schema)
    assert str(told.value) == sentence
