"""Looking up messages: by a key (12), by their place in the log (33).

A search reads index files and then each message it points at, so it runs in a thread. Agrees with QueryMessageProcessor
(4.9.8). What is added: the keys of each message are compared, since the index knows hashes only, and a reply never
becomes longer than a client can read.
"""

import asyncio

from hanabi.broker.settings import Settings
from hanabi.remoting.dispatch import Handler, Reply
from hanabi.remoting.protocol import Connection
from hanabi.store.message_store import MessageStore
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.frame import FRAME_BYTES_MAX
from hanabi.wire.headers.query import QueryMessageHeader, QueryMessageReplyHeader, ViewMessageHeader

NO_BODY_BYTES_MAX = 4 * 1024
REPLY_BYTES_MAX = FRAME_BYTES_MAX - 64 * 1024  # its header has some place as well


def query_handlers(store: MessageStore, settings: Settings) -> dict[int, Handler]:
    """What looks up messages."""
    handlers = QueryHandlers(store, settings)
    return {
        RequestCode.QUERY_MESSAGE: Handler(QueryMessageHeader, handlers.by_key, NO_BODY_BYTES_MAX),
        RequestCode.VIEW_MESSAGE_BY_ID: Handler(ViewMessageHeader, handlers.by_place, NO_BODY_BYTES_MAX),
    }


class QueryHandlers:
    """Answers with whole messages, as they lie in the log."""

    def __init__(self, store: MessageStore, settings: Settings) -> None:
        self._store = store
        self._settings = settings

    async def by_key(self, header: QueryMessageHeader, _: Command, connection: Connection) -> Reply:
        limits = self._settings.store
        asked_for = limits.query_count_default if header.by_unique_key else header.max_num
        count = max(1, min(asked_for, limits.query_count_max))
        place = (header.topic, header.key, count, header.begin_timestamp, header.end_timestamp)
        if header.by_unique_key:
            found = await asyncio.to_thread(self._store.queries.by_unique_key, *place)
        else:
            found = await asyncio.to_thread(self._store.queries.by_key, *place)
        about_index = QueryMessageReplyHeader(
            index_last_update_timestamp=found.last_update_ms, index_last_update_phyoffset=found.last_update_log_offset
        )
        records = newest_within(found.records, REPLY_BYTES_MAX)
        if not records:
            return Reply(
                ResponseCode.QUERY_NOT_FOUND, "can not find message, maybe time range not correct", about_index
            )
        return Reply(header=about_index, body=[*records])

    def by_place(self, header: ViewMessageHeader, _: Command, connection: Connection) -> Reply:
        record = self._store.queries.record(header.offset)
        if record is None:
            return Reply(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {header.offset}")
        return Reply(body=record)


def newest_within(records: list[memoryview], bytes_max: int) -> list[memoryview]:
    """The last of *records* that are no more than *bytes_max* together, and one in any case."""
    total = 0
    for count, record in enumerate(reversed(records)):
        total += len(record)
        if total > bytes_max and count:
            return records[len(records) - count :]
    return records
