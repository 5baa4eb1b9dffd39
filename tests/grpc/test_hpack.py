"""HPACK: the examples of RFC 7541, any fields and back, and blocks that are wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.errors import RemoteProtocolError
from hanabi.grpc.http2 import hpack, huffman

EXAMPLES = {  # appendix C.4 and C.6: requests with Huffman code, responses with a table of 256 bytes
    "C.4": (
        4096,
        [
            ("828684418cf1e3c2e5f23a6ba0ab90f4ff", [(":authority", "www.example.com")], 57),
            ("828684be5886a8eb10649cbf", [("cache-control", "no-cache"), (":authority", "www.example.com")], 110),
            (
                "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
                [
                    ("custom-key", "custom-value"),
                    ("cache-control", "no-cache"),
                    (":authority", "www.example.com"),
                ],
                164,
            ),
        ],
    ),
    "C.6": (
        256,
        [
            (
                "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae"
                "43d3",
                [
                    ("location", "https://www.example.com"),
                    ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
                    ("cache-control", "private"),
                    (":status", "302"),
                ],
                222,
            ),
            (
                "4883640effc1c0bf",
                [
                    (":status", "307"),
                    ("location", "https://www.example.com"),
                    ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
                    ("cache-control", "private"),
                ],
                222,
            ),
        ],
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_the_rfc_leave_the_table_that_it_shows(name: str) -> None:
    table_bytes, steps = EXAMPLES[name]
    decoder = hpack.Decoder(1 << 16, table_bytes)
    for block, table, size in steps:
        decoder.decode(bytes.fromhex(block))
        assert list(decoder.table) == table
        assert sum(len(key) + len(value) + 32 for key, value in decoder.table) == size


def test_the_first_request_of_the_rfc_has_its_four_fields() -> None:
    fields = hpack.Decoder(1 << 16).decode(bytes.fromhex("828684418cf1e3c2e5f23a6ba0ab90f4ff"))
    assert fields == [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")]


@given(st.binary(max_size=200))
def test_each_text_in_huffman_code_is_read_back(data: bytes) -> None:
    assert huffman.decode(huffman.encode(data)) == data


TEXT = st.text(st.characters(max_codepoint=255), max_size=40)


@given(st.lists(st.tuples(TEXT.filter(bool), TEXT), max_size=20))
def test_fields_that_are_encoded_are_read_back_and_no_table_grows(fields: list[tuple[str, str]]) -> None:
    decoder = hpack.Decoder(1 << 20)
    assert decoder.decode(hpack.encode(fields)) == fields
    assert decoder.table == ()


@given(st.binary(max_size=300))
def test_any_bytes_are_fields_or_a_protocol_error(block: bytes) -> None:
    decoder = hpack.Decoder(4096)
    try:
        fields = decoder.decode(block)
    except RemoteProtocolError:
        return
    assert sum(len(name) + len(value) + 32 for name, value in fields) <= 4096
    assert sum(len(name) + len(value) + 32 for name, value in decoder.table) <= hpack.TABLE_BYTES


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ("80", "no field 0"),
        ("bf", "no field 63"),
        ("3fffffffff7f", "too long"),
        ("3fe11f", None),
        ("3fe21f", "allowed are 4096"),
        ("8220", "behind a field"),
        ("0085f1e3c2", "within a text"),
        ("00", "before a text"),
        ("0081ff00", "within a symbol"),
        ("0084ffffffff00", "end symbol"),
        ("008100", "within a symbol"),
        ("7f", "within a number"),
    ],
)
def test_a_damaged_block_is_refused_with_its_reason(block: str, reason: str | None) -> None:
    decoder = hpack.Decoder(1 << 16)
    if reason is None:
        decoder.decode(bytes.fromhex(block))
        return
    with pytest.raises(RemoteProtocolError, match=reason):
        decoder.decode(bytes.fromhex(block))


def test_a_bomb_of_indexed_fields_is_stopped_at_the_limit() -> None:
    decoder = hpack.Decoder(32 * 1024)
    value = "v" * 3_900
    first = b"\x40\x01n" + bytes.fromhex("7f") + b"\xbd\x1d" + value.encode()
    assert decoder.decode(first) == [("n", value)]
    with pytest.raises(hpack.HeadersTooLarge):
        decoder.decode(b"\xbe" * 16_000)  # 62 MB of fields in 16 kB
