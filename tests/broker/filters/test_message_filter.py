"""Filters let pass what a subscription wants, in a real store and before a held pull is woken."""

from pathlib import Path

import msgspec
import pytest

from hanabi.broker.config import BrokerConfig
from hanabi.broker.filters.consumer_filters import ConsumerFilters
from hanabi.broker.filters.filter_data import FilterData
from hanabi.broker.filters.message_filter import PASSES_ALL, MessageFilter, make_filter
from hanabi.broker.filters.subscription_parsing import parse_subscription
from hanabi.broker.settings import Settings
from hanabi.store.config import StoreConfig
from hanabi.store.indexer import Dispatched, Hooks
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import MessageStore, PutStatus
from hanabi.store.queues.consume_queue_ext import ExtUnit
from hanabi.testing.clock import ManualClock
from hanabi.testing.cluster import small_store
from hanabi.wire.bodies.heartbeat import SubscriptionData
from hanabi.wire.message.hosts import encode_host
from hanabi.wire.message.properties import encode_properties
from hanabi.wire.message.record import decode_records, encode_record
from hanabi.wire.message.tags import tags_code

HOST = encode_host("127.0.0.1", 10_911)


def _filters(clock: ManualClock, **settings: object) -> ConsumerFilters:
    plain = BrokerConfig(broker_name="broker-a")
    return ConsumerFilters(
        None, Settings(msgspec.structs.replace(plain, **settings), StoreConfig(root="unused")), clock
    )


def _sql(expression: str, topic: str = "T") -> SubscriptionData:
    return SubscriptionData(topic=topic, sub_string=expression, expression_type="SQL92", sub_version=1)


def _message(number: int, topic: str = "T", **properties: str) -> PendingMessage:
    return PendingMessage(topic, 0, b"%d" % number, encode_properties(properties), 1_000, HOST, HOST)


def _dispatched(**properties: str) -> Dispatched:
    code = tags_code(properties.get("TAGS"))
    return Dispatched("T", 0, 0, 0, 100, code, 5_000, encode_properties(properties))


def _record(topic: str = "T", **properties: str) -> memoryview:
    record = encode_record(
        topic=topic.encode(),
        body=b"body",
        properties=encode_properties(properties),
        queue_id=0,
        born_timestamp_ms=1,
        born_host=HOST,
        store_host=HOST,
    )
    return memoryview(record)


def _read(store: MessageStore, message_filter: MessageFilter, topic: str = "T") -> list[int]:
    result = store.get(topic, 0, 0, 100, entry_filter=message_filter.entry, record_filter=message_filter.record)
    return [int(record.body) for part in result.slices for record in decode_records(part)]


# Tags


@pytest.mark.parametrize(
    ("tags", "expected"), [("*", [0, 1, 2, 3]), ("A", [0]), ("A || B", [0, 1]), ("C", []), ("", [0, 1, 2, 3])]
)
def test_tags_are_filtered_by_their_codes(tmp_path: Path, tags: str, expected: list[int]) -> None:
    message_filter = make_filter(parse_subscription("T", tags, "TAG", 1), None, _filters(ManualClock()))
    with MessageStore.open(small_store(tmp_path)) as store:
        for number, tag in enumerate(("A", "B", "AB", "")):
            properties = {"TAGS": tag} if tag else {}
            assert store.put(_message(number, **properties)).status is PutStatus.PUT_OK
        assert _read(store, message_filter) == expected
    wanted = [message_filter.wants(_dispatched(TAGS=tag)) for tag in ("A", "B", "AB")]
    assert wanted == [number in expected for number in range(3)]


def test_an_entry_whose_tags_are_unknown_passes() -> None:
    message_filter = make_filter(parse_subscription("T", "A", None, 1), None, _filters(ManualClock()))
    assert message_filter.entry is not None
    assert message_filter.entry(None, None)
    assert not message_filter.entry(5, None)
    assert message_filter.record is None


def test_class_filters_let_everything_pass() -> None:
    subscription = SubscriptionData(topic="T", sub_string="some.Class", class_filter_mode=True)
    assert make_filter(subscription, None, _filters(ManualClock())) is PASSES_ALL
    assert PASSES_ALL.wants(_dispatched())


# Expressions


def test_expressions_are_evaluated_on_the_records(tmp_path: Path) -> None:
    subscription = _sql("a BETWEEN 1 AND 3 AND TAGS = 'x'")
    data = FilterData.build("T", "g", "a BETWEEN 1 AND 3 AND TAGS = 'x'", "SQL92", 1)
    message_filter = make_filter(subscription, data, _filters(ManualClock()))
    assert message_filter.entry is None  # there are no bits for a filter that was not registered
    with MessageStore.open(small_store(tmp_path)) as store:
        for number in range(6):
            store.put(_message(number, a=str(number), TAGS="x" if number % 2 else "y"))
        store.put(_message(6, a="three", TAGS="x"))
        store.put(_message(7))
        assert _read(store, message_filter) == [1, 3]
    assert message_filter.wants(_dispatched(a="2", TAGS="x"))
    assert not message_filter.wants(_dispatched(a="2", TAGS="y"))
    assert not message_filter.wants(_dispatched(a="two", TAGS="x"))


def test_an_expression_without_data_lets_everything_pass() -> None:
    assert make_filter(_sql("a = 1"), None, _filters(ManualClock())) is PASSES_ALL


def test_a_record_with_a_damaged_end_has_no_properties() -> None:
    data = FilterData.build("T", "g", "a IS NULL", "SQL92", 1)
    message_filter = make_filter(_sql("a IS NULL"), data, _filters(ManualClock()))
    assert message_filter.record is not None
    assert not message_filter.record(_record(a="1"))
    damaged = bytearray(_record(a="1"))
    damaged[-5:-3] = b"\x7f\xff"  # the length of the properties
    assert message_filter.record(memoryview(damaged))


# Bits


def test_bits_save_the_look_at_the_record(tmp_path: Path) -> None:
    clock = ManualClock()
    filters = _filters(clock, filter_bitmap_enabled=True)
    subscription = _sql("a = 1")
    filters.register("g", [subscription])
    config = small_store(tmp_path, consume_queue_ext_enabled=True)
    clock.ms += 1_000
    with MessageStore.open(config, now_ms=clock, hooks=Hooks(filter_bits=filters.filter_bits)) as store:
        for number in range(6):
            store.put(_message(number, a=str(number % 2)))
        message_filter = make_filter(subscription, filters.find("T", "g"), filters)
        looked_at: list[int] = []

        def record(view: memoryview) -> bool:
            looked_at.append(int(decode_records(view)[0].body))
            return message_filter.record is not None and message_filter.record(view)

        assert _read(store, message_filter._replace(record=record)) == [1, 3, 5]
        assert looked_at == [1, 3, 5]


def test_bits_of_messages_that_are_older_than_the_filter_do_not_count(tmp_path: Path) -> None:
    clock = ManualClock()
    filters = _filters(clock, filter_bitmap_enabled=True)
    filters.register("other", [_sql("a = 2")])
    config = small_store(tmp_path, consume_queue_ext_enabled=True)
    with MessageStore.open(config, now_ms=clock, hooks=Hooks(filter_bits=filters.filter_bits)) as store:
        clock.ms += 1_000
        store.put(_message(0, a="1"))
        clock.ms += 1_000
        filters.register("g", [_sql("a = 1")])
        store.put(_message(1, a="1"))  # in the same millisecond: who was first?
        clock.ms += 1
        store.put(_message(2, a="1"))
        store.put(_message(3, a="2"))
        assert _read(store, make_filter(_sql("a = 1"), filters.find("T", "g"), filters)) == [0, 1, 2]


def test_bits_decide_only_where_they_can() -> None:
    clock = ManualClock()
    filters = _filters(clock, filter_bitmap_enabled=True)
    filters.register("g", [_sql("a = 1")])
    entry = make_filter(_sql("a = 1"), filters.find("T", "g"), filters).entry
    assert entry is not None
    later = clock.ms + 1
    assert entry(0, None)
    assert entry(None, None)
    assert not entry(0, ExtUnit(0, later, bytes(14)))
    assert entry(0, ExtUnit(0, later, b"\xff" * 14))
    assert entry(0, ExtUnit(0, clock.ms, bytes(14)))
    assert entry(0, ExtUnit(0, later, b""))  # none were computed
    assert entry(0, ExtUnit(0, later, bytes(15)))  # of another size


# Retries


@pytest.mark.parametrize("retry", [True, False])
def test_retries_are_judged_by_the_filter_on_their_own_topic(tmp_path: Path, retry: bool) -> None:
    filters = _filters(ManualClock())
    filters.register("g", [_sql("a = 1", "T")])
    filters.register("other", [_sql("a = 2", "T")])
    subscription = parse_subscription("%RETRY%g", "*", "TAG", 1)
    message_filter = make_filter(subscription, None, filters, retry=retry)
    with MessageStore.open(small_store(tmp_path)) as store:
        store.put(_message(0, "%RETRY%g", a="1", RETRY_TOPIC="T"))
        store.put(_message(1, "%RETRY%g", a="2", RETRY_TOPIC="T"))
        store.put(_message(2, "%RETRY%g", a="2", RETRY_TOPIC="WithoutFilter"))
        store.put(_message(3, "%RETRY%g", a="2"))
        assert _read(store, message_filter, "%RETRY%g") == ([0, 2, 3] if retry else [0, 1, 2, 3])
    assert message_filter.wants(_dispatched(a="1", RETRY_TOPIC="T"))
    assert message_filter.wants(_dispatched(a="2", RETRY_TOPIC="T")) is not retry


def test_a_change_of_the_filter_is_seen_by_retries_at_once() -> None:
    filters = _filters(ManualClock())
    message_filter = make_filter(parse_subscription("%RETRY%g", "*", None, 1), None, filters, retry=True)
    assert message_filter.wants(_dispatched(a="2", RETRY_TOPIC="T"))
    filters.register("g", [_sql("a = 1", "T")])
    assert not message_filter.wants(_dispatched(a="2", RETRY_TOPIC="T"))


def test_support_for_retries_leaves_other_topics_alone() -> None:
    filters = _filters(ManualClock())
    filters.register("g", [_sql("a = 1", "T")])
    message_filter = make_filter(parse_subscription("T", "A", None, 1), None, filters, retry=True)
    assert message_filter.record is None
    assert message_filter.wants(_dispatched(TAGS="A", RETRY_TOPIC="T"))
