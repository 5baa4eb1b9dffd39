"""The compiled functions do what the readable ones do, for any input; both are judged by the same examples."""

import contextlib
import itertools
import mmap
import os
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.broker.fast_path import building
from hanabi.errors import MQError
from hanabi.message import StoredMessage
from hanabi.store.fast_path import loading
from hanabi.store.index import index_file, key_hash
from hanabi.store.index.index_file import ENTRY
from hanabi.wire.message import properties, record, stored
from hanabi.wire.message.record import topic_field

pytestmark = pytest.mark.pure

i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
beyond = st.integers(-(2**66), 2**66)
host = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
arguments = st.fixed_dictionaries(
    {
        "topic": st.binary(max_size=200),
        "body": st.binary(max_size=300),
        "properties": st.binary(max_size=300),
        "queue_id": i32,
        "flag": i32,
        "sys_flag": st.integers(0, 255),
        "born_timestamp_ms": i64,
        "born_host": host,
        "store_timestamp_ms": i64,
        "store_host": host,
        "reconsume_times": i32,
        "prepared_offset": i64,
        "queue_offset": i64,
        "log_offset": i64,
    }
)


def test_the_compiled_functions_are_there_where_they_must_be() -> None:
    if os.environ.get("HANABI_PURE_PYTHON"):
        pytest.skip("HANABI_PURE_PYTHON is set")
    compiled = record.encode_record is not record.python_encode_record
    if not compiled and not os.environ.get("CI"):
        pytest.skip("no compiler when the package was installed: everything runs on the readable functions")
    assert compiled
    assert record.is_record is not record.python_is_record
    assert record.decode_dispatch is not record.python_decode_dispatch
    assert properties.indexed_properties is not properties.python_indexed_properties
    assert stored.to_messages is not stored.python_to_messages
    assert key_hash.key_hash_after is not key_hash.python_key_hash_after
    assert index_file.link_entries is not index_file.python_link_entries
    assert index_file.follow_chain is not index_file.python_follow_chain
    assert building.is_compiled()
    assert loading.run_writer() is not None
    assert loading.record_run() is not None


@given(arguments)
def test_a_record_has_the_same_bytes(fields: dict[str, object]) -> None:
    expected = record.python_encode_record(**fields)  # type: ignore[arg-type]
    assert record.encode_record(**fields) == expected  # type: ignore[arg-type]
    view = memoryview(fields["body"])  # type: ignore[arg-type]
    assert record.encode_record(**fields | {"body": view}) == expected  # type: ignore[arg-type]
    with_crc = fields | {"crc": 7, "magic": record.MAGIC_LONG_TOPIC}
    assert record.encode_record(**with_crc) == record.python_encode_record(**with_crc)  # type: ignore[arg-type]


@given(arguments, st.sampled_from(["queue_id", "flag", "store_timestamp_ms", "log_offset"]), beyond)
def test_a_number_that_does_not_fit_is_the_same_error(fields: dict[str, object], name: str, number: int) -> None:
    assert _outcome(record.encode_record, fields | {name: number}) == _outcome(
        record.python_encode_record, fields | {name: number}
    )


def _outcome(encode: Callable[..., bytearray], fields: dict[str, object]) -> bytearray | str:
    try:
        return encode(**fields)
    except MQError as error:
        return str(error)


@given(arguments, st.binary(max_size=20), st.binary(max_size=20), st.data())
def test_the_same_records_are_recognised(
    fields: dict[str, object], before: bytes, after: bytes, data: st.DataObject
) -> None:
    raw = bytes(record.python_encode_record(**fields))  # type: ignore[arg-type]
    flip = data.draw(st.none() | st.integers(0, len(raw) - 1))
    stored = bytearray(raw)
    if flip is not None:
        stored[flip] ^= 1 << data.draw(st.integers(0, 7))
    buffer = memoryview(before + bytes(stored) + after)
    topic = topic_field(fields["topic"])  # type: ignore[arg-type]
    asked = (
        len(before),
        len(raw),
        topic,
        fields["queue_id"],
        fields["queue_offset"],
        fields["log_offset"],
        data.draw(st.booleans()),
    )
    expected = record.python_is_record(buffer, *asked)  # type: ignore[arg-type]
    assert record.is_record(buffer, *asked) == expected  # type: ignore[arg-type]
    assert expected or flip is not None


pieces = st.lists(
    st.sampled_from([b"TAGS", b"KEYS", b"UNIQ_KEY", b"XTAGS", b"\x01", b"\x02", b"a", b"\xff", "é".encode(), b""]),
    max_size=24,
)


@given(pieces)
def test_the_same_properties_are_found(parts: list[bytes]) -> None:
    raw = b"".join(parts)
    expected = tuple(properties.find_property(raw, name) for name in (b"TAGS", b"KEYS", b"UNIQ_KEY"))
    assert properties.python_indexed_properties(raw) == expected
    assert properties.indexed_properties(raw) == expected


@given(arguments, pieces, st.binary(max_size=20), st.binary(max_size=20), st.data())
def test_the_same_is_dispatched(
    fields: dict[str, object], parts: list[bytes], before: bytes, after: bytes, data: st.DataObject
) -> None:
    raw = record.python_encode_record(**fields | {"properties": b"".join(parts)})  # type: ignore[arg-type]
    if data.draw(st.booleans()):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    buffer = memoryview(before + bytes(raw) + after)
    end = data.draw(st.none() | st.integers(0, len(buffer)))
    asked = buffer, len(before), end, data.draw(st.booleans())
    found = _dispatched(record.decode_dispatch, *asked)
    assert found == _dispatched(record.python_decode_dispatch, *asked)
    assert type(found) in (record.Dispatch, str)


def _dispatched(
    decode: Callable[..., record.Dispatch], buffer: memoryview, position: int, end: int | None, check_crc: bool
) -> record.Dispatch | str:
    try:
        return decode(buffer, position, end, check_crc=check_crc)
    except MQError as error:
        return str(error)


several = st.lists(
    st.tuples(arguments, pieces, st.sampled_from([None, record.MAGIC, record.MAGIC_LONG_TOPIC])), min_size=1, max_size=4
)


@given(several, st.data())
def test_the_same_messages_are_read(
    rows: list[tuple[dict[str, object], list[bytes], int | None]], data: st.DataObject
) -> None:
    encoded: list[bytes] = []
    for fields, parts, magic in rows:
        wanted = fields | {"properties": b"".join(parts), "magic": magic}
        with contextlib.suppress(MQError):  # a topic too long for this magic
            encoded.append(bytes(record.python_encode_record(**wanted)))  # type: ignore[arg-type]
    raw = bytearray(b"".join(encoded))
    if raw and data.draw(st.booleans()):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    if raw and data.draw(st.booleans()):
        del raw[data.draw(st.integers(0, len(raw) - 1)) :]
    asked = bytes(raw), "broker-a", data.draw(st.sampled_from([0, 7, -7]))
    assert _read(stored.to_messages, asked) == _read(stored.python_to_messages, asked)


def _read(
    read: Callable[..., tuple[list[StoredMessage], MQError | None]], asked: tuple[bytes, str, int]
) -> tuple[list[StoredMessage], str]:
    messages, error = read(*asked)
    return messages, str(error)


def test_what_is_read_in_one_go_is_what_is_read_one_by_one() -> None:
    fields = {"queue_id": 3, "born_timestamp_ms": 1, "born_host": bytes(8), "store_host": bytes(8), "body": b"hello"}
    text = b"TAGS\x01a\x02KEYS\x01k1 k2\x02UNIQ_KEY\x01ID\x02colour\x01red"
    raw = [
        bytes(record.encode_record(topic=b"T", properties=text, queue_offset=offset, **fields))  # type: ignore[arg-type]
        for offset in range(3)
    ]
    expected = [stored.to_message(record.decode_record(one), broker_name="b") for one in raw]
    assert stored.to_messages(b"".join(raw), "b") == (expected, None)
    assert [message.keys for message in expected] == [("k1", "k2")] * 3


@given(st.integers(0, 2**32 - 1), st.text(max_size=100) | st.text(st.characters(max_codepoint=255), max_size=100))
def test_a_key_has_the_same_hash(prefix: int, text: str) -> None:
    assert key_hash.key_hash_after(prefix, text) == key_hash.python_key_hash_after(prefix, text)


_few = st.integers(0, 3)
_entries = st.lists(st.tuples(_few, st.integers(-1, 2**62), st.integers(-1, 9), st.integers(-1, 9)), max_size=9)


@given(_entries, st.integers(-1, 9), _few, st.integers(-9, 9), st.integers(-9, 9), _few)
def test_a_chain_of_an_index_file_leads_to_the_same_entries(
    entries: list[tuple[int, int, int, int]], number: int, hashed_key: int, low: int, high: int, steps_max: int
) -> None:
    entries_at = (1 << index_file.CHUNK_BITS) - 4 * ENTRY.size  # entry 4 is the first of the second chunk
    with mmap.mmap(-1, entries_at + 10 * ENTRY.size) as mapped:
        for position, entry in enumerate(entries, 1):
            ENTRY.pack_into(mapped, entries_at + position * ENTRY.size, *entry)
        for below, chunks in itertools.product(range(11), (b"\1\1", b"\0\1", b"\1\0")):
            asked = mapped, entries_at, number, below, hashed_key, low, high, steps_max, bytearray(chunks)
            assert index_file.follow_chain(*asked) == index_file.python_follow_chain(*asked)
        for follow in (index_file.follow_chain, index_file.python_follow_chain):
            with pytest.raises(ValueError, match="entries below 11 lie behind the end"):
                follow(mapped, entries_at, 1, 11, 0, 0, 0, 1, bytearray(2))
            with pytest.raises(ValueError, match="1 chunks are not all of the file"):
                follow(mapped, entries_at, 1, 2, 0, 0, 0, 1, bytearray(1))


hashes_of_message = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=4)


@given(st.lists(st.tuples(hashes_of_message, i64, st.integers(0, 2**45)), max_size=8))
def test_an_index_file_gets_the_same_entries(messages: list[tuple[list[int], int, int]]) -> None:
    slots, number, used = 3, 1, 0
    with mmap.mmap(-1, 4096) as ours, mmap.mmap(-1, 4096) as theirs:
        for hashes, log_offset, store_ms in messages:
            pairs = b"".join(index_file.PAIR.pack(hashed_key, log_offset) for hashed_key in hashes)
            told = [
                link(mapped, slots, number, pairs, 5_000, store_ms, used)
                for link, mapped in ((index_file.python_link_entries, ours), (index_file.link_entries, theirs))
            ]
            assert told[0] == told[1]
            used, number = told[0][0], number + len(hashes)
        assert ours[:] == theirs[:]
