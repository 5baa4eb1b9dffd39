"""Message queries: by key (12), and by log offset (33).

A search reads index files and then each message found, so it runs in its own thread pool. Agrees with
QueryMessageProcessor (4.9.8), with additions: the keys of each message are compared, since the index has only hashes,
and a reply never exceeds the clients' limit. A search ends at the longest time that any client waits; the remark of its
answer and a log line say so.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from hanabi.broker.handlers.worker_pool import Workers
from hanabi.broker.settings import Settings
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.store.message_store import MessageStore
from hanabi.store.read.queries import KeyQuery
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.frame import FRAME_BYTES_MAX
from hanabi.wire.headers.query import QueryMessageHeader, QueryMessageReplyHeader, ViewMessageHeader

NO_BODY_BYTES_MAX = 4 * 1024
REPLY_BYTES_MAX = FRAME_BYTES_MAX - 64 * 1024  # leaves room for the header
SEARCH_SECONDS_MAX: Final = 15.0  # mqadmin waits no longer
_ANSWER_BYTES: Final = 1 << 20  # charged for each query: limits those in flight on one connection
_NOT_FOUND: Final = "can not find message, maybe time range not correct"

logger = logging.getLogger(__name__)


def query_handlers(
    store: MessageStore, settings: Settings, workers: Workers, clock: Callable[[], float] = time.monotonic
) -> dict[int, Handler]:
    """Return the handlers of queries. *workers* run the searches; *clock* returns seconds."""
    handlers = QueryHandlers(store, settings, workers, clock)
    return {
        RequestCode.QUERY_MESSAGE: Handler(
            QueryMessageHeader, handlers.by_key, NO_BODY_BYTES_MAX, answer_bytes=lambda _: _ANSWER_BYTES
        ),
        RequestCode.VIEW_MESSAGE_BY_ID: Handler(ViewMessageHeader, handlers.by_place, NO_BODY_BYTES_MAX),
    }


class Search:
    """Deadline of one search. Used by two threads: the searching one checks it, the loop's cancels it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._until = clock, clock() + SEARCH_SECONDS_MAX
        self._is_given_up = False

    def give_up(self) -> None:
        """End the search soon: its client is gone."""
        self._is_given_up = True

    def goes_on(self) -> bool:
        time.sleep(0)  # yields the interpreter: the loop's thread would otherwise wait five milliseconds each time
        return not self._is_given_up and self._clock() < self._until


class QueryHandlers:
    """Handlers that answer with whole messages, as they lie in the log."""

    def __init__(
        self, store: MessageStore, settings: Settings, workers: Workers, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._settings, self._workers, self._clock = store, settings, workers, clock

    async def by_key(self, header: QueryMessageHeader, _: Command, connection: Connection) -> Reply:
        found = await self._search(header)
        about_index = QueryMessageReplyHeader(
            index_last_update_timestamp=found.last_update_ms, index_last_update_phyoffset=found.last_update_log_offset
        )
        remark = None
        if not found.is_complete:
            remark = f"the search stopped after {SEARCH_SECONDS_MAX:g} s: older messages may have the key, too"
            logger.warning("%s: key %.200r of topic %s: %s", connection.peer, header.key, header.topic, remark)
        records = newest_within(found.records, REPLY_BYTES_MAX)
        if not records:
            return Reply(ResponseCode.QUERY_NOT_FOUND, remark or _NOT_FOUND, about_index)
        return Reply(remark=remark, header=about_index, body=[*records])

    async def _search(self, header: QueryMessageHeader) -> KeyQuery:
        limits, queries = self._settings.store, self._store.queries
        asked_for = limits.query_count_default if header.by_unique_key else header.max_num
        count = max(1, min(asked_for, limits.query_count_max))
        find = queries.by_unique_key if header.by_unique_key else queries.by_key
        search = Search(self._clock)
        try:
            return await self._workers.run(
                find, header.topic, header.key, count, header.begin_timestamp, header.end_timestamp, search.goes_on
            )
        except asyncio.CancelledError:
            search.give_up()
            raise

    def by_place(self, header: ViewMessageHeader, _: Command, connection: Connection) -> Reply:
        record = self._store.queries.record(header.offset)
        if record is None:
            return Reply(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {header.offset}")
        return Reply(body=record)


def newest_within(records: list[memoryview], bytes_max: int) -> list[memoryview]:
    """Return the last of *records* that fit in *bytes_max* together, but at least one."""
    total = 0
    for count, record in enumerate(reversed(records)):
        total += len(record)
        if total > bytes_max and count:
            return records[len(records) - count :]
    return records
