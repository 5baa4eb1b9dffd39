"""One store seen in two ways: through the requests that clients send to Apache's broker, and through our own store.

Both views answer the same questions with the same words, so that the answers can be compared.
"""

import re
from typing import NamedTuple, Protocol

from hanabi.store.message_store import MessageStore
from hanabi.store.read.offset_by_time import BoundaryType
from hanabi.store.read.queue_reader import GetStatus
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.header import Header, header_fields
from hanabi.wire.headers.offset import (
    GetEarliestMsgStoretimeHeader,
    GetEarliestMsgStoretimeReplyHeader,
    GetMaxOffsetHeader,
    GetMinOffsetHeader,
    OffsetReplyHeader,
    SearchOffsetHeader,
)
from hanabi.wire.headers.pull import PullMessageHeader, PullMessageReplyHeader
from hanabi.wire.headers.query import QueryMessageHeader, ViewMessageHeader
from hanabi.wire.message.tags import tags_code
from tests.interop.probe import Conversation

ALL_TAGS = "*"
KEY_ANSWERS_MAX = 32
_HAS_SUBSCRIPTION = 1 << 2  # PullSysFlag: the request says itself what it wants


class Pulled(NamedTuple):
    """The answer to a pull. The code is the one that a consumer sees."""

    code: int
    next_offset: int
    min_offset: int
    max_offset: int
    records: bytes


class StoreView(Protocol):
    """The questions."""

    def log_range(self) -> tuple[int, int]:
        """Return the first offset of the log and the one behind its last."""

    def queue_range(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return the first offset of a queue and the one behind its last."""

    def pull(self, topic: str, queue_id: int, offset: int, tag: str = ALL_TAGS) -> Pulled:
        """Return the messages of a queue from *offset* on."""

    def by_place(self, log_offset: int) -> bytes:
        """Return the message at this place; nothing if there is none."""

    def by_key(self, topic: str, key: str, begin_ms: int, end_ms: int) -> bytes:
        """Return the newest messages with this key, oldest first."""

    def by_time(self, topic: str, queue_id: int, time_ms: int, boundary: BoundaryType | None) -> int:
        """Return the queue offset for a time."""

    def earliest_time(self, topic: str, queue_id: int) -> int:
        """Return when the oldest message of a queue was stored."""


class ApacheView:
    """Asks a broker of Apache's."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    def log_range(self) -> tuple[int, int]:
        while (answer := self._conversation.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).code != ResponseCode.SUCCESS:
            pass  # it has no statistics in its first second, and then no answer either
        low, high = (re.search(rf'"commitLog{end}Offset":"(\d+)"'.encode(), answer.body) for end in ("Min", "Max"))
        assert low is not None
        assert high is not None
        return int(low[1]), int(high[1])

    def queue_range(self, topic: str, queue_id: int) -> tuple[int, int]:
        low = self._offset(RequestCode.GET_MIN_OFFSET, GetMinOffsetHeader(topic=topic, queue_id=queue_id))
        high = self._offset(RequestCode.GET_MAX_OFFSET, GetMaxOffsetHeader(topic=topic, queue_id=queue_id))
        return low, high

    def pull(self, topic: str, queue_id: int, offset: int, tag: str = ALL_TAGS) -> Pulled:
        header = PullMessageHeader(
            consumer_group="interop_store",
            topic=topic,
            queue_id=queue_id,
            queue_offset=offset,
            max_msg_nums=32,
            sys_flag=_HAS_SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=0,
            subscription=tag,
        )
        answer = self._conversation.ask(RequestCode.PULL_MESSAGE, header_fields(header))
        assert answer.code in _CODES.values(), answer.remark
        told = answer.header(PullMessageReplyHeader)
        return Pulled(answer.code, told.next_begin_offset, told.min_offset, told.max_offset, answer.body)

    def by_place(self, log_offset: int) -> bytes:
        header = ViewMessageHeader(offset=log_offset)
        return self._conversation.ask(RequestCode.VIEW_MESSAGE_BY_ID, header_fields(header)).body

    def by_key(self, topic: str, key: str, begin_ms: int, end_ms: int) -> bytes:
        header = QueryMessageHeader(
            topic=topic, key=key, max_num=KEY_ANSWERS_MAX, begin_timestamp=begin_ms, end_timestamp=end_ms
        )
        answer = self._conversation.ask(RequestCode.QUERY_MESSAGE, header_fields(header))
        assert answer.code in (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND), answer.remark
        return answer.body

    def by_time(self, topic: str, queue_id: int, time_ms: int, boundary: BoundaryType | None) -> int:
        header = SearchOffsetHeader(
            topic=topic,
            queue_id=queue_id,
            timestamp=time_ms,
            boundary_type=boundary.value if boundary is not None else None,
        )
        return self._offset(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    def earliest_time(self, topic: str, queue_id: int) -> int:
        header = GetEarliestMsgStoretimeHeader(topic=topic, queue_id=queue_id)
        answer = self._conversation.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, header_fields(header))
        return answer.header(GetEarliestMsgStoretimeReplyHeader).timestamp

    def _offset(self, code: int, header: Header) -> int:
        answer = self._conversation.ask(code, header_fields(header))
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return answer.header(OffsetReplyHeader).offset


class OurView:
    """Asks our store, and says it as a broker would."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    def log_range(self) -> tuple[int, int]:
        return self._store.min_log_offset, self._store.max_log_offset

    def queue_range(self, topic: str, queue_id: int) -> tuple[int, int]:
        reader = self._store.reader
        return reader.min_offset(topic, queue_id), reader.max_offset(topic, queue_id)

    def pull(self, topic: str, queue_id: int, offset: int, tag: str = ALL_TAGS) -> Pulled:
        wanted = tags_code(tag)
        entry_filter = None if tag == ALL_TAGS else lambda code, _: code == wanted
        result = self._store.get(topic, queue_id, offset, 32, entry_filter=entry_filter)
        code = _CODES[result.status]
        if result.status in (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE) and offset:
            code = ResponseCode.PULL_OFFSET_MOVED
        return Pulled(code, result.next_offset, result.min_offset, result.max_offset, b"".join(result.slices))

    def by_place(self, log_offset: int) -> bytes:
        return bytes(self._store.queries.record(log_offset) or b"")

    def by_key(self, topic: str, key: str, begin_ms: int, end_ms: int) -> bytes:
        return b"".join(self._store.queries.by_key(topic, key, KEY_ANSWERS_MAX, begin_ms, end_ms).records)

    def by_time(self, topic: str, queue_id: int, time_ms: int, boundary: BoundaryType | None) -> int:
        return self._store.queries.offset_by_time(topic, queue_id, time_ms, boundary)

    def earliest_time(self, topic: str, queue_id: int) -> int:
        return self._store.queries.earliest_store_time(topic, queue_id)


# What PullMessageProcessor answers for each outcome of a read.
_CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.NO_MATCHED_LOGIC_QUEUE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.NO_MESSAGE_IN_QUEUE: ResponseCode.PULL_NOT_FOUND,
}
