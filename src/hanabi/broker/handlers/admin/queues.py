"""Entries of a consume queue (321), with the verdict of a group's filter on each.

Agrees with AdminBrokerProcessor.queryConsumeQueue (4.9.8), with two additions: `eval` is computed for every entry, from
the message itself if necessary (Java uses only consumequeue_ext, and says false where that is off); and an offset
without an entry is answered with an empty list (Java sends no answer, on which its own mqadmin fails).
"""

from typing import Final

import msgspec

from hanabi.broker.clients.consumers import Consumers
from hanabi.broker.filters.consumer_filters import ConsumerFilters, FilterData
from hanabi.broker.filters.filter_file import StoredFilter, stored
from hanabi.broker.filters.message_filter import MessageFilter, make_filter
from hanabi.broker.handlers.admin.support.limits import ENTRIES_MAX, NO_BODY_BYTES_MAX
from hanabi.broker.handlers.yielding import Yielder
from hanabi.broker.settings import Settings
from hanabi.broker.tables.pretty_json import pretty
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.store.message_store import MessageStore
from hanabi.store.queues.consume_queue_ext import UNIT, ExtUnit
from hanabi.store.read.queries import QueueEntry
from hanabi.wire.bodies.stats import ConsumeQueueData, ConsumeQueueReply
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import encode_body
from hanabi.wire.headers.query import QueryConsumeQueueHeader

_ENTRY_BYTES: Final = 1_024  # approximate memory per entry while the answer is built


def queue_handlers(
    store: MessageStore, consumers: Consumers, filters: ConsumerFilters, settings: Settings
) -> dict[int, Handler]:
    """Return the handlers that show queues."""
    handlers = QueueHandlers(store, consumers, filters, settings)
    return {
        RequestCode.QUERY_CONSUME_QUEUE: Handler(
            QueryConsumeQueueHeader, handlers.show, NO_BODY_BYTES_MAX, answer_bytes=_answer_bytes
        )
    }


def _answer_bytes(header: QueryConsumeQueueHeader) -> int:
    return _ENTRY_BYTES * _count(header)


def _count(header: QueryConsumeQueueHeader) -> int:
    return min(max(header.count, 0), ENTRIES_MAX)


class QueueHandlers:
    """Handlers that show the content of queues."""

    def __init__(self, store: MessageStore, consumers: Consumers, filters: ConsumerFilters, settings: Settings) -> None:
        self._store, self._consumers, self._filters, self._settings = store, consumers, filters, settings

    async def show(self, header: QueryConsumeQueueHeader, _: Command, connection: Connection) -> Reply:
        topic, queue_id = header.topic, header.queue_id
        entries = self._store.queries.entries(topic, queue_id, header.index, _count(header))
        if entries is None:
            return Reply(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
        subscription = filter_text = wanted = None
        if header.consumer_group is not None:
            subscription = self._consumers.subscription(header.consumer_group, topic)
            if subscription is None:
                filter_text = f"{header.consumer_group}@{topic} is not online!"
            else:
                data = self._filters.find(topic, header.consumer_group)
                filter_text = "null" if data is None else pretty(_kept(data)).decode()
                retry = self._settings.broker.filter_support_retry
                wanted = make_filter(subscription, data, self._filters, retry=retry)
        pace = Yielder()
        shown: list[ConsumeQueueData] = []
        for entry in entries:
            shown.append(_shown(entry, is_taken=wanted is not None and self._takes(wanted, entry)))
            await pace.pause()
        reply = ConsumeQueueReply(
            filter_data=filter_text,
            max_queue_index=self._store.reader.max_offset(topic, queue_id),
            min_queue_index=self._store.reader.min_offset(topic, queue_id),
            queue_data=shown,
            subscription_data=subscription,
        )
        remark = None if entries else f"Index {header.index} of {queue_id}@{topic} is not exist!"
        return Reply(remark=remark, body=encode_body(reply))

    def _takes(self, wanted: MessageFilter, entry: QueueEntry) -> bool:
        """Return whether a pull would return this message."""
        if wanted.entry is not None and not wanted.entry(entry.known_tags_code, entry.ext):
            return False
        if wanted.record is None:
            return True
        record = self._store.queries.record(entry.log_offset)
        return record is not None and wanted.record(record)


def _kept(data: FilterData) -> StoredFilter:
    """Return the filter in the form of the file, as Java shows it."""
    return stored([data]).filter_data_by_topic[data.topic].group_filter_data[data.group]


def _shown(entry: QueueEntry, *, is_taken: bool) -> ConsumeQueueData:
    ext = entry.ext
    return ConsumeQueueData(
        physic_offset=entry.log_offset,
        physic_size=entry.size,
        tags_code=entry.tags_code,
        eval=is_taken,
        extend_data_json=_unit_text(ext) if ext is not None else None,
        bit_map=bits_text(ext.bitmap) if ext is not None and ext.bitmap else None,
        msg=f"Cq extend not exist!addr: {entry.tags_code}" if entry.is_extended and ext is None else None,
    )


def _unit_text(unit: ExtUnit) -> str:
    """Format the unit as fastjson writes Java's CqExtUnit."""
    size = UNIT.size + len(unit.bitmap)
    fields = {"filterBitMap": unit.bitmap} if unit.bitmap else {}
    return msgspec.json.encode(
        {**fields, "msgStoreTime": unit.store_time_ms, "size": size, "tagsCode": unit.tags_code}
    ).decode()


def bits_text(bits: bytes) -> str:
    """Format bits as Java's BitsArray.toString: the last byte first, a line end after every eighth."""
    return "".join(f"{byte:08b}" + ("\n" if index % 8 == 0 else "") for index, byte in reversed(list(enumerate(bits))))
