"""An expression finds its properties in undecoded bytes as if they had been decoded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.broker.filters.sql.compiled import compile_sql
from hanabi.wire.message.properties import decode_properties

ONE = compile_sql("a = '1'")
FEW = compile_sql("a = '1' AND bb <> '2' OR c IN ('3')")
MANY = compile_sql(" OR ".join(f"p{number} = '1'" for number in range(12)) + " OR a = '1'")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x02",
        b"a\x011",
        b"a\x011\x02",
        b"xa\x011",
        b"b\x01xa\x011",
        b"a\x01\x02",
        b"a\x011\x02a\x01",
        b"a\x01\x02a\x011",
        b"a\x012\x02a\x011",
        b"a\x011\x02a\x012",
        b"a\x01\x01",
        b"\x01a\x011",
        b"c\x013\x02\xff\xfe\x01x",
        b"a",
    ],
)
def test_written_bytes_are_read_as_when_decoded(raw: bytes) -> None:
    for compiled in (ONE, FEW, MANY):
        assert compiled.matches_raw(raw) == compiled.matches(decode_properties(raw))


@given(st.lists(st.sampled_from([b"a", b"bb", b"c", b"1", b"2", b"3", b"p7", b"\x01", b"\x02", b"\xff"]), max_size=30))
def test_any_bytes_are_read_as_when_decoded(pieces: list[bytes]) -> None:
    raw = b"".join(pieces)
    for compiled in (ONE, FEW, MANY):
        assert compiled.matches_raw(raw) == compiled.matches(decode_properties(raw))
