"""Tests of which messages wait, and with which bytes."""

import random

import msgspec
import pytest

from hanabi.broker.config import BrokerConfig
from hanabi.broker.delay.divert import Diverter, may_divert
from hanabi.broker.delay.redelivery import after_level
from hanabi.broker.delay.timer_rules import due_ms
from hanabi.broker.settings import Settings
from hanabi.errors import BrokerError, MessageRefused
from hanabi.store.config import StoreConfig
from hanabi.store.log.commit_log import PendingMessage
from hanabi.testing.clock import START_MS
from hanabi.wire.codes import ResponseCode
from hanabi.wire.delay_levels import parse_delay_levels
from hanabi.wire.message import sysflag
from hanabi.wire.message.java_hash_map import in_java_order
from hanabi.wire.message.properties import decode_properties, encode_properties
from hanabi.wire.message.record import Record, RecordState, decode_record, scan_records
from hanabi.wire.system_names import SCHEDULE_TOPIC, TIMER_TOPIC
from tests.broker.delay.world import message, message_with
from tests.golden_records import STORES, as_pending, golden_logs

NOW = START_MS + 123


def diverter(**settings: object) -> Diverter:
    broker = BrokerConfig(broker_name="broker-a", **settings)  # type: ignore[arg-type]
    return Diverter(
        parse_delay_levels(broker.message_delay_levels), Settings(broker, StoreConfig(root="unused")), lambda: NOW
    )


def divert(pending: PendingMessage, **settings: object) -> PendingMessage:
    assert may_divert(pending.properties)
    return diverter(**settings).divert(pending)


def golden_records() -> list[Record]:
    return [
        decode_record(log, position)
        for log in golden_logs(STORES[0])
        for position, checked in scan_records(log)
        if checked.state is RecordState.WHOLE
    ]


# As Apache's own store has it


def golden_delayed() -> list[Record]:
    records = [record for record in golden_records() if record.topic == SCHEDULE_TOPIC]
    assert len(records) == 4
    return records


@pytest.mark.parametrize("record", golden_delayed())
def test_a_diverted_message_has_the_very_bytes_that_apache_stored(record: Record) -> None:
    properties = decode_properties(record.properties)
    topic, queue_id = properties.pop("REAL_TOPIC"), int(properties.pop("REAL_QID"))
    sent = msgspec.structs.replace(
        as_pending(record), topic=topic, queue_id=queue_id, properties=encode_properties(properties)
    )
    assert divert(sent) == as_pending(record)


@pytest.mark.parametrize("record", golden_delayed())
def test_what_has_waited_has_the_very_bytes_that_apache_stored(record: Record) -> None:
    delivered = after_level(record)
    stored = [
        as_pending(other, is_stored=True)
        for other in golden_records()
        if other.topic == delivered.topic and other.properties == record.properties
    ]
    assert stored == [delivered]


def test_properties_are_in_the_order_of_javas_hash_map() -> None:
    for record in golden_records():
        names = list(decode_properties(record.properties).items())
        if b"REAL_TOPIC" not in record.properties:
            continue
        assert list(in_java_order(dict(names)).items()) == names
        # Names that share a bucket keep the order in which they came; DELAY and WAIT do, in 16 buckets.
        mixed = random.Random(1).sample(names, len(names))
        mixed.sort(key=lambda item: [name for name, _ in names].index(item[0]) if item[0] in ("DELAY", "WAIT") else -1)
        assert list(in_java_order(dict(mixed)).items()) == names


def test_more_properties_have_more_buckets() -> None:
    # By the code of the character modulo the buckets: a 97, b 98, q 113, 0 to 9 48 to 57.
    assert "".join(in_java_order(dict.fromkeys("qba", ""))) == "qab"  # in 16: 1, 1, 2
    assert "".join(in_java_order(dict.fromkeys("qba0123456789", ""))) == "ab0q123456789"  # in 32: 1, 2, 16, 17, 17...


# Levels


def test_a_level_goes_to_its_queue_of_the_delay_topic_and_keeps_all_else() -> None:
    pending = message(b"x", topic="Orders", queue_id=3, KEYS="k", DELAY=5, TAGS="t")
    diverted = divert(pending)
    assert (diverted.topic, diverted.queue_id) == ("SCHEDULE_TOPIC_XXXX", 4)
    assert decode_properties(diverted.properties) == {
        **decode_properties(pending.properties),
        "REAL_TOPIC": "Orders",
        "REAL_QID": "3",
    }
    unchanged = msgspec.structs.replace(diverted, topic="Orders", queue_id=3, properties=pending.properties)
    assert unchanged == pending


def test_a_level_above_the_highest_is_the_highest() -> None:
    diverted = divert(message(DELAY=19))
    assert diverted.queue_id == 17
    assert decode_properties(diverted.properties)["DELAY"] == "18"


@pytest.mark.parametrize("level", ["0", "-1", "+0"])
def test_level_zero_does_not_wait(level: str) -> None:
    pending = message(DELAY=level)
    assert divert(pending) is pending


@pytest.mark.parametrize("level", ["one", "1.0", "", "9" * 30, "2147483648"])
def test_a_level_that_is_no_number_is_refused(level: str) -> None:
    pending = msgspec.structs.replace(message(), properties=b"DELAY\x01%b \x02" % level.encode())
    with pytest.raises(MessageRefused, match="DELAY"):
        divert(pending)


@pytest.mark.parametrize(
    ("flag", "waits"),
    [
        (sysflag.TRANSACTION_NONE, True),
        (sysflag.TRANSACTION_COMMIT, True),
        (sysflag.TRANSACTION_PREPARED, False),
        (sysflag.TRANSACTION_ROLLBACK, False),
    ],
)
def test_only_what_consumers_will_read_can_wait(flag: int, waits: bool) -> None:
    for properties in ({"DELAY": 1}, {"TIMER_DELAY_SEC": 1}):
        pending = msgspec.structs.replace(message_with(properties), sys_flag=flag)
        assert (divert(pending) is not pending) == waits


def test_a_level_goes_before_a_time() -> None:
    diverted = divert(message(DELAY=1, TIMER_DELAY_SEC=9, TIMER_DELAY_MS=9, TIMER_DELIVER_MS=9))
    assert diverted.topic == SCHEDULE_TOPIC
    assert decode_properties(diverted.properties) == {"DELAY": "1", "REAL_TOPIC": "T", "REAL_QID": "0"}


# Times


@pytest.mark.parametrize(
    ("properties", "deliver_ms"),
    [
        ({"TIMER_DELAY_SEC": 7}, NOW + 7_000),
        ({"TIMER_DELAY_MS": 1}, NOW + 1),
        ({"TIMER_DELIVER_MS": NOW + 1_500}, NOW + 1_500),
        ({"TIMER_DELIVER_MS": START_MS + 9_000}, START_MS + 9_000),
        ({"TIMER_DELAY_SEC": 7, "TIMER_DELAY_MS": 1, "TIMER_DELIVER_MS": NOW + 2}, NOW + 7_000),  # Apache's order
        ({"TIMER_DELAY_SEC": 3 * 86_400}, NOW + 3 * 86_400_000),
    ],
)
def test_a_time_goes_to_the_timer_topic_with_the_second_before_it(properties: dict[str, int], deliver_ms: int) -> None:
    diverted = divert(message_with(properties, topic="Orders", queue_id=3))
    assert (diverted.topic, diverted.queue_id) == (TIMER_TOPIC, 0)
    told = decode_properties(diverted.properties)
    assert {name: told.pop(name) for name in ("REAL_TOPIC", "REAL_QID")} == {"REAL_TOPIC": "Orders", "REAL_QID": "3"}
    timer_out_ms = int(told.pop("TIMER_OUT_MS"))
    assert timer_out_ms % 1_000 == 0
    assert timer_out_ms < deliver_ms <= timer_out_ms + 1_000
    assert told == {name: str(value) for name, value in properties.items()}
    assert due_ms(diverted.properties, NOW) == deliver_ms


def test_what_is_stored_again_or_lost_its_time_is_due_at_the_end_of_its_second() -> None:
    raw = divert(message(TIMER_DELAY_MS=1_500)).properties
    timer_out_ms = int(decode_properties(raw)["TIMER_OUT_MS"])
    assert due_ms(raw, NOW + 86_400_000) == timer_out_ms + 1_000
    assert due_ms(b"TIMER_OUT_MS\x01%d" % timer_out_ms, NOW) == timer_out_ms + 1_000
    assert due_ms(b"TIMER_OUT_MS\x01soon", NOW) is due_ms(b"", NOW) is None


@pytest.mark.parametrize("properties", [{"TIMER_DELIVER_MS": NOW}, {"TIMER_DELIVER_MS": 5}, {"TIMER_DELAY_SEC": -1}])
def test_a_time_in_the_past_does_not_wait(properties: dict[str, int]) -> None:
    pending = message_with(properties)
    assert divert(pending) is pending


@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELAY_SEC": 3 * 86_400 + 1},
        {"TIMER_DELIVER_MS": NOW + 3 * 86_400_000 + 1},
        {"TIMER_DELAY_MS": "soon"},
        {"TIMER_DELIVER_MS": "9" * 30},
        {"TIMER_DELIVER_MS": NOW, "TIMER_DEL_UNIQKEY": "T+1"},
    ],
)
def test_a_time_too_far_away_or_none_at_all_is_refused_in_apaches_words(properties: dict[str, object]) -> None:
    with pytest.raises(MessageRefused, match="not be bigger than the max delay 259200000ms") as caught:
        divert(message_with(properties))
    assert caught.value.code == ResponseCode.MESSAGE_ILLEGAL


def test_without_the_timer_a_time_is_refused() -> None:
    with pytest.raises(BrokerError, match="timerWheelEnable is false") as caught:
        divert(message(TIMER_DELAY_SEC=1), timer_enabled=False)
    assert caught.value.code == ResponseCode.SYSTEM_ERROR


def test_what_has_waited_for_its_time_does_not_wait_again() -> None:
    waited = msgspec.structs.replace(divert(message(TIMER_DELAY_SEC=5)), topic="T", queue_id=0)
    assert divert(waited) is waited


def test_most_messages_need_not_be_looked_at() -> None:
    assert not may_divert(message(KEYS="DELAY", TAGS="TIMER", UNIQ_KEY="x").properties)
