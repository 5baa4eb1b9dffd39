"""Bytes of a master's log are checked record by record, however they are cut."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.errors import LogDiverged
from hanabi.store.log.record_chain import RecordChain
from hanabi.wire.message.record import encode_blank, encode_record
from tests.golden_records import STORES, golden_logs
from tests.store.stores import HOST

FILE_BYTES = 1_000


def record(size: int, log_offset: int) -> bytes:
    """Return a record of *size* bytes."""
    parts = {"topic": b"T", "queue_id": 0, "born_timestamp_ms": 1, "born_host": HOST, "store_host": HOST}
    empty = len(encode_record(body=b"", log_offset=log_offset, **parts))  # type: ignore[arg-type]
    return bytes(encode_record(body=b"x" * (size - empty), log_offset=log_offset, **parts))  # type: ignore[arg-type]


@cache
def sample_log() -> tuple[bytes, list[int]]:
    """Return a log of three files with a long filler, the shortest one, and one that is shorter than a head; and its
    ends."""
    log, ends = b"", [0]
    for sizes in ((300, 400, 200), (150, 842), (120, 130, 140, 580)):
        for size in sizes:
            log += record(size, len(log))
            ends.append(len(log))
        left = FILE_BYTES - len(log) % FILE_BYTES
        log += encode_blank(left).ljust(left, b"\0")
        ends.append(len(log))
    return log, ends


def fed(data: bytes, cuts: list[int], start: int = 0) -> RecordChain:
    chain, position = RecordChain.at(start, FILE_BYTES), 0
    for place in sorted({place % (len(data) + 1) for place in cuts} | {len(data)}):
        chain = chain.after(memoryview(data)[position:place])
        position = place
        check_ends(chain, start)
    return chain


def check_ends(chain: RecordChain, start: int) -> None:
    ends = [end for end in sample_log()[1] if end >= start]
    assert chain.whole_to == max(end for end in ends if end <= chain.received_to)


@given(st.lists(st.integers(0, 3_000), max_size=30), st.integers(0, 3_000))
def test_the_whole_records_are_known_however_the_log_is_cut(cuts: list[int], size: int) -> None:
    log, _ = sample_log()
    chain = fed(log[:size], cuts)
    assert chain.received_to == size


def test_one_byte_at_a_time_is_the_same() -> None:
    log, _ = sample_log()
    assert fed(log, list(range(len(log)))) == RecordChain.at(0, FILE_BYTES).after(log)


@given(st.data())
def test_a_log_that_differs_is_noticed_before_its_first_record_is_whole(data: st.DataObject) -> None:
    log, ends = sample_log()
    start = data.draw(st.sampled_from(ends[:-1]))
    other = data.draw(st.integers(0, len(log) - 100).filter(lambda place: place != start))
    cuts = data.draw(st.lists(st.integers(0, 1_000), max_size=8))
    with pytest.raises(LogDiverged, match=f"no message begins at {start} "):
        fed(log[other : other + 100], cuts, start)


@given(st.binary(min_size=36, max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_garbage_is_no_log(garbage: bytes, cuts: list[int]) -> None:
    with pytest.raises(LogDiverged):
        fed(garbage, cuts)


@pytest.mark.parametrize("name", STORES)
def test_the_logs_of_apache_are_chains(name: str) -> None:
    for number, content in enumerate(golden_logs(name)):
        chain = RecordChain.at(number * len(content), len(content))
        end = content.rstrip(b"\0")
        for start in range(0, len(end), 777):
            chain = chain.after(end[start : start + 777])
        assert chain.next >= chain.received_to
