"""Filters of a query: what is pushed down is never less than what the filters let through."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from hanabi.spark.pushdown import narrow
from hanabi.spark.selection import Selection
from tests.spark.reading import numbers, rows_with
from tests.store.sample_stores import FIRST_STORED_MS, make_store

RANGES: dict[type[Any], Any] = {
    GreaterThan: lambda one, other: one > other,
    GreaterThanOrEqual: lambda one, other: one >= other,
    LessThan: lambda one, other: one < other,
    LessThanOrEqual: lambda one, other: one <= other,
    EqualTo: lambda one, other: one == other,
}


def at(second: float) -> datetime:
    return datetime.fromtimestamp(FIRST_STORED_MS / 1000, UTC) + timedelta(seconds=second)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(("queueId",), 1)], range(1, 30, 3)),
        ([In(("queueId",), (0, 2)), LessThan(("queueOffset",), 2)], [0, 2, 3, 5]),
        ([GreaterThanOrEqual(("queueOffset",), 9)], [27, 28, 29]),
        ([EqualNullSafe(("queueOffset",), 9)], [27, 28, 29]),
        ([In(("queueOffset",), (2, 4))], range(6, 15)),  # Spark takes out what lies between
        ([EqualTo(("topic",), "Other")], []),
        ([EqualTo(("topic",), "T"), EqualTo(("topic",), "Other")], []),
        ([EqualTo(("tags",), "A")], range(30)),
        ([In(("tags",), ("B", "C"))], []),
        ([GreaterThanOrEqual(("storeTimestamp",), at(10)), LessThan(("storeTimestamp",), at(12))], [10, 11]),
        ([GreaterThan(("storeTimestamp",), at(10.0005)), LessThanOrEqual(("storeTimestamp",), at(12))], [11, 12]),
        ([EqualTo(("storeTimestamp",), at(10))], [10]),
        ([Not(EqualTo(("queueId",), 1)), StringStartsWith(("topic",), "X")], range(30)),  # not used
        ([EqualTo(("properties", "x"), "y"), EqualTo(("queueId",), None)], range(30)),
    ],
)
def test_only_what_may_match_is_read_and_spark_checks_again(
    tmp_path: Path, filters: list[Filter], expected: Any
) -> None:
    make_store(tmp_path / "store", 30, queues=3)
    found, rest = rows_with(tmp_path / "store", filters)
    assert numbers(found) == list(expected)
    assert rest == filters


@given(
    st.lists(st.tuples(st.sampled_from(list(RANGES)), st.integers(-5, 40)), max_size=4),
    st.lists(st.tuples(st.sampled_from(list(RANGES)), st.integers(0, 20_000_000)), max_size=4),
)
def test_no_offset_or_time_that_matches_is_ruled_out(
    offsets: list[tuple[type[Any], int]], times: list[tuple[type[Any], int]]
) -> None:
    filters = [kind(("queueOffset",), value) for kind, value in offsets]
    filters += [kind(("storeTimestamp",), at(microseconds / 1_000_000)) for kind, microseconds in times]
    wanted = narrow(Selection(), filters)
    for offset in range(40):
        if all(RANGES[kind](offset, value) for kind, value in offsets):
            assert (wanted.from_offset or 0) <= offset
            assert wanted.to_offset is None or offset < wanted.to_offset
    for second in range(20):
        if all(RANGES[kind](second * 1_000_000, value) for kind, value in times):
            assert (wanted.from_ms or 0) <= FIRST_STORED_MS + second * 1000
            assert wanted.to_ms is None or FIRST_STORED_MS + second * 1000 < wanted.to_ms
