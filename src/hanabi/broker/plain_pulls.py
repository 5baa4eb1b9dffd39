"""Plain pulls: what `handlers.pull` does with one that finds messages, and byte for byte the same.

    header ─> queue ─> may it read? ─> entries ─> head and records in one piece ─> are they the right ones? ─> count

Plain are pulls without a filter, whose messages are all in one file of the log, came since the store was opened, are no
more than one answer may have, and need no second look. With anything else nothing is done, and the handler takes over.
`_pulls` is the same in Cython; of too many messages it also takes the first ones.

To look at each record costs a third of a pull here. So it is remembered which of a queue were the right ones: another
group that reads them, or the same one again, is spared that.
"""

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from hanabi.broker.pull_outcome import COMMIT_OFFSET
from hanabi.broker.pull_shapes import PullShapes
from hanabi.errors import StoreError
from hanabi.store.consume_queue import ENTRY_BYTES, ConsumeQueue
from hanabi.store.message_store import MessageStore
from hanabi.store.plain_run import Place, are_records, pieces_of, places_in, store_time
from hanabi.wire.bodies.groups import SubscriptionGroupConfig

if TYPE_CHECKING:
    from hanabi.broker.handlers.pull import Pulls

_FOUND_BYTES_MAX: Final = 1 << 20  # more are handed over without a copy
_ENTRIES_AHEAD: Final = 256  # of a queue, read at once
_QUEUES_MAX: Final = 2_000
_JSON, _BINARY = 0, 1 << 24  # before the length of a header
_OPAQUE_AT: Final = 5  # in a binary header
_SLAVE: Final = "SLAVE"  # as in handlers.pull
_U32, _I32, _LENGTH_AND_FORM = struct.Struct(">I"), struct.Struct(">i"), struct.Struct(">II")
_NUMBERS: Final = tuple(  # of an answer, as binary headers have them
    len(name).to_bytes(2) + name for name in (b"suggestWhichBrokerId", b"nextBeginOffset", b"minOffset", b"maxOffset")
)


class _PulledQueue:
    """A queue that is pulled from, and some of its entries: those of `entries_at` and the next ones.

    The messages from `right_from` to `right_to` were looked at: each is where its entry says, and the one it should be.
    That stays so while the store is open, as what is written is never changed.
    """

    __slots__ = ("entries", "entries_at", "queue", "right_from", "right_to", "topic_field")

    def __init__(self, queue: ConsumeQueue, topic_field: bytes) -> None:
        self.queue, self.topic_field = queue, topic_field
        self.entries, self.entries_at = b"", 0
        self.right_from = self.right_to = 0

    def places(self, offset: int, count: int) -> list[Place]:
        """Where the records of the *count* messages from *offset* on should be, of which there are so many; nothing if
        their entries cannot be read."""
        start = (offset - self.entries_at) * ENTRY_BYTES
        end = start + count * ENTRY_BYTES
        if start < 0 or end > len(self.entries):
            start, end = 0, count * ENTRY_BYTES
            try:
                self.entries, self.entries_at = self.queue.read(offset, max(count, _ENTRIES_AHEAD)), offset
            except StoreError:
                return []  # the handler meets the same error, and answers with it
            if end > len(self.entries):
                return []
        return places_in(self.entries[start:end])

    def are_right(self, offset: int, end: int) -> None:
        """The messages from *offset* to *end* are right, too. Of stretches that do not touch the last is remembered."""
        if self.right_from <= end and offset <= self.right_to:
            self.right_from, self.right_to = min(self.right_from, offset), max(self.right_to, end)
        else:
            self.right_from, self.right_to = offset, end


class PlainPulls:
    """Answers plain pulls, one at a time."""

    def __init__(
        self,
        pulls: "Pulls",
        store: MessageStore,
        _header_type: type,  # for the compiled one, which makes headers itself
        reply_type: type,
        passes_all: object,
        suggested_broker: Callable[..., int],
        parts_of_answer: tuple[list[bytes], bytes],
    ) -> None:
        """*parts_of_answer* says how answers look: see `express.parts_of_found`."""
        self._reader, self._log, self._topics = store.reader, store._log, store._queues._topics
        self._check_access, self._commits, self._settings = pulls._access.check, pulls._commits, pulls._settings
        self._stats, self._now_ms = pulls._stats, pulls._now_ms
        self._reply_type, self._passes_all, self._suggested_broker = reply_type, passes_all, suggested_broker
        json_parts, self._binary_head = parts_of_answer
        self._json = b"%d".join(part.replace(b"%", b"%%") for part in json_parts)
        self._read_header = PullShapes().read
        self._pulled: dict[tuple[str, int], _PulledQueue] = {}

    def answer(self, data: bytes, at: int, frame_bytes: int, connection: Any) -> tuple[int, bytes] | None:
        """The code of the request in a part of *data*, and its whole answer; None: then nothing was done."""
        header_bytes = int.from_bytes(data[at + 1 : at + 4])
        read = self._read_header(data, at, header_bytes) if header_bytes + 4 == frame_bytes else None
        if read is None:  # a body, too, no pull has
            return None
        known, offset, committed, opaque = read
        began_ms = self._now_ms()
        pulled = self._pulled_queue(known.place)
        if pulled is None or not pulled.queue.min_offset <= offset < pulled.queue.max_offset:
            return None
        header, peer = known.header, connection.peer
        access: Any = self._check_access(header, peer)  # which does not look at the offsets
        if type(access) is self._reply_type:
            return None
        group_config, message_filter = access
        if message_filter is not self._passes_all:
            return None
        answer = self._found(pulled, header.max_msg_nums, offset, group_config, opaque, is_json=known.is_json)
        if answer is None:
            return None
        whole, count, total, last_log_offset, last_size = answer
        group, (topic, queue_id) = header.consumer_group, known.place
        self._commits.pulled(group, topic, queue_id, peer)
        if header.sys_flag & COMMIT_OFFSET and self._settings.broker.broker_role != _SLAVE:
            self._commits.with_pull(group, topic, queue_id, committed, peer)
        self._stats.found(
            group,
            topic,
            queue_id,
            count,
            total,
            self._log.end_offset - last_log_offset,
            store_time(whole, len(whole) - last_size),
            began_ms,
            self._now_ms(),
        )
        return known.code, whole

    def _pulled_queue(self, place: tuple[str, int]) -> _PulledQueue | None:
        topic, queue_id = place
        queues = self._topics.get(topic)
        queue = queues.get(queue_id) if queues is not None else None
        if queue is None:
            return None
        pulled = self._pulled.get(place)
        if pulled is None or pulled.queue is not queue:  # deleted, and made again
            if len(self._pulled) >= _QUEUES_MAX:
                self._pulled.clear()
            pulled = self._pulled[place] = _PulledQueue(queue, self._reader._topic_field(topic))
        return pulled

    def _found(
        self,
        pulled: _PulledQueue,
        count: int,
        offset: int,
        group: SubscriptionGroupConfig,
        opaque: int,
        *,
        is_json: bool,
    ) -> tuple[bytes, int, int, int, int] | None:
        """The whole answer, if all that it should have is where it usually is; of how many messages, how many bytes;
        the last one's place in the log, and its size."""
        reader, queue, log_end = self._reader, pulled.queue, self._log.end_offset
        bytes_max, count_max = reader._memory_limits
        low, high = queue.min_offset, queue.max_offset
        places = pulled.places(offset, min(max(count, 1), count_max, high - offset))
        log_offset_min = max(log_end - reader._memory_bytes, reader._opened_at)
        segment = self._log.find(places[0][0]) if places else None
        if segment is None or places[0][0] < log_offset_min:  # older ones may be unreadable, which `reads` finds out
            return None
        view, base, next_offset = segment.tail(0), segment.base_offset, offset + len(places)
        pieces = pieces_of(view, base, places)
        total = sum(map(len, pieces))
        if total > min(bytes_max, _FOUND_BYTES_MAX):
            return None
        last_log_offset, last_size = places[-1]
        suggested = self._suggested_broker(
            group,
            suggests_slave=log_end - last_log_offset > reader._memory_bytes,
            slave_read_enabled=self._settings.broker.slave_read_enabled,
        )
        head = self._head((suggested, next_offset, low, high), opaque, total, is_json=is_json)
        whole = b"".join([head, *pieces])  # the only copy of the records; and bytes are looked into faster than views
        if pulled.right_from <= offset and next_offset <= pulled.right_to:
            if last_log_offset + last_size > base + len(view):
                return None
        elif are_records(whole, len(head), places, pulled.topic_field, queue.queue_id, offset, log_offset_min):
            pulled.are_right(offset, next_offset)
        else:
            return None
        return whole, len(places), total, last_log_offset, last_size

    def _head(self, numbers: tuple[int, int, int, int], opaque: int, body_bytes: int, *, is_json: bool) -> bytes:
        """What `wire.command.encode_reply_head` makes of it."""
        if is_json:
            header, form = self._json % (*numbers, opaque), _JSON
        else:
            header, form = self._binary(numbers, opaque), _BINARY
        return _LENGTH_AND_FORM.pack(4 + len(header) + body_bytes, form | len(header)) + header

    def _binary(self, numbers: tuple[int, ...], opaque: int) -> bytes:
        fields = b""
        for name, number in zip(_NUMBERS, numbers, strict=True):
            digits = b"%d" % number
            fields += name + _U32.pack(len(digits)) + digits
        head = self._binary_head  # with another opaque number, and no fields
        return head[:_OPAQUE_AT] + _I32.pack(opaque) + head[_OPAQUE_AT + 4 : -4] + _U32.pack(len(fields)) + fields
