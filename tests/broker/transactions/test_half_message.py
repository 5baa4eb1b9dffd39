"""Half messages and what is made from them, against what Apache itself wrote and sent."""

import pytest

from hanabi.broker.transactions import half_message
from hanabi.broker.transactions.half_message import HalfMessage, ended_offsets, to_final, to_half, to_op
from hanabi.store.log.commit_log import AppendResult, PendingMessage
from hanabi.wire.codes import RequestCode
from hanabi.wire.headers.transaction import CheckTransactionStateHeader
from hanabi.wire.message import sysflag
from hanabi.wire.message.hosts import encode_host
from hanabi.wire.message.properties import decode_properties, encode_properties
from hanabi.wire.message.record import Record, RecordState, decode_record, scan_records
from hanabi.wire.system_names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from tests.golden_records import STORES, as_pending, frames_with_records, golden_logs

HOST = encode_host("127.0.0.1", 10911)


def golden_records(name: str) -> list[Record]:
    return [
        decode_record(log, position)
        for log in golden_logs(name)
        for position, checked in scan_records(log)
        if checked.state is RecordState.WHOLE
    ]


def golden_halves(name: str) -> list[Record]:
    return [record for record in golden_records(name) if record.topic == HALF_TOPIC]


def prepared(properties: dict[str, str], *, sys_flag: int = sysflag.TRANSACTION_PREPARED) -> PendingMessage:
    return PendingMessage("T", 3, b"body", encode_properties(properties), 1, HOST, HOST, flag=5, sys_flag=sys_flag)


@pytest.mark.parametrize("store", STORES)
def test_what_a_producer_sent_becomes_the_half_message_that_apache_stored(store: str) -> None:
    for stored in golden_halves(store):
        properties = decode_properties(stored.properties)
        real_topic, real_queue = properties.pop("REAL_TOPIC"), int(properties.pop("REAL_QID"))
        sent = PendingMessage(
            real_topic,
            real_queue,
            stored.body,
            encode_properties(properties),
            stored.born_timestamp_ms,
            stored.born_host,
            stored.store_host,
            sys_flag=sysflag.TRANSACTION_PREPARED,
        )
        half = to_half(sent)
        assert (half.topic, half.queue_id, half.sys_flag, half.body) == (HALF_TOPIC, 0, stored.sys_flag, stored.body)
        assert decode_properties(half.properties) == decode_properties(stored.properties)


@pytest.mark.parametrize("store", STORES)
def test_a_committed_message_is_byte_for_byte_the_one_that_apache_stored(store: str) -> None:
    halves = {half.log_offset: half for half in golden_halves(store)}
    finals = [record for record in golden_records(store) if record.sys_flag & sysflag.TRANSACTION_COMMIT]
    assert len(finals) == 2
    for stored in finals:
        assert to_final(HalfMessage.of(halves[stored.prepared_offset]), "GoldenTx", stored.queue_id) == as_pending(
            stored, is_stored=True
        )


@pytest.mark.parametrize("store", STORES)
def test_an_op_message_is_byte_for_byte_the_one_that_apache_stored(store: str) -> None:
    halves = {half.queue_offset: half for half in golden_halves(store)}
    ops = [record for record in golden_records(store) if record.topic == OP_HALF_TOPIC]
    assert [ended_offsets(op) for op in ops] == [[0], [1], [3]]
    for stored in ops:
        assert to_op(halves[int(stored.body)], stored.born_timestamp_ms) == as_pending(stored)


@pytest.mark.parametrize("store", STORES)
def test_a_renewed_half_message_is_byte_for_byte_the_one_that_apache_stored(store: str) -> None:
    first, copy = golden_halves(store)[2:4]
    renewed = half_message.renewed(HalfMessage.of(first))
    assert renewed == as_pending(copy, is_stored=True)


def test_the_question_to_a_producer_is_the_one_that_apache_sent() -> None:
    sent = next(command for _, command in frames_with_records() if command.code == RequestCode.CHECK_TRANSACTION_STATE)
    half, copy = golden_halves(STORES[0])[2:4]
    renewed = half_message.renewed(HalfMessage.of(half))
    place = AppendResult(copy.log_offset, copy.size, copy.queue_offset, copy.store_timestamp_ms, copy.store_host)
    request = half_message.check_request(HalfMessage.of(half), renewed, place)
    assert request is not None
    header, body = request
    assert header == sent.header(CheckTransactionStateHeader)
    ours, theirs = decode_record(body), decode_record(sent.body)
    ours_properties, theirs_properties = decode_properties(ours.properties), decode_properties(theirs.properties)
    assert theirs_properties.pop("WAIT") == "false"  # Apache changes it in its own copy on the way
    assert ours_properties.pop("WAIT") == "true"
    assert ours_properties == theirs_properties
    for name in Record.__struct_fields__:
        if name not in ("properties", "size"):
            assert getattr(ours, name) == getattr(theirs, name), name


def test_a_half_message_keeps_everything_but_topic_queue_and_type() -> None:
    message = prepared({"TAGS": "A", "TRAN_MSG": "true"}, sys_flag=sysflag.TRANSACTION_PREPARED | sysflag.COMPRESSED)
    half = to_half(message)
    assert half.properties == b"REAL_TOPIC\x01T\x02TRAN_MSG\x01true\x02TAGS\x01A\x02REAL_QID\x013"  # Apache's order
    assert (half.flag, half.sys_flag) == (5, sysflag.COMPRESSED)


def test_a_delay_is_taken_out_and_a_real_topic_of_the_senders_own_replaced() -> None:
    sent = {
        "DELAY": "3",
        "a": "b",
        "TIMER_DELAY_SEC": "9",
        "TIMER_DELAY_MS": "9",
        "TIMER_DELIVER_MS": "9",
        "REAL_TOPIC": "other",
        "REAL_QID": "88",
    }
    half = to_half(prepared(sent))
    assert decode_properties(half.properties) == {"a": "b", "REAL_TOPIC": "T", "REAL_QID": "3"}


def test_a_message_without_properties_can_be_a_half_message() -> None:
    assert decode_properties(to_half(prepared({})).properties) == {"REAL_TOPIC": "T", "REAL_QID": "3"}


def record_of(properties: dict[str, str], *, queue_offset: int = 9, body: bytes = b"body") -> Record:
    return Record(
        magic=0,
        crc=0,
        queue_id=0,
        flag=5,
        queue_offset=queue_offset,
        log_offset=1000,
        sys_flag=0,
        born_timestamp_ms=1,
        born_host=HOST,
        store_timestamp_ms=2,
        store_host=HOST,
        reconsume_times=4,
        prepared_offset=0,
        body=body,
        topic=HALF_TOPIC,
        properties=encode_properties(properties),
        size=100,
    )


def test_copies_keep_flag_and_reconsume_times() -> None:
    half = HalfMessage.of(record_of({"REAL_TOPIC": "T"}))
    for copy in (
        half_message.renewed(half),
        half_message.renewed_unasked(half),
        half_message.given_up(half),
        half_message.revived(half),
    ):
        assert (copy.flag, copy.reconsume_times, copy.body) == (5, 4, b"body")


def test_each_renewal_counts_one_check_more_and_a_revival_begins_anew() -> None:
    half = HalfMessage.of(record_of({"TRANSACTION_CHECK_TIMES": "7"}))
    assert decode_properties(half_message.renewed(half).properties) == {"TRANSACTION_CHECK_TIMES": "8"}
    assert decode_properties(half_message.revived(half).properties) == {"TRANSACTION_CHECK_TIMES": "0"}


def test_a_renewal_without_a_question_remembers_the_first_place_and_counts_no_check() -> None:
    first = HalfMessage.of(record_of({}, queue_offset=9))
    copy = decode_properties(half_message.renewed_unasked(first).properties)
    assert copy == {"TRAN_PREPARED_QUEUE_OFFSET": "9"}
    second = HalfMessage.of(record_of(copy, queue_offset=31))
    assert decode_properties(half_message.renewed_unasked(second).properties) == copy


def test_what_is_given_up_goes_to_the_topic_for_it() -> None:
    kept = half_message.given_up(HalfMessage.of(record_of({"a": "b"})))
    assert (kept.topic, kept.queue_id, kept.properties) == (CHECK_MAX_TIME_TOPIC, 0, b"a\x01b")


@pytest.mark.parametrize(
    ("body", "offsets"),
    [
        (b"7", [7]),
        (b"7,9,10,", [7, 9, 10]),  # 5.x
        (b"7, 9", [7]),  # as Java's parseLong: no spaces
        (b"", []),
        (b"x,3", [3]),
        (b"-1", []),
        (b"\xff", []),
        (b"9" * 400, []),
    ],
)
def test_an_op_message_may_tell_of_several(body: bytes, offsets: list[int]) -> None:
    assert ended_offsets(record_of({"TAGS": "d"}, body=body)) == offsets


def test_an_op_message_with_another_tag_tells_nothing() -> None:
    assert ended_offsets(record_of({"TAGS": "r"}, body=b"7")) == []
    assert ended_offsets(record_of({}, body=b"7")) == []


@pytest.mark.parametrize("number", ["", "x", "1.5", "٣", "9" * 30])
def test_numbers_that_are_none_count_as_not_there(number: str) -> None:
    half = HalfMessage.of(
        record_of(
            {
                name: number
                for name in (
                    "REAL_QID",
                    "TRANSACTION_CHECK_TIMES",
                    "CHECK_IMMUNITY_TIME_IN_SECONDS",
                    "TRAN_PREPARED_QUEUE_OFFSET",
                )
                if number
            }
        )
    )
    assert half.real_queue_id is half.immunity_ms is half.prepared_queue_offset is None
    assert half.check_times == 0


def test_a_queue_that_no_topic_has_is_none() -> None:
    assert HalfMessage.of(record_of({"REAL_QID": "-1"})).real_queue_id is None
    assert HalfMessage.of(record_of({"REAL_QID": str(2**31)})).real_queue_id is None


def test_a_question_about_a_message_without_a_place_is_not_asked() -> None:
    half = HalfMessage.of(record_of({"REAL_TOPIC": "T"}))
    place = AppendResult(1, 1, 1, 1, HOST)
    assert half_message.check_request(half, half_message.renewed(half), place) is None
