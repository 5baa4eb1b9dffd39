"""Any record round-trips, and no bytes make the decoders raise anything but our protocol error."""

import struct

from hypothesis import example, given
from hypothesis import strategies as st

from hanabi.errors import RemoteProtocolError
from hanabi.wire.message.batch import BatchMessage, decode_batch, encode_batch
from hanabi.wire.message.record import (
    MAGIC,
    MAGIC_BLANK,
    MAGIC_LONG_TOPIC,
    Record,
    RecordState,
    body_crc,
    check_record,
    decode_dispatch,
    decode_record,
    decode_records,
    scan_records,
)
from hanabi.wire.message.stored import to_message

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
hosts = st.one_of(st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20))
topics = st.text(st.characters(codec="utf-8"), max_size=40).filter(lambda text: len(text.encode()) <= 127)


@st.composite
def records(draw: st.DrawFn) -> Record:
    body, topic, properties = draw(st.binary(max_size=60)), draw(topics), draw(st.binary(max_size=60))
    born_host, store_host = draw(hosts), draw(hosts)
    magic = draw(st.sampled_from([MAGIC, MAGIC_LONG_TOPIC]))
    v6_bits = (len(born_host) == 20) << 4 | (len(store_host) == 20) << 5
    fixed = 72 + len(born_host) + len(store_host) + (magic == MAGIC_LONG_TOPIC)
    return Record(
        magic=magic,
        crc=body_crc(body),
        queue_id=draw(int32),
        flag=draw(int32),
        queue_offset=draw(int64),
        log_offset=draw(int64),
        sys_flag=draw(int32) & ~0x30 | v6_bits,
        born_timestamp_ms=draw(int64),
        born_host=born_host,
        store_timestamp_ms=draw(int64),
        store_host=store_host,
        reconsume_times=draw(int32),
        prepared_offset=draw(int64),
        body=body,
        topic=topic,
        properties=properties,
        size=fixed + 3 + len(body) + len(topic.encode()) + len(properties),
    )


@given(st.lists(records(), max_size=4))
def test_any_records_come_back_as_they_were(some: list[Record]) -> None:
    buffer = b"".join(record.encode() for record in some)
    assert decode_records(buffer) == some
    assert [checked.state for _, checked in scan_records(buffer)] == [RecordState.WHOLE] * len(some)


@given(records())
def test_any_record_is_a_message_or_one_whose_body_cannot_be_unpacked(record: Record) -> None:
    try:
        message = to_message(record, body_bytes_max=1000)
    except RemoteProtocolError:
        assert record.sys_flag & 1
        return
    assert (message.topic, message.queue_id, message.size) == (record.topic, record.queue_id, record.size)


@given(records(), st.data())
def test_any_cut_is_seen(record: Record, data: st.DataObject) -> None:
    raw = record.encode()
    cut = raw[: data.draw(st.integers(0, len(raw) - 1))]
    assert check_record(cut).state is RecordState.INVALID
    for decode in (decode_record, decode_dispatch):
        try:
            decode(cut)
        except RemoteProtocolError:
            continue
        raise AssertionError("a cut record was decoded")


@given(records(), st.data())
def test_a_flipped_bit_is_seen_where_a_length_or_a_checksum_covers_it(record: Record, data: st.DataObject) -> None:
    raw = record.encode()
    place, bit = data.draw(st.integers(0, len(raw) - 1)), data.draw(st.integers(0, 7))
    flipped = bytearray(raw)
    flipped[place] ^= 1 << bit
    checked = check_record(flipped)
    body_start = 72 + len(record.born_host) + len(record.store_host)
    in_size_or_crc = place < 4 or (8 <= place < 12 and record.body)
    in_body = body_start <= place < body_start + len(record.body)
    if in_size_or_crc or in_body:
        assert checked.state is RecordState.INVALID
    if checked.state is RecordState.WHOLE:
        again = decode_record(flipped)
        assert again != record
        assert again.size == record.size
        # As Java, so that one bad name does not end a log: what is not UTF-8 is read with replacements.
        if "\ufffd" not in again.topic:
            assert again.encode() == flipped
        decode_dispatch(flipped)


_MAGICS = st.sampled_from([MAGIC, MAGIC_LONG_TOPIC, MAGIC_BLANK, 0])


@st.composite
def almost_records(draw: st.DrawFn) -> bytes:
    """Draw bytes that begin like a record, so that most of the decoder is reached, and go on as they like."""
    rest = draw(st.binary(min_size=0, max_size=200))
    size = draw(st.one_of(st.just(8 + len(rest)), int32))
    return struct.pack(">iI", size, draw(_MAGICS)) + rest


@given(st.one_of(st.binary(max_size=200), almost_records()))
@example(b"")
def test_no_bytes_raise_anything_but_our_protocol_error(raw: bytes) -> None:
    checked = check_record(raw)
    try:
        to_message(decode_record(raw), body_bytes_max=1000)
    except RemoteProtocolError:
        pass
    else:
        assert checked.state is RecordState.WHOLE
    try:
        decode_dispatch(raw)
    except RemoteProtocolError:
        assert checked.state is not RecordState.WHOLE
    for position, _ in scan_records(raw):
        assert position <= len(raw)


messages = st.builds(BatchMessage, flag=int32, body=st.binary(max_size=40), properties=st.binary(max_size=40))


@given(st.lists(messages, max_size=5))
def test_any_batch_comes_back_as_it_was(batch: list[BatchMessage]) -> None:
    assert decode_batch(encode_batch(batch)) == batch


@given(st.lists(messages, min_size=1, max_size=3), st.data())
def test_a_broken_batch_is_refused_or_still_has_right_lengths(batch: list[BatchMessage], data: st.DataObject) -> None:
    raw = bytearray(encode_batch(batch))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        again = decode_batch(bytes(raw))
    except RemoteProtocolError:
        return
    assert len(encode_batch(again)) == len(raw)


@given(st.binary(max_size=100))
def test_no_bytes_break_the_batch_decoder(raw: bytes) -> None:
    try:
        decode_batch(raw)
    except RemoteProtocolError:
        return
    assert len(encode_batch(decode_batch(raw))) == len(raw)
