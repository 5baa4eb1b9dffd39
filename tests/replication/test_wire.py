"""The bytes of replication: both directions, cut anywhere, and as Apache 4.9.8 wrote them."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.errors import RemoteProtocolError
from hanabi.replication.wire import (
    HEADER_BYTES,
    PIECE_BYTES_MAX,
    PieceParser,
    ReportParser,
    encode_header,
    encode_report,
)
from tests.golden_frames import GOLDEN
from tests.golden_records import golden_logs

INT64 = st.integers(-(2**63), 2**63 - 1)
OFFSETS = st.integers(0, 2**62)
PIECES = st.lists(st.tuples(OFFSETS, st.binary(max_size=40)), max_size=12)


def cut(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    places = sorted({0, len(data), *(place % (len(data) + 1) for place in cuts)})
    return (data[start:end] for start, end in pairwise(places))


def joined(parser: PieceParser, chunks: Iterator[bytes]) -> list[tuple[int, bytes]]:
    """Return every piece and heartbeat, with the parts of each piece put together again."""
    found: list[tuple[int, bytes]] = []
    for chunk in chunks:
        for offset, data in parser.feed(chunk):
            part = bytes(data)
            if part and found and found[-1][1] and found[-1][0] + len(found[-1][1]) == offset:
                found[-1] = (found[-1][0], found[-1][1] + part)
            else:
                found.append((offset, part))
    return found


def merged(pieces: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """*pieces* as `joined` shows them: adjacent ones are one."""
    parser = PieceParser()
    return joined(parser, iter([encode_header(offset, len(data)) + data for offset, data in pieces]))


@given(st.lists(INT64, max_size=20), st.lists(st.integers(0, 200)))
def test_reports_are_the_same_however_they_are_cut(reports: list[int], cuts: list[int]) -> None:
    parser = ReportParser()
    data = b"".join(map(encode_report, reports))
    assert [report for chunk in cut(data, cuts) for report in parser.feed(chunk)] == reports


@given(PIECES, st.lists(st.integers(0, 600)))
def test_pieces_are_the_same_however_they_are_cut(pieces: list[tuple[int, bytes]], cuts: list[int]) -> None:
    data = b"".join(encode_header(offset, len(body)) + body for offset, body in pieces)
    assert joined(PieceParser(), cut(data, cuts)) == merged(pieces)


@given(PIECES, st.lists(st.integers(0, 600)))
def test_the_parts_of_a_piece_say_where_each_of_them_begins(pieces: list[tuple[int, bytes]], cuts: list[int]) -> None:
    data = b"".join(encode_header(offset, len(body)) + body for offset, body in pieces)
    parser = PieceParser()
    bytes_at = [
        (offset + place, byte)
        for chunk in cut(data, cuts)
        for offset, part in parser.feed(chunk)
        for place, byte in enumerate(part)
    ]
    assert bytes_at == [(offset + place, byte) for offset, body in pieces for place, byte in enumerate(body)]


@given(st.binary(max_size=300), st.lists(st.integers(0, 300)))
def test_any_bytes_are_pieces_or_a_protocol_error(data: bytes, cuts: list[int]) -> None:
    parser = PieceParser()
    try:
        for chunk in cut(data, cuts):
            for offset, part in parser.feed(chunk):
                assert offset >= 0
                assert len(part) <= len(chunk)
    except RemoteProtocolError:
        pass


@pytest.mark.parametrize(
    ("offset", "size"), [(0, -1), (0, PIECE_BYTES_MAX + 1), (-1, 0), (-1, 5), (2**63 - 1, 1), (0, -(2**31))]
)
def test_a_header_that_no_master_sends_is_refused(offset: int, size: int) -> None:
    with pytest.raises(RemoteProtocolError, match="a piece"):
        list(PieceParser().feed(encode_header(offset, size)))


def test_a_claimed_size_costs_no_memory_before_its_bytes_come() -> None:
    parser = PieceParser()
    assert list(parser.feed(encode_header(7, PIECE_BYTES_MAX))) == []
    assert [(piece.offset, bytes(piece.data)) for piece in parser.feed(b"ab")] == [(7, b"ab")]
    assert [(piece.offset, bytes(piece.data)) for piece in parser.feed(b"c")] == [(9, b"c")]


@pytest.mark.parametrize("step", [1, 7, 8, 11, 12, 4096])
def test_the_stream_of_apaches_slave_is_read_and_written_byte_for_byte(step: int) -> None:
    data = (GOLDEN / "ha-slave-to-master.bin").read_bytes()
    parser = ReportParser()
    reports = [report for start in range(0, len(data), step) for report in parser.feed(data[start : start + step])]
    assert reports == [0, *[9512] * 34]
    assert b"".join(map(encode_report, reports)) == data


@pytest.mark.parametrize("step", [1, 11, 12, 13, 1000, 1 << 20])
def test_the_stream_of_apaches_master_is_read_and_written_byte_for_byte(step: int) -> None:
    data = (GOLDEN / "ha-master-to-slave.bin").read_bytes()
    found = joined(PieceParser(), (data[start : start + step] for start in range(0, len(data), step)))
    assert [(offset, len(body)) for offset, body in found] == [(0, 0), (0, 9512), *[(9512, 0)] * 33]
    assert b"".join(encode_header(offset, len(body)) + body for offset, body in found) == data
    assert len(data) == 9512 + 35 * HEADER_BYTES


def test_what_apaches_master_sent_is_the_log_that_its_slave_kept() -> None:
    found = joined(PieceParser(), iter([(GOLDEN / "ha-master-to-slave.bin").read_bytes()]))
    log = golden_logs("store-crashed-slave.tar.gz")[0]
    assert log[: len(found[1][1])] == found[1][1]
