"""`config/consumerFilter.json`, as Apache writes it: the expressions of all groups, and the time from which they count.

    {"filterDataByTopic":{ TOPIC: {"groupFilterData":{ GROUP: {...}}, "topic":TOPIC}}}

Agrees with ConsumerFilterManager.encode and decode (4.9.8).
"""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hanabi.broker.filters.bloom import BloomFilter, BloomPositions
from hanabi.broker.filters.filter_data import FilterData
from hanabi.broker.tables.pretty_json import pretty
from hanabi.durable_table import DurableTable
from hanabi.errors import SubscriptionParseFailed
from hanabi.wire.body import Body, always_written, always_written_new
from hanabi.wire.fastjson import decode_file
from hanabi.wire.header import Int32, Int64

logger = logging.getLogger(__name__)

_SILENT_MS: Final = 30_000  # a killed broker recorded no deaths; its groups are taken to have left this long ago


class StoredBloom(Body, frozen=True, kw_only=True):
    """Java: BloomFilterData."""

    bit_num: Int32
    bit_pos: list[Int32]


class StoredFilter(Body, frozen=True, kw_only=True):
    """Java: ConsumerFilterData. `dead` is only for readers: it is computed from the two times."""

    bloom_filter_data: StoredBloom | None = None
    born_time: Int64 = always_written(0)
    client_version: Int64 = always_written(0)
    consumer_group: str
    dead: bool = always_written(False)
    dead_time: Int64 = always_written(0)
    expression: str
    expression_type: str
    topic: str


class StoredTopic(Body, frozen=True, kw_only=True):
    """Java: FilterDataMapByTopic."""

    group_filter_data: dict[str, StoredFilter] = always_written_new(dict)
    topic: str | None = None


class StoredFilters(Body, frozen=True, kw_only=True):
    """The whole file."""

    filter_data_by_topic: dict[str, StoredTopic] = always_written_new(dict)


def stored(filters: Iterable[FilterData]) -> StoredFilters:
    """Return *filters* in the form of the file."""
    topics: dict[str, StoredTopic] = {}
    for data in filters:
        topic = topics.get(data.topic)
        if topic is None:
            topic = topics[data.topic] = StoredTopic(topic=data.topic)
        topic.group_filter_data[data.group] = _stored_filter(data)
    return StoredFilters(filter_data_by_topic=topics)


def filter_file(path: Path) -> DurableTable[StoredFilters]:
    """Return the file at *path*."""
    return DurableTable(path, encode=pretty, decode=lambda raw: decode_file(raw, StoredFilters))


def restored(content: StoredFilters, bloom: BloomFilter, now_ms: int) -> list[FilterData]:
    """Return the filters in *content*, all dead until their groups return.

    Return none if the size of the bloom filter has changed: the stored bits then have another meaning.
    """
    filters: list[FilterData] = []
    for topic in content.filter_data_by_topic.values():
        for member in topic.group_filter_data.values():
            positions = _positions(member)
            if not bloom.fits(positions):
                logger.warning("the size of the bloom filter has changed: all stored filters are dropped")
                return []
            try:
                data = FilterData.build(
                    member.topic,
                    member.consumer_group,
                    member.expression,
                    member.expression_type,
                    member.client_version,
                    born_ms=member.born_time,
                    dead_ms=member.dead_time or max(now_ms - _SILENT_MS, member.born_time),
                    bloom=positions,
                )
            except SubscriptionParseFailed as error:
                logger.warning("the filter of %s on %s is dropped: %s", member.consumer_group, member.topic, error)
            else:
                filters.append(data)
    return filters


def _stored_filter(data: FilterData) -> StoredFilter:
    bloom = data.bloom
    return StoredFilter(
        bloom_filter_data=StoredBloom(bit_num=bloom.bit_num, bit_pos=list(bloom.bit_pos)) if bloom else None,
        born_time=data.born_ms,
        client_version=data.client_version,
        consumer_group=data.group,
        dead=data.is_dead,
        dead_time=data.dead_ms,
        expression=data.expression,
        expression_type=data.expression_type,
        topic=data.topic,
    )


def _positions(stored: StoredFilter) -> BloomPositions | None:
    bloom = stored.bloom_filter_data
    if bloom is None or not all(0 <= position < bloom.bit_num for position in bloom.bit_pos):
        return None
    return BloomPositions(bloom.bit_num, tuple(bloom.bit_pos))
