"""Filter of a subscription in three forms: on a queue entry, on a record, on a new message.

    entry   by the tags code, or by the bloom bits that were set when the message was stored: cheap, says yes too often
    record  by the expression, on the properties of the record itself: exact
    wants   of a message that was appended just now, before a held pull is woken

A filter of None passes everything. Agrees with ExpressionMessageFilter and ExpressionForRetryMessageFilter of 4.9.8
(5.x no longer evaluates retries), and with PullRequestHoldService.notifyMessageArriving.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from hanabi.broker.filters.bloom import BloomFilter, bitmap_number
from hanabi.broker.filters.consumer_filters import ConsumerFilters
from hanabi.broker.filters.filter_data import FilterData
from hanabi.broker.filters.sql.rule import CompiledRule
from hanabi.broker.filters.subscription_parsing import ALL_TAGS, is_tag_type
from hanabi.errors import RemoteProtocolError
from hanabi.store.indexer import Dispatched
from hanabi.store.queues.consume_queue_ext import ExtUnit
from hanabi.store.read.queue_reader import EntryFilter, RecordFilter
from hanabi.wire.bodies.heartbeat import SubscriptionData
from hanabi.wire.message.properties import find_property
from hanabi.wire.message.record import record_properties
from hanabi.wire.system_names import RETRY_PREFIX

_RawFilter = Callable[[bytes], bool]  # of undecoded properties


class MessageFilter(NamedTuple):
    """The three forms, see above. `wants` is always present."""

    entry: EntryFilter | None
    record: RecordFilter | None
    wants: Callable[[Dispatched], bool]


def make_filter(
    subscription: SubscriptionData, data: FilterData | None, filters: ConsumerFilters, *, retry: bool = False
) -> MessageFilter:
    """Return the filter of *subscription*. *data* is its compiled expression unless it is a list of tags.

    *retry* (`filterSupportRetry`): messages of a retry topic are matched by the group's filter on their original topic.
    Without it all of them pass, as they matched once.
    """
    if subscription.class_filter_mode:
        return PASSES_ALL
    by_tags = _tag_filter(subscription) if is_tag_type(subscription.expression_type) else None
    if retry and subscription.topic.startswith(RETRY_PREFIX):
        matches = _retry_filter(subscription.topic.removeprefix(RETRY_PREFIX), filters)
        return MessageFilter(by_tags, _record_filter(matches), _wants(by_tags, matches))
    if is_tag_type(subscription.expression_type):
        return PASSES_ALL if by_tags is None else MessageFilter(by_tags, None, _wants(by_tags, None))
    if data is None:
        return PASSES_ALL
    if isinstance(data.compiled, CompiledRule):
        return MessageFilter(None, data.compiled.matches_record, _wants_all)  # a new message is looked at in the log
    matches = data.compiled.matches_raw
    return MessageFilter(_bits_filter(data, filters.bloom), _record_filter(matches), _wants(None, matches))


def _tag_filter(subscription: SubscriptionData) -> EntryFilter | None:
    if not subscription.sub_string or subscription.sub_string == ALL_TAGS:
        return None
    codes = frozenset(subscription.code_set)
    return lambda tags_code, _: tags_code is None or tags_code in codes


def _bits_filter(data: FilterData, bloom: BloomFilter) -> EntryFilter | None:
    """Return a filter by bits, which counts only for messages younger than this filter; None if bits cannot be used."""
    if not bloom.fits(data.bloom):
        return None
    born_ms, bitmap_bytes, mask = data.born_ms, bloom.bits // 8, data.mask

    def entry(_: int | None, unit: ExtUnit | None) -> bool:
        if unit is None or unit.store_time_ms <= born_ms or len(unit.bitmap) != bitmap_bytes:
            return True
        return bitmap_number(unit.bitmap) & mask == mask

    return entry


def _retry_filter(group: str, filters: ConsumerFilters) -> _RawFilter:
    def matches(raw: bytes) -> bool:
        topic = find_property(raw, b"RETRY_TOPIC")
        data = filters.find(topic, group) if topic is not None else None
        if data is None or isinstance(data.compiled, CompiledRule):  # a rule may need the body; it matched once
            return True
        return data.compiled.matches_raw(raw)

    return matches


def _record_filter(matches: _RawFilter) -> RecordFilter:
    def record(view: memoryview) -> bool:
        try:
            raw = record_properties(view)
        except RemoteProtocolError:
            raw = b""  # a record with a damaged end has no properties for an expression
        return matches(raw)

    return record


def _wants(by_tags: EntryFilter | None, matches: _RawFilter | None) -> Callable[[Dispatched], bool]:
    def wants(dispatched: Dispatched) -> bool:
        if by_tags is not None and not by_tags(dispatched.tags_code, None):
            return False
        return matches is None or matches(dispatched.properties)

    return wants


def _wants_all(_: Dispatched) -> bool:
    return True


PASSES_ALL: Final = MessageFilter(None, None, _wants_all)
