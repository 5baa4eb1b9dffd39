"""Properties, and the tag hash that is made from one of them."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.errors import MQError
from hanabi.message import Message
from hanabi.wire.message import property_names as names
from hanabi.wire.message.properties import (
    PROPERTIES_BYTES_MAX,
    decode_properties,
    encode_properties,
    find_property,
    format_properties,
    join_properties,
    parse_properties,
    sending_properties,
)
from hanabi.wire.message.record import decode_records
from hanabi.wire.message.tags import java_hash, tags_code
from tests.golden_records import frames_with_records

pytestmark = pytest.mark.pure

any_text = st.text(st.characters(codec="utf-8"), max_size=20)
property_names = any_text.map(lambda text: text.replace("\x01", "").replace("\x02", "")).filter(bool)
property_values = any_text.map(lambda text: text.replace("\x02", "")).filter(bool)
any_properties = st.dictionaries(property_names, property_values, max_size=6)


@given(any_properties)
def test_properties_come_back_as_they_were(properties: dict[str, str]) -> None:
    assert decode_properties(encode_properties(properties)) == properties
    assert parse_properties(format_properties(properties) + "\x02") == properties  # as 5.x writes them


def test_there_is_no_separator_behind_the_last_one() -> None:
    assert encode_properties({"a": "1", "city": "杭州"}) == b"a\x011\x02city\x01" + "杭州".encode()
    assert encode_properties({}) == b""


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("\x02\x02", {}),
        ("a\x011\x02\x02b\x012\x02", {"a": "1", "b": "2"}),
        ("a\x011\x02a\x012", {"a": "2"}),  # the last one wins
        ("a\x01", {}),  # no value
        ("\x01v", {}),  # no name
        ("ab", {}),  # no separator
        ("ab\x02c\x01d", {"c": "d"}),
        ("a\x01b\x01c", {"a": "b\x01c"}),
    ],
)
def test_odd_properties_are_read_as_java_reads_them(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


# made of few pieces, so that separators, equal names and empty values are common
_PIECES = st.sampled_from([b"\x01", b"\x02", b"A", b"TAGS", b"S", "杭".encode(), b"\xff"])


@given(st.lists(_PIECES, max_size=12).map(b"".join))
def test_finding_one_property_is_the_same_as_decoding_all(raw: bytes) -> None:
    properties = decode_properties(raw)
    for name in ("TAGS", "A", "S", "AA"):
        assert find_property(raw, name.encode()) == properties.get(name)


def test_a_property_is_found_where_similar_ones_stand_around_it() -> None:
    assert find_property(b"TAGS\x01A\x02TAGS\x01", b"TAGS") == "A"  # the last one has no value
    assert find_property(b"TAGS\x01A\x02TAGS\x01B\x02", b"TAGS") == "B"
    assert find_property(b"MYTAGS\x01A\x02x\x01TAGS\x01", b"TAGS") is None


@pytest.mark.parametrize("properties", [{"": "v"}, {"a\x01": "v"}, {"a\x02": "v"}, {"a": "v\x02"}])
def test_properties_that_would_be_read_back_differently_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(MQError, match="separator"):
        format_properties(properties)


def test_properties_over_the_limit_are_refused() -> None:
    assert len(encode_properties({"a": "v" * (PROPERTIES_BYTES_MAX - 2)})) == PROPERTIES_BYTES_MAX
    with pytest.raises(MQError, match="limit 32767"):
        encode_properties({"a": "v" * (PROPERTIES_BYTES_MAX - 1)})


def test_half_a_surrogate_pair_is_written_as_java_writes_it() -> None:
    assert encode_properties({"a": "x\ud83dy"}) == b"a\x01x?y"


@given(any_properties, any_properties)
def test_joined_properties_hold_both(first: dict[str, str], second: dict[str, str]) -> None:
    joined = join_properties(encode_properties(first), encode_properties(second))
    assert decode_properties(joined) == {**first, **second}
    trailing = join_properties(encode_properties(first) + b"\x02", encode_properties(second))
    assert decode_properties(trailing) == {**first, **second}


def test_golden_properties_encode_to_the_same_bytes() -> None:
    raws = {record.properties for _, command in frames_with_records() for record in decode_records(command.body)}
    # The broker adds a batch's properties to those of its messages, so some names are there twice.
    raws = {raw for raw in raws if raw.count(b"\x01") == len(decode_properties(raw))}
    assert len(raws) > 20
    for raw in raws:
        assert encode_properties(decode_properties(raw)) == raw


def test_a_message_travels_with_all_that_it_says() -> None:
    message = Message("T", b"", tags="TagA", keys=["k1", "k2"], properties={"a": "1"}, delay_level=3)
    assert sending_properties(message) == {"a": "1", "TAGS": "TagA", "KEYS": "k1 k2", "DELAY": "3", "WAIT": "true"}
    assert sending_properties(Message("T", b"", wait_stored=False)) == {"WAIT": "false"}


def test_a_user_property_cannot_take_a_name_with_a_meaning() -> None:
    with pytest.raises(MQError, match="UNIQ_KEY"):
        sending_properties(Message("T", b"", properties={names.UNIQUE_KEY: "1"}))


def test_every_property_name_is_there_once() -> None:
    values = [value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)]
    assert len(values) == len(set(values)) == 65
    assert set(values) >= names.RESERVED


# The numbers are what a JVM says.
JAVA_HASHES = {
    "": 0,
    "a": 97,
    "TagA": 2598919,
    "TagB": 2598920,
    "created": 1028554472,
    "%RETRY%cg_golden": -2001012606,
    "polygenelubricants": -2147483648,
    "The quick brown fox jumps over the lazy dog, and then some more text past sixty-four characters": 2140306513,
    "ßé": 7146,
    "ÿĀ": 8161,
    "杭州": 844817,
    "😀": 1772899,  # a surrogate pair: two units
    "a😀b": 57849694,
    "\U0001f600\ud83d": 55015226,  # and half of one
}


@pytest.mark.parametrize(("text", "code"), JAVA_HASHES.items(), ids=ascii)
def test_the_hash_of_a_text_is_the_one_that_java_computes(text: str, code: int) -> None:
    assert java_hash(text) == code


@given(st.text(string.ascii_letters + "é杭😀", max_size=100))
def test_the_hash_of_a_text_follows_from_that_of_its_start(text: str) -> None:
    units = (text + "z").encode("utf-16-be")
    code = java_hash(text) * 31 + int.from_bytes(units[-2:], "big")
    assert (java_hash(text + "z") - code) % 2**32 == 0
    assert -(2**31) <= java_hash(text) < 2**31


def test_no_tags_have_the_code_0() -> None:
    assert tags_code(None) == tags_code("") == 0
    assert tags_code("TagA") == 2598919
