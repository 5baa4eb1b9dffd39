"""The pipeline `audit`: clean stores are clean, and every kind of damage is listed. `hanabi store verify` agrees."""

from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from hanabi.errors import ConfigError, StoreError
from hanabi.spark.pipelines.audit.keys import hash_texts
from hanabi.spark.pipelines.audit.pipeline import PIPELINE, AuditOptions
from hanabi.spark.pipelines.contract import Outcome
from hanabi.store.index.index_file import ENTRY as INDEX_ENTRY
from hanabi.store.index.index_file import HEADER, SLOT
from hanabi.store.index.key_hash import key_hash
from hanabi.store.inspection.home import StoreHome
from hanabi.store.inspection.verify.verify import VerifyReport, verify
from hanabi.store.queues.consume_queue import ENTRY
from tests.spark.pipelines.running import Steps
from tests.spark.pipelines.tables import rows_of
from tests.store.sample_stores import LOG_FILE_BYTES, delayed_store, flip, make_store, overwrite, unpack_golden

QUEUE_FILE_BYTES = 10 * ENTRY.size
SLOTS = 7
GOLDEN_STORES = ["store-clean.tar.gz", "store-crashed-slave.tar.gz"]


def audit(spark: SparkSession, root: Path, **options: object) -> Outcome:
    return PIPELINE.run(spark, AuditOptions(store=str(root), **options), Steps())  # type: ignore[arg-type]


def agrees(outcome: Outcome, report: VerifyReport) -> None:
    """Both looked at the same, and say the same of it."""
    facts = outcome.facts
    assert (facts["log_files"], facts["records"]) == (report.log.files, report.log.records)
    assert (facts["log_min"], facts["queues"]) == (report.log.min_offset, report.queues.queues)
    assert facts["queue_entries"] == report.queues.entries
    assert facts["queue_entries_expired"] == report.queues.expired
    assert facts["queue_entries_blank"] == report.queues.blank
    assert facts["messages_pending"] == report.queues.pending
    assert facts["messages_of_deleted_topics"] == report.queues.deleted
    assert facts["index_files"] == report.index.files
    assert facts["index_entries"] == report.index.entries
    assert facts["index_entries_expired"] == report.index.expired


@pytest.mark.parametrize("name", GOLDEN_STORES)
def test_a_store_of_apache_is_clean(spark: SparkSession, tmp_path: Path, name: str) -> None:
    root = unpack_golden(name, tmp_path)
    outcome = audit(spark, root)
    assert outcome.complaint is None, rows_of(outcome, "differences")
    report = verify(StoreHome.open(root))
    assert report.clean
    agrees(outcome, report)


def test_delivery_times_are_compared_only_by_levels_that_are_given(spark: SparkSession, tmp_path: Path) -> None:
    root = delayed_store(tmp_path, (7_000, 9_000), [1, 2, 1, 1])
    outcome = audit(spark, root)
    assert outcome.complaint is None, rows_of(outcome, "differences")
    agrees(outcome, verify(StoreHome.open(root)))
    by_others = rows_of(audit(spark, root, delay_levels="7s 5s"), "differences")
    assert [(row["difference"], row["queue_id"], row["queue_offset"]) for row in by_others] == [("wrong-tags", 1, 0)]
    queue = root / "consumequeue/SCHEDULE_TOPIC_XXXX/0/00000000000000000000"
    log_offset, size, _ = ENTRY.unpack_from(queue.read_bytes(), 2 * ENTRY.size)
    overwrite(queue, 2 * ENTRY.size, ENTRY.pack(log_offset, size, 65))
    (row,) = rows_of(audit(spark, root), "differences")
    assert (row["difference"], row["queue_id"], row["queue_offset"]) == ("wrong-tags", 0, 2)
    assert str(row["reason"]).endswith("tags code a time of delivery")


def _log(root: Path, log_offset: int) -> tuple[Path, int]:
    base = log_offset - log_offset % LOG_FILE_BYTES
    return root / "commitlog" / f"{base:020d}", log_offset - base


def _entry(root: Path, queue_id: int, queue_offset: int) -> tuple[Path, int]:
    position = queue_offset * ENTRY.size
    base = position - position % QUEUE_FILE_BYTES
    return root / "consumequeue" / "T" / str(queue_id) / f"{base:020d}", position - base


def _index_entry(root: Path, number: int) -> tuple[Path, int]:
    (path,) = (root / "index").iterdir()
    return path, HEADER.size + SLOTS * SLOT.size + number * INDEX_ENTRY.size


def test_every_kind_of_damage_is_listed_where_it_is(spark: SparkSession, tmp_path: Path) -> None:
    """160 messages in two queues, damaged in a dozen places that do not touch each other. That the log lacks its first
    file is no damage: retention deletes so."""
    root = tmp_path / "store"
    places = make_store(root, 160, slots=SLOTS)  # message n is at offset n // 2 of queue n % 2
    (root / "commitlog" / f"{0:020d}").unlink()
    assert places[13] > LOG_FILE_BYTES > places[9]
    entries = [
        ENTRY.unpack_from(path.read_bytes(), at) for path, at in (_entry(root, n % 2, n // 2) for n in range(160))
    ]

    path, at = _log(root, places[84])
    flip(path, at + 100)  # its body
    path, at = _log(root, places[112])
    overwrite(path, at, bytes(LOG_FILE_BYTES - at))
    first, *tail = (number for number in range(112, 160) if _log(root, places[number])[0] == path)
    assert tail
    assert tail[-1] < 159
    path, at = _entry(root, 0, 45)  # message 90
    overwrite(path, at, ENTRY.pack(places[90], entries[90][1] + 1, entries[90][2]))
    path, at = _entry(root, 1, 6)  # message 13
    overwrite(path, at, ENTRY.pack(places[13], entries[13][1], 99))
    path, at = _entry(root, 0, 8)  # message 16
    overwrite(path, at, ENTRY.pack(places[16] + 1, *entries[16][1:]))
    path, at = _entry(root, 1, 9)  # message 19
    overwrite(path, at, ENTRY.pack(places[21], *entries[21][1:]))
    path, at = _entry(root, 0, 12)  # message 24
    overwrite(path, at, bytes(ENTRY.size))
    path, at = _entry(root, 1, 13)  # message 27
    overwrite(path, at, ENTRY.pack(-5, 7, 0))
    path, at = _entry(root, 0, 15)  # message 30
    overwrite(path, at, ENTRY.pack(places[-1] + 10_000_000, *entries[30][1:]))
    _entry(root, 1, 35)[0].unlink()
    # Three keys each: U, k, both. Entry 3 n + 1 is the first of message n.
    path, at = _index_entry(root, 3 * 40 + 1)
    overwrite(path, at, INDEX_ENTRY.pack(*_changed(path, at, log_offset=places[40] + 8)))
    path, at = _index_entry(root, 3 * 44 + 1)
    overwrite(path, at, INDEX_ENTRY.pack(*_changed(path, at, seconds=3)))
    path, at = _index_entry(root, 3 * 48 + 1)
    overwrite(path, at, INDEX_ENTRY.pack(*_changed(path, at, hashed_key_by=SLOTS)))  # of the same slot
    path, at = _index_entry(root, 3 * 52 + 1)
    overwrite(path, at, INDEX_ENTRY.pack(*_changed(path, at, previous=1)))

    outcome = audit(spark, root, output=str(tmp_path / "out"), rows=1_000)
    report = verify(StoreHome.open(root))
    found = defaultdict(set)
    for row in rows_of(outcome, "differences"):
        found[row["difference"]].add((row["queue_id"], row["queue_offset"], row["log_offset"]))
    lost = {(1, offset, places[2 * offset + 1]) for offset in range(30, 40)}
    assert dict(found) == {
        "broken-record": {(None, None, places[84]), (None, None, places[first])},
        "leads-to-broken": {(0, 42, places[84]), (0, first // 2, places[first])},
        "index-leads-to-broken": {(None, None, places[84]), (None, None, places[first])},
        "wrong-size": {(0, 45, places[90])},
        "wrong-tags": {(1, 6, places[13])},
        "points-nowhere": {
            (0, 8, places[16] + 1),
            (0, 15, places[-1] + 10_000_000),
            *((number % 2, number // 2, places[number]) for number in tail),
        },
        "other-message": {(1, 9, places[21])},
        "no-entry": {(0, 12, places[24]), (1, 13, places[27]), *lost},
        "gap": {(0, 12, None)},
        "no-entry-there": {(1, 13, None)},
        "queue-file": {(1, 30, None)},
        "index-points-nowhere": {(None, None, places[40] + 8), *((None, None, places[number]) for number in tail)},
        "index-other-time": {(None, None, places[44])},
        "index-other-key": {(None, None, places[48])},
        "index-chain": {(None, None, None)},
        "index-lacks-key": {(0, 20, places[40]), (0, 24, places[48])},
    }
    assert not report.clean
    assert outcome.complaint == f"{root}: {outcome.facts['differences']} differences between log, queues and index"
    assert spark.read.parquet(str(tmp_path / "out")).count() == outcome.facts["differences"]
    by_kind = {row["difference"]: row["count"] for row in rows_of(outcome, "how many")}
    assert by_kind["no-entry"] == 12
    agrees(outcome, report)


def _changed(
    path: Path,
    at: int,
    *,
    log_offset: int | None = None,
    seconds: int | None = None,
    previous: int | None = None,
    hashed_key_by: int = 0,
) -> tuple[int, int, int, int]:
    old = INDEX_ENTRY.unpack_from(path.read_bytes(), at)
    return (
        old[0] + hashed_key_by,
        old[1] if log_offset is None else log_offset,
        old[2] if seconds is None else seconds,
        old[3] if previous is None else previous,
    )


@settings(deadline=None, max_examples=50)
@given(st.lists(st.one_of(st.text(max_size=40), st.text("kT#-", min_size=200, max_size=400))))
def test_hashes_of_many_keys_are_those_of_one(texts: list[str]) -> None:
    raw = [text.encode("utf-8", "replace").decode() for text in texts]
    assert hash_texts(pa.array(raw, pa.string())).tolist() == [key_hash(text) for text in raw]


def test_what_is_no_store_is_told_in_a_sentence(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a store: there is no"):
        audit(spark, tmp_path)
    with pytest.raises(ConfigError, match="not 'soon'"):
        AuditOptions(store=str(tmp_path), delay_levels="soon")
