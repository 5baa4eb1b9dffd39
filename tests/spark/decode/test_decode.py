"""The vectorised decoder says what `to_message` says: of Apache's records, of generated ones, of damaged ones."""

import zlib
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hanabi.spark.decode import bodies
from hanabi.spark.decode.layout import lay_out
from hanabi.spark.decode.slices import slices_of
from hanabi.spark.decode.walk import walk
from hanabi.spark.shared.columns import MESSAGE, RAW, arrow_schema, struct_of
from hanabi.wire.message import sysflag
from hanabi.wire.message.compression import CompressionType, compress
from hanabi.wire.message.hosts import encode_host
from hanabi.wire.message.record import MAGIC, MAGIC_LONG_TOPIC, RecordState, encode_record, scan_records
from tests.golden_records import STORES, frames_with_records, golden_logs
from tests.spark.decoded import decoded, expected

V4, V6 = encode_host("127.0.0.1", 10911), encode_host("::1", 10911)


def record(body: bytes = b"body", properties: bytes = b"", **fields: object) -> bytes:
    plain: dict[str, object] = {
        "topic": b"T",
        "queue_id": 0,
        "born_timestamp_ms": 1,
        "born_host": V4,
        "store_host": V4,
    }
    return bytes(encode_record(body=body, properties=properties, **(plain | fields)))  # type: ignore[arg-type]


def places(records: list[bytes]) -> tuple[bytes, list[int], list[int]]:
    sizes = [len(each) for each in records]
    return b"".join(records), [0, *accumulate(sizes)][:-1], sizes


def assert_same(records: list[bytes], *, check_crc: bool = True) -> None:
    data, starts, sizes = places(records)
    assert decoded(data, starts, sizes, check_crc=check_crc) == expected(data, starts, sizes, check_crc=check_crc)


# Apache's


@pytest.mark.parametrize("name", STORES)
def test_every_record_of_a_recorded_store_decodes_to_the_same_message(name: str) -> None:
    for data in golden_logs(name):
        found = [(at, checked.size) for at, checked in scan_records(data) if checked.state is RecordState.WHOLE]
        starts, sizes = [at for at, _ in found], [size for _, size in found]
        rows, damaged = decoded(data, starts, sizes)
        assert (rows, damaged) == expected(data, starts, sizes)
        assert len(rows) == len(found)
        assert not damaged


def test_every_record_that_an_apache_broker_sent_decodes_to_the_same_message() -> None:
    bodies_seen = 0
    for _, command in frames_with_records():
        data = bytes(command.body)
        walked = walk(pa.py_buffer(data))
        if walked.stopped_at < len(data):
            continue  # not a list of records
        bodies_seen += 1
        starts, sizes = walked.starts.tolist(), walked.sizes.tolist()
        assert decoded(data, starts, sizes) == expected(data, starts, sizes)
    assert bodies_seen > 10


# Generated

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
hosts = st.one_of(st.just(V4), st.binary(min_size=8, max_size=8), st.just(V6), st.binary(min_size=20, max_size=20))
names = st.one_of(
    st.sampled_from([b"TAGS", b"KEYS", b"UNIQ_KEY", b"UNIQ_KEX", b"TAG", b"TAGSS", b"A", b"a-name-of-some-length"]),
    st.text(max_size=12).map(lambda text: text.encode("utf-8", "replace")),
    st.binary(max_size=12),
)
values = st.one_of(
    st.sampled_from([b"a", b"a b", b" a  b ", b"\x1d\x85", "a\u00a0b\u3000c".encode(), "\u4e2d\u6587".encode()]),
    st.text(max_size=12).map(lambda text: text.encode("utf-8", "replace")),
    st.binary(max_size=12),
)
properties = st.one_of(
    st.lists(st.tuples(names, values), max_size=6).map(
        lambda pairs: b"\x02".join(name + b"\x01" + value for name, value in pairs)
    ),
    st.lists(st.tuples(names, values), max_size=3).map(
        lambda pairs: b"".join(name + b"\x01" + value + b"\x02" for name, value in pairs)
    ),
    st.binary(max_size=40),
    st.text("\x01\x02ab\u00e9", max_size=20).map(str.encode),
)


@st.composite
def packed_bodies(draw: st.DrawFn) -> tuple[bytes, int]:
    """Return a body and the system flag that belongs to it; sometimes the flag lies."""
    plain = draw(st.binary(max_size=50))
    kind = draw(st.sampled_from(["plain", "plain", "plain", "packed", "lie"]))
    if kind == "plain":
        return plain, draw(int32) & ~sysflag.COMPRESSED
    if kind == "lie":
        return plain, draw(int32) | sysflag.COMPRESSED
    compression = draw(st.sampled_from(CompressionType))
    return compress(plain, compression), sysflag.with_compression(draw(int32), compression)


@st.composite
def raw_records(draw: st.DrawFn) -> bytes:
    body, flag = draw(packed_bodies())
    magic = draw(st.sampled_from([MAGIC, MAGIC, MAGIC_LONG_TOPIC]))
    topic = draw(st.one_of(st.sampled_from([b"T", b"%RETRY%group"]), st.binary(max_size=20)))
    if magic == MAGIC_LONG_TOPIC:
        topic *= draw(st.sampled_from([1, 20]))
    return record(
        body,
        draw(properties),
        topic=topic,
        magic=magic,
        queue_id=draw(int32),
        flag=draw(int32),
        queue_offset=draw(int64),
        log_offset=draw(int64),
        sys_flag=flag,
        born_timestamp_ms=draw(int64),
        born_host=draw(hosts),
        store_timestamp_ms=draw(int64),
        store_host=draw(hosts),
        reconsume_times=draw(int32),
        prepared_offset=draw(int64),
        crc=draw(st.sampled_from([None, None, None, 5])),
    )


@given(st.lists(raw_records(), max_size=6), st.booleans())
def test_any_records_decode_to_the_same_messages(records: list[bytes], check_crc: bool) -> None:
    assert_same(records, check_crc=check_crc)


@given(st.lists(raw_records(), min_size=1, max_size=4), st.data())
def test_records_with_changed_bytes_are_the_same_or_damaged_for_both_decoders(
    records: list[bytes], data: st.DataObject
) -> None:
    content, starts, sizes = places(records)
    changed = bytearray(content)
    for at in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=6)):
        changed[at] = data.draw(st.integers(0, 255))
    assert decoded(bytes(changed), starts, sizes) == expected(bytes(changed), starts, sizes)


@given(st.binary(max_size=300), st.lists(st.tuples(st.integers(-5, 320), st.integers(-5, 320)), max_size=5))
def test_places_that_hold_no_record_are_told_and_nothing_else_happens(
    data: bytes, places: list[tuple[int, int]]
) -> None:
    rows, damaged = decoded(data, [at for at, _ in places], [size for _, size in places])
    assert rows == []
    assert damaged == list(range(len(places)))


@given(st.lists(raw_records(), min_size=1, max_size=4), st.lists(st.integers(0, 3), max_size=6))
def test_records_may_be_asked_for_in_any_order_and_twice(records: list[bytes], order: list[int]) -> None:
    data, starts, sizes = places(records)
    chosen = [number for number in order if number < len(records)]
    asked = [starts[number] for number in chosen], [sizes[number] for number in chosen]
    assert decoded(data, *asked) == expected(data, *asked)


@given(st.lists(raw_records(), max_size=5), st.binary(max_size=100))
def test_a_walk_finds_the_records_that_lie_behind_each_other(records: list[bytes], rest: bytes) -> None:
    data, starts, sizes = places(records)
    walked = walk(pa.py_buffer(data + rest))
    assert walked.starts.tolist() == starts
    assert walked.sizes.tolist() == sizes
    assert walked.stopped_at == len(data)


# Chosen


@pytest.mark.parametrize(
    "raw",
    [
        b"TAGS\x01a",
        b"TAGS\x01a\x02",
        b"\x02TAGS\x01a",
        b"TAGS\x01\x02TAGS\x01b",
        b"TAGS\x01a\x02TAGS\x01b\x02X\x011\x02TAGS\x01",
        b"XTAGS\x01a\x02TAG\x01b",
        b"TAGS\x01a\x01b",
        b"TAGS",
        b"\x01a",
        b"UNIQ_KEY\x01id\x02KEYS\x01one two\x02TAGS\x01t",
        b"KEYS\x01 \x02TAGS\x01t",
        b"a-long-name-1\x01x\x02a-long-name-2\x01y",
        b"TAGS\x01\xff\xfe\x02K\x01v",
        b"TAGS\x01\xc3",
        b"TAGS\x01a\0",
        b"K\x01" + bytes(600) + b"\x02TAGS\x01t\x021c291ca3",
        bytes(600),
    ],
)
def test_odd_properties_are_read_as_one_by_one(raw: bytes) -> None:
    assert_same([record(properties=raw)])
    assert_same([record(properties=b"\xa9\x01x"), record(properties=raw), record(), record(properties=raw + b"\xa9")])


def test_of_very_many_properties_the_last_of_a_name_counts() -> None:
    many = b"\x02".join(b"name-%d\x01%d" % (number % 150, number) for number in range(200))
    assert_same([record(properties=many), record(properties=b"name-1\x01x")])


def test_keys_are_cut_at_every_white_space_that_python_knows() -> None:
    spaces = [chr(number) for number in range(0x3001) if chr(number).isspace()]
    assert_same([record(properties=f"KEYS\x01a{space}b{space}".encode()) for space in spaces])
    for space in spaces:
        assert_same([record(properties=f"KEYS\x01{space}a{space}{space}b".encode()), record(properties=b"KEYS\x01k")])


def test_both_kinds_of_hosts_may_be_mixed() -> None:
    assert_same([record(born_host=born, store_host=store) for born in (V4, V6) for store in (V6, V4)] * 2)


def test_bodies_that_unpack_to_much_come_in_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies.read_bodies, "__defaults__", (1_000,))
    packed = [record(zlib.compress(b"%d" % number * 600), sys_flag=sysflag.COMPRESSED) for number in range(8)]
    assert_same([*packed[:3], record(b"plain"), *packed[3:], record(b"at the end")])


@pytest.mark.parametrize("name", [*MESSAGE, *RAW])
def test_one_column_alone_is_the_same_as_among_all(name: str) -> None:
    records = [
        record(b"one", b"TAGS\x01a\x02KEYS\x01k l\x02UNIQ_KEY\x01U", store_timestamp_ms=7, log_offset=1 << 40),
        record(b"two", b"KEYS\x01k", store_host=V6, reconsume_times=3),
    ]
    data, starts, sizes = places(records)
    schema = arrow_schema(struct_of({name: (MESSAGE | RAW)[name]}), MESSAGE | RAW)
    alone, _ = decoded(data, starts, sizes, schema=schema)
    assert alone == [{name: row[name]} for row in decoded(data, starts, sizes)[0]]


def test_what_is_not_asked_for_is_not_looked_at() -> None:
    bad_body = record(b"no zlib", b"TAGS\x01a", sys_flag=sysflag.COMPRESSED, crc=1)
    schema = arrow_schema(struct_of({"tags": MESSAGE["tags"]}), MESSAGE)
    assert decoded(bad_body, [0], [len(bad_body)], schema=schema) == ([{"tags": "a"}], [])


@example(0)
@given(st.integers(0, 100))
def test_a_buffer_that_ends_early_has_no_record(length: int) -> None:
    whole = record()
    layout, torn = lay_out(pa.py_buffer(whole[: min(length, len(whole) - 1)]), *_one(len(whole)))
    assert len(layout) == 0
    assert torn.tolist() == [0]


def _one(size: int) -> "tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.int64]]]":
    return np.zeros(1, np.int64), np.array([size], np.int64)


@pytest.mark.parametrize("kind", [pa.binary(), pa.string()])
@pytest.mark.parametrize("shortest", [0, 12, 13])
def test_slices_are_the_bytes_that_they_name_short_or_long(shortest: int, kind: pa.DataType) -> None:
    text = "".join(f"{number:04}" for number in range(500)).encode()
    starts, lengths = 3 + 100 * np.arange(9), shortest + np.arange(9)
    found = slices_of(pa.py_buffer(text), starts, lengths, kind)
    found.validate(full=True)
    wanted = [text[start : start + length] for start, length in zip(starts, lengths, strict=True)]
    assert found.type == kind
    assert found.cast(pa.binary()).to_pylist() == wanted
