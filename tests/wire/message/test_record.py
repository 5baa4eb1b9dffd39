"""Records: those that Java wrote, and our own."""

import mmap
import struct
from collections import defaultdict
from typing import TypedDict, Unpack

import pytest

from hanabi.errors import MQError, RemoteProtocolError
from hanabi.message import Address
from hanabi.wire.command import Command, decode_command
from hanabi.wire.message import sysflag
from hanabi.wire.message.batch import BatchMessage, decode_batch, encode_batch
from hanabi.wire.message.properties import decode_properties, find_property
from hanabi.wire.message.record import (
    MAGIC,
    MAGIC_LONG_TOPIC,
    Checked,
    RecordState,
    body_crc,
    check_record,
    decode_dispatch,
    decode_record,
    decode_records,
    encode_blank,
    encode_record,
    place_record,
    record_properties,
    scan_records,
)
from hanabi.wire.message.stored import to_message
from tests.golden_frames import ALL_FRAMES, GoldenFrame
from tests.golden_records import STORES, frames_with_records, golden_logs, golden_store

pytestmark = pytest.mark.pure

HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
HOST_V6 = bytes.fromhex("0000000000000000000000000000000100002a9f")
EVERY_STORE = pytest.mark.parametrize("store", STORES)

# Written by MessageDecoder of 4.9.8: both hosts are IPv6; then only the born host.
JAVA_V6_HEAD = "daa320a7431726fb000000020000000500000000000000070000000000001092"
JAVA_BORN_V6 = "000001a1ddf471cbfd0000000000000000000000000000020000995a000001a1ddf47202"
JAVA_V6_TAIL = (
    "0000000300000000000000630000000373697806476f6c64656e0020"
    "6369747901e69dade5b79e024b455953016b31206b3202544147530154616741"
)
JAVA_BOTH_V6 = bytes.fromhex(
    f"0000009c{JAVA_V6_HEAD}00000030{JAVA_BORN_V6}0000000000000000000000000000000100002a9f{JAVA_V6_TAIL}"
)
JAVA_ONLY_BORN_V6 = bytes.fromhex(f"00000090{JAVA_V6_HEAD}00000010{JAVA_BORN_V6}7f00000100002a9f{JAVA_V6_TAIL}")
# Written by MessageExtEncoder of 5.3.3: a topic of 130 bytes, and a separator behind the last property.
JAVA_LONG_TOPIC = bytes.fromhex(
    "000000f1daa320ab603a931700000002000000000000000000000007000000000000000000000000000001a1ddf471cb0a010203"
    "0000995a000001a1ddf472027f00000100002a9f0000000000000000000000000000000974776f2062797465730082"
    + "54" * 130
    + "000a5441475301546167"
    + "4102"
)


class _More(TypedDict, total=False):
    properties: bytes
    queue_offset: int
    log_offset: int
    store_timestamp_ms: int
    prepared_offset: int
    sys_flag: int
    crc: int
    magic: int


def simple_record(
    body: bytes = b"body",
    topic: bytes = b"Topic",
    born_host: bytes = HOST,
    store_host: bytes = HOST,
    **more: Unpack[_More],
) -> bytearray:
    return encode_record(
        topic=topic, body=body, queue_id=1, born_timestamp_ms=1, born_host=born_host, store_host=store_host, **more
    )


# --- what Java wrote ---


@pytest.mark.parametrize(("frame", "command"), frames_with_records(), ids=str)
def test_golden_records_encode_to_the_same_bytes(frame: GoldenFrame, command: Command) -> None:
    records = decode_records(command.body)
    assert records
    assert b"".join(record.encode() for record in records) == command.body


@EVERY_STORE
def test_a_golden_log_is_whole_records_and_then_unwritten_space(store: str) -> None:
    log, *preallocated = golden_logs(store)
    *whole, (position, last) = scan_records(log)
    assert len(whole) > 30
    assert all(checked.state is RecordState.WHOLE for _, checked in whole)
    assert last.state is RecordState.UNWRITTEN
    assert not any(log[position:])
    for start, checked in whole:
        record = decode_record(log, start)
        assert record.log_offset == start
        assert record.encode() == log[start : start + checked.size]
    for segment in preallocated:
        assert [(at, checked.state) for at, checked in scan_records(segment)] == [(0, RecordState.UNWRITTEN)]


DELAY_MS = {"1": 1_000, "2": 5_000, "3": 10_000, "4": 30_000}


@EVERY_STORE
def test_what_dispatch_reads_is_what_java_wrote_into_the_consume_queues(store: str) -> None:
    log = golden_logs(store)[0]
    expected: dict[tuple[str, int], dict[int, tuple[int, int, int]]] = defaultdict(dict)
    for path, content in golden_store(store).items():
        if path.startswith("consumequeue/"):
            _, topic, queue_id, _ = path.split("/")
            for number, (offset, size, code) in enumerate(struct.iter_unpack(">qiq", content)):
                if size:
                    expected[topic, int(queue_id)][number] = (offset, size, code)
    found: dict[tuple[str, int], dict[int, tuple[int, int, int]]] = defaultdict(dict)
    for start, checked in scan_records(log):
        if checked.state is not RecordState.WHOLE:
            break
        entry = decode_dispatch(log, start)
        code = entry.tags_code
        if entry.topic == "SCHEDULE_TOPIC_XXXX":  # the store keeps the time of delivery there
            code = entry.store_timestamp_ms + DELAY_MS[find_property(entry.properties, b"DELAY") or ""]
        found[entry.topic, entry.queue_id][entry.queue_offset] = (entry.log_offset, entry.size, code)
    assert found == expected
    assert len({code for queue in found.values() for _, _, code in queue.values()}) > 3


@EVERY_STORE
def test_dispatch_agrees_with_the_whole_record(store: str) -> None:
    log = golden_logs(store)[0]
    for start, checked in scan_records(log):
        if checked.state is not RecordState.WHOLE:
            break
        entry, record = decode_dispatch(log, start), decode_record(log, start)
        properties = decode_properties(record.properties)
        assert entry.keys == properties.get("KEYS", "")
        assert entry.unique_key == properties.get("UNIQ_KEY")
        for name in ("topic", "queue_id", "queue_offset", "log_offset", "size", "store_timestamp_ms"):
            assert getattr(entry, name) == getattr(record, name)
        assert (entry.sys_flag, entry.prepared_offset) == (record.sys_flag, record.prepared_offset)
        assert record_properties(log, start) == record.properties


@pytest.mark.parametrize("raw", [JAVA_BOTH_V6, JAVA_ONLY_BORN_V6], ids=["both", "born"])
def test_java_records_with_ipv6_hosts_are_read_and_written(raw: bytes) -> None:
    record = decode_record(raw)
    assert record.encode() == raw
    message = to_message(record, broker_name="broker-a")
    assert message.born_host == Address("fd00::2", 39258)
    assert message.store_host == Address("::1" if raw is JAVA_BOTH_V6 else "127.0.0.1", 10911)
    assert (message.topic, message.body, message.tags, message.keys) == ("Golden", b"six", "TagA", ("k1", "k2"))
    assert message.properties["city"] == "杭州"
    assert (message.queue.broker_name, message.queue_id, message.queue_offset) == ("broker-a", 2, 7)
    assert (message.flag, message.reconsume_times, message.prepared_offset, message.log_offset) == (5, 3, 99, 4242)
    assert (message.born_timestamp_ms, message.store_timestamp_ms) == (1794725147083, 1794725147138)
    assert len(message.offset_message_id) == (56 if raw is JAVA_BOTH_V6 else 32)
    assert message.message_id == message.offset_message_id  # it has no unique key


def test_a_java_record_with_a_long_topic_is_read_and_written() -> None:
    record = decode_record(JAVA_LONG_TOPIC)
    assert record.magic == MAGIC_LONG_TOPIC
    assert record.topic == "T" * 130
    assert to_message(record).tags == "TagA"
    assert record.encode() == JAVA_LONG_TOPIC
    assert decode_dispatch(JAVA_LONG_TOPIC).topic == record.topic


@pytest.mark.parametrize("frame", [f for f in ALL_FRAMES if f.code == 320], ids=str)
def test_the_golden_batch_encodes_to_the_same_bytes(frame: GoldenFrame) -> None:
    batch = decode_command(frame.frame[4:]).body
    messages = decode_batch(batch)
    assert [message.body for message in messages] == [b"batch 0", b"batch 1", b"batch 2"]
    assert [find_property(message.properties, b"KEYS") for message in messages] == ["b0", "b1", "b2"]
    assert encode_batch(messages) == batch


# --- our own ---


def test_a_record_gets_its_place_after_it_was_encoded() -> None:
    for born_host in (HOST, HOST_V6):
        log = bytearray(10) + simple_record(born_host=born_host)
        place_record(log, 10, queue_offset=7, log_offset=2**40, store_timestamp_ms=1794725147138)
        assert log[10:] == simple_record(
            born_host=born_host, queue_offset=7, log_offset=2**40, store_timestamp_ms=1794725147138
        )


def test_the_bits_for_ipv6_follow_the_hosts() -> None:
    for born_host, store_host, bits in (
        (HOST, HOST, 0),
        (HOST_V6, HOST, sysflag.BORN_HOST_V6),
        (HOST, HOST_V6, sysflag.STORE_HOST_V6),
        (HOST_V6, HOST_V6, sysflag.HOSTS_V6),
    ):
        sys_flag = sysflag.HOSTS_V6 | sysflag.COMPRESSED
        raw = simple_record(born_host=born_host, store_host=store_host, sys_flag=sys_flag)
        record = decode_record(raw)
        assert record.sys_flag == bits | sysflag.COMPRESSED
        assert (record.born_host, record.store_host) == (born_host, store_host)


def test_the_magic_follows_the_length_of_the_topic() -> None:
    assert decode_record(simple_record(topic=b"T" * 127)).magic == MAGIC
    assert decode_record(simple_record(topic=b"T" * 128)).magic == MAGIC_LONG_TOPIC
    with pytest.raises(MQError, match="topic of 128 bytes"):
        simple_record(topic=b"T" * 128, magic=MAGIC)
    with pytest.raises(MQError, match="topic of 32768 bytes"):
        simple_record(topic=b"T" * 32768)


def test_what_no_record_can_hold_is_refused() -> None:
    with pytest.raises(MQError, match="limit 32767"):
        simple_record(properties=bytes(32768))
    with pytest.raises(MQError, match="8 or 20 bytes, not 4"):
        simple_record(born_host=HOST[:4])
    with pytest.raises(MQError, match="cannot hold"):
        simple_record(queue_offset=2**63)


def test_records_are_read_from_whatever_holds_bytes() -> None:
    raw = bytes(simple_record())
    with mmap.mmap(-1, len(raw)) as mapped:
        mapped[:] = raw
        for buffer in (raw, bytearray(raw), memoryview(raw), mapped):
            assert decode_record(buffer) == decode_record(raw)
            assert decode_dispatch(buffer) == decode_dispatch(raw)
            assert check_record(buffer) == Checked(RecordState.WHOLE, len(raw))
        place_record(mapped, 0, queue_offset=5, log_offset=0, store_timestamp_ms=0)
        assert decode_record(mapped).queue_offset == 5


def test_a_log_ends_at_a_filler() -> None:
    record = bytes(simple_record())
    segment = record * 3 + encode_blank(20) + b"\xff" * 12
    assert [(at, checked.state) for at, checked in scan_records(segment)] == [
        (0, RecordState.WHOLE),
        (len(record), RecordState.WHOLE),
        (2 * len(record), RecordState.WHOLE),
        (3 * len(record), RecordState.BLANK),
    ]
    assert check_record(segment, 3 * len(record)).size == 20
    with pytest.raises(MQError, match="filler of 7 bytes"):
        encode_blank(7)


def test_a_filler_with_a_bad_size_is_still_the_end_of_its_segment_only() -> None:
    assert check_record(struct.pack(">iI", -1, 0xCBD43194)).state is RecordState.BLANK


def test_a_log_of_whole_records_ends_where_it_ends() -> None:
    segment = bytes(simple_record()) * 2
    assert [checked.state for _, checked in scan_records(segment)] == [RecordState.WHOLE] * 2


def test_a_torn_record_is_told_with_its_place_and_reason() -> None:
    record = bytes(simple_record())
    *_, (position, checked) = scan_records(record + record[:-1])
    assert position == len(record)
    assert checked.state is RecordState.INVALID
    assert checked.reason == f"record at {len(record)}: size {len(record)}, {len(record) - 1} bytes left"


def test_a_wrong_body_is_told_unless_nobody_wants_to_know() -> None:
    record = simple_record(body=b"body")
    record[88] ^= 1
    assert "CRC" in check_record(record).reason
    assert check_record(record, check_crc=False).state is RecordState.WHOLE
    with pytest.raises(RemoteProtocolError, match="CRC"):
        decode_record(record)
    assert decode_record(record, check_crc=False).body == b"cody"


def _with_size(size: int, rest: bytes | bytearray) -> bytes:
    return struct.pack(">i", size) + rest[4:]


def _negative_body_length() -> bytes:
    """Return its parts add up if the topic is looked for before the body: in the prepared offset, 11 bytes long."""
    raw = simple_record(body=b"", topic=b"", prepared_offset=11 << 56)
    struct.pack_into(">ih", raw, 84, -12, 1)
    return bytes(raw)


def _negative_topic_length() -> bytes:
    """Return its parts add up if the length of the properties is looked for in the body."""
    raw = simple_record(body=b"\x00\x04", topic=b"", magic=MAGIC_LONG_TOPIC)
    struct.pack_into(">h", raw, 90, -4)
    return bytes(raw)


IMPOSSIBLE: dict[str, tuple[bytes | bytearray, str]] = {
    "body": (_negative_body_length(), "body of -12 bytes"),
    "topic": (_negative_topic_length(), "topic of -4 bytes"),
    "long topic": (
        _with_size(91 + 130, simple_record(body=b"", topic=b"")[:88] + bytes([130]) + b"T" * 130 + b"\x00\x00"),
        "topic of 130 bytes",
    ),
    "more": (_with_size(101, simple_record() + b"x"), "its parts end at 100"),
    "less": (_with_size(99, simple_record()), "topic of 5 bytes in a record of 99"),
    "no room for its hosts": (
        _with_size(90, simple_record(born_host=HOST_V6, store_host=HOST_V6)[:100]),
        "size 90, 100 bytes left",
    ),
    "negative": (_with_size(-1, simple_record()), "size -1"),
    "magic": (simple_record()[:7] + b"\xa8" + simple_record()[8:], "unknown magic 0xdaa320a8"),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_record_whose_lengths_cannot_be_true_is_refused(name: str) -> None:
    raw, reason = IMPOSSIBLE[name]
    checked = check_record(raw)
    assert checked.state is RecordState.INVALID
    assert reason in checked.reason
    for decode in (decode_record, decode_dispatch):
        with pytest.raises(RemoteProtocolError, match=reason):
            decode(raw)


def test_an_empty_body_has_no_checksum() -> None:
    assert check_record(simple_record(body=b"", crc=5)).state is RecordState.WHOLE
    assert decode_record(simple_record(body=b"", crc=5)).crc == 5


def test_the_checksum_has_no_sign() -> None:
    assert body_crc(b"six") == 0x431726FB
    assert body_crc(b"a") == 0xE8B7BE43 & 0x7FFFFFFF


def test_a_body_of_a_pull_reply_that_is_not_all_records_is_refused() -> None:
    record = bytes(simple_record())
    assert decode_records(b"") == []
    for tail in (b"\x00", bytes(200), encode_blank(8), record[:-1]):
        with pytest.raises(RemoteProtocolError, match=f"record at {len(record)}"):
            decode_records(record + tail)


def test_one_message_of_a_batch_with_a_wrong_length_spoils_it_all() -> None:
    messages = [BatchMessage(0, b"one", b"a\x011"), BatchMessage(7, b"", b"")]
    batch = encode_batch(messages)
    assert decode_batch(batch) == messages
    assert decode_batch(b"") == []
    for cut in range(1, len(batch)):
        if cut != len(batch) - 22:  # where the second message starts
            with pytest.raises(RemoteProtocolError, match="batch at"):
                decode_batch(batch[:cut])
    for place, value in ((0, 99), (16, -1), (16, 2**31 - 1)):
        broken = bytearray(batch)
        struct.pack_into(">i", broken, place, value)
        with pytest.raises(RemoteProtocolError, match="batch at 0"):
            decode_batch(bytes(broken))
    for size, properties_bytes in ((0, -22), (20, -2), (22, 1)):
        with pytest.raises(RemoteProtocolError, match=f"batch at 0: .* properties of {properties_bytes} bytes"):
            decode_batch(struct.pack(">iiiiih", size, 0, 0, 0, 0, properties_bytes))
    with pytest.raises(MQError, match="limit 32767"):
        encode_batch([BatchMessage(0, b"", bytes(32768))])
    with pytest.raises(MQError, match="cannot hold"):
        encode_batch([BatchMessage(2**31, b"", b"")])


def test_the_transaction_type_is_two_bits_of_the_system_flag() -> None:
    assert sysflag.transaction_type(0xFF) == sysflag.TRANSACTION_ROLLBACK
    committed = sysflag.with_transaction_type(0x31 | sysflag.TRANSACTION_PREPARED, sysflag.TRANSACTION_COMMIT)
    assert committed == 0x31 | 8
    assert sysflag.transaction_type(committed) == sysflag.TRANSACTION_COMMIT
    assert sysflag.with_transaction_type(committed, sysflag.TRANSACTION_NONE) == 0x31


def test_the_golden_transaction_is_stored_as_prepared_in_its_properties_and_committed_in_its_flag() -> None:
    log = golden_logs(STORES[0])[0]
    entries = [decode_dispatch(log, at) for at, checked in scan_records(log) if checked.state is RecordState.WHOLE]
    committed = [entry for entry in entries if entry.topic == "GoldenTx"]
    assert committed
    for entry in committed:
        assert sysflag.transaction_type(entry.sys_flag) == sysflag.TRANSACTION_COMMIT
        first_half = decode_dispatch(log, entry.prepared_offset)
        assert first_half.topic == "RMQ_SYS_TRANS_HALF_TOPIC"
        assert first_half.unique_key == entry.unique_key
