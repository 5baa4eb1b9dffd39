"""Tests of what the other side of a replication connection may say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.replication.rules.verdicts import (
    LogRange,
    Refusal,
    RefusalKind,
    check_acknowledgement,
    check_piece,
    start_position,
)

FILE_BYTES = 1000
LOG = LogRange(2000, 4500, FILE_BYTES)


@pytest.mark.parametrize("report", [2000, 2001, 3999, 4500])
def test_a_slave_within_the_log_starts_exactly_where_it_asks(report: int) -> None:
    assert start_position(report, LOG) == report


@pytest.mark.parametrize(
    ("log", "start"),
    [
        (LOG, 4000),
        (LogRange(0, 0, FILE_BYTES), 0),
        (LogRange(0, 999, FILE_BYTES), 0),
        (LogRange(0, 1000, FILE_BYTES), 1000),  # the last file is full
        (LogRange(2000, 2000, FILE_BYTES), 2000),
    ],
)
def test_an_empty_slave_starts_with_the_last_file(log: LogRange, start: int) -> None:
    assert start_position(0, log) == start


@pytest.mark.parametrize(
    ("report", "kind", "words"),
    [
        (1999, RefusalKind.BELOW_START, "the oldest file here begins at 2000"),
        (1, RefusalKind.BELOW_START, "asks for the log from 1 on,"),
        (4501, RefusalKind.BEYOND_END, "the log here ends at 4500"),
        (-1, RefusalKind.NOT_A_SLAVE, "no slave"),
        (-(2**63), RefusalKind.NOT_A_SLAVE, "no slave"),
        (int.from_bytes(b"GET / HT", "big"), RefusalKind.NOT_A_SLAVE, "b'GET / HT'"),
        (int.from_bytes(b"\x16\x03\x01\x02\x00\x01\x00\x01", "big"), RefusalKind.NOT_A_SLAVE, "no slave"),
    ],
)
def test_a_first_report_outside_the_log_is_refused_with_the_numbers(report: int, kind: RefusalKind, words: str) -> None:
    verdict = start_position(report, LOG)
    assert isinstance(verdict, Refusal)
    assert verdict.kind is kind
    assert words in verdict.text


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 100), st.integers(0, 10_000))
def test_no_first_report_starts_outside_the_log(report: int, first_file: int, size: int) -> None:
    log = LogRange(first_file * FILE_BYTES, first_file * FILE_BYTES + size, FILE_BYTES)
    verdict = start_position(report, log)
    assert isinstance(verdict, Refusal) or log.start <= verdict <= log.end
    assert isinstance(verdict, int) == (report == 0 or log.start <= report <= log.end)


def test_acknowledgements_grow_up_to_what_was_sent() -> None:
    assert check_acknowledgement(5, previous=5, sent=9) is None
    assert check_acknowledgement(9, previous=5, sent=9) is None
    beyond = check_acknowledgement(10, previous=5, sent=9)
    assert beyond
    assert beyond.kind is RefusalKind.ACK_BEYOND_SENT
    back = check_acknowledgement(4, previous=5, sent=9)
    assert back
    assert back.kind is RefusalKind.ACK_BACKWARDS


@pytest.mark.parametrize("size", [0, 10])
def test_a_piece_and_a_heartbeat_must_be_at_the_end_of_the_slaves_log(size: int) -> None:
    assert check_piece(4500, size, own_end=4500, file_bytes=FILE_BYTES) is None
    for offset in (4499, 4501, 0, 5000):
        refusal = check_piece(offset, size, own_end=4500, file_bytes=FILE_BYTES)
        assert refusal
        assert refusal.kind is RefusalKind.OTHER_OFFSET
        assert "the log here ends at 4500" in refusal.text


def test_an_empty_slave_takes_the_start_of_any_file_and_nothing_else() -> None:
    assert check_piece(0, 0, own_end=0, file_bytes=FILE_BYTES) is None
    assert check_piece(3000, 10, own_end=0, file_bytes=FILE_BYTES) is None
    refusal = check_piece(3001, 10, own_end=0, file_bytes=FILE_BYTES)
    assert refusal
    assert "mappedFileSizeCommitLog" in refusal.text
