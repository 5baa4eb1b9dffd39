"""Plain sends, many at a time: what `handlers.send` does with each of them, and byte for byte the same.

    frame ─> header ─> place (topic, queue) ─> properties ─> put ─> reply            then all are stored at once

Settings, clocks and counters are looked at once a run, which is what one read from a socket brought. Whatever is not
plain ends the run before anything of it is done, and the handlers take over. Plain are SEND_MESSAGE_V2 and
SEND_BATCH_MESSAGE to a queue and topic that exist, for messages that neither wait nor are part of a transaction or a
retry, with properties in ASCII.
"""

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from hanabi.broker.plain_headers import PlainSend, read_plain_send
from hanabi.broker.send_replies import SendReplies
from hanabi.broker.stored_properties import batch_properties
from hanabi.errors import RemoteProtocolError
from hanabi.store.run_of_puts import Place, PlainPuts
from hanabi.wire import property_names as names
from hanabi.wire.batch import decode_batch
from hanabi.wire.headers.send import SendMessageV2Header

if TYPE_CHECKING:
    from hanabi.broker.config import BrokerConfig
    from hanabi.broker.handlers.send import Sends

PartsOfAnswer = Callable[[str, str, bytes], tuple[bytes, list[bytes], bytes, bytes] | None]

_V5_0_0: Final = 413  # see handlers.send
_FRAMES_MAX: Final = 256  # after so many a run ends, and others may have their turn
_BATCH_MAX: Final = 256  # messages
_WORTH_TELLING_SECONDS: Final = 0.001

# As in `stored_properties`.
_WAIT: Final = f"\x02{names.WAIT_STORED}\x01"
_WAIT_TRUE: Final = f"{_WAIT}true\x02"
_CLUSTER: Final = f"\x02{names.CLUSTER}\x01"
_HALF: Final = f"\x02{names.TRANSACTION_PREPARED}\x01"
_IN_ALL_DELAYS: Final = "DEL"


class PlainSends:
    """Answers plain sends. What the settings say is kept in the form it is needed in, until they are other settings."""

    def __init__(
        self, sends: "Sends", puts: PlainPuts, host_of_peer: Callable[[str], bytes], parts_of_answer: PartsOfAnswer
    ) -> None:
        """*parts_of_answer* says how answers look."""
        self._sends, self._puts, self._host_of_peer, self._parts_of_answer = sends, puts, host_of_peer, parts_of_answer
        self._settings, self._flow = sends._settings, sends._flow
        self._targets, self._find_config = sends._targets.known, sends._topics.find
        self._unsaved_topics, self._stats = sends._unsaved_topics, sends.intake._stats
        self._config: BrokerConfig | None = None
        self._store_host = b""
        self._added_old = self._added_new = ""
        self._id = b""  # of a message, by its place in the log; none: answers are too long for us
        self._encode: Callable[[bool, int, bytes, int, int], bytes]
        self._places: dict[tuple[str, int], tuple[Place, int]] = {}  # of this run, and the flags of their topics

    def answer(self, data: bytes, connection: Any) -> tuple[bytes | None, int, int, int]:
        """The answers to the sends that *data* begins with, how many bytes of it these were, and how many of them were
        single ones and how many batches."""
        found = read_plain_send(data, 0)
        if found is None or not self._begin(connection):
            return None, 0, 0, 0
        began = perf_counter()
        answers: list[bytes] = []
        at = batches = 0
        try:
            while found is not None and len(answers) < _FRAMES_MAX:
                request, is_json, body, end = found
                answer = self._take(request, is_json, body)
                if answer is None:
                    break
                answers.append(answer)
                batches += request.fields.batch
                at = end
                found = read_plain_send(data, at)
        finally:
            self._finish(began, len(answers), batches)
        return b"".join(answers) or None, at, len(answers) - batches, batches

    # The run

    def _begin(self, connection: Any) -> bool:
        """A run begins. False: not now."""
        config = self._settings.broker
        if config is not self._config:
            self._read(config)
        if self._flow.busy is not None or config.start_accept_sends_at_ms or not self._id:
            return False
        self._places = {}
        return self._puts.begin(self._host_of_peer(connection.peer), self._store_host)

    def _read(self, config: "BrokerConfig") -> None:
        sends = self._sends
        sends._read(config)
        self._config = config
        self._store_host = sends._store_host.raw
        self._added_old, self._added_new = f"{sends._cluster}\x02", f"{sends._cluster_and_region}\x02"
        parts = self._parts_of_answer(sends._region, sends._trace_on, self._store_host)
        self._id = b""
        if parts is not None:
            id_prefix, json_pieces, binary_head, binary_tail = parts
            self._id = id_prefix + b"%016X"
            self._encode = SendReplies(json_pieces, binary_head, binary_tail).encode

    def _place(self, topic: str, queue_id: int) -> tuple[Place, int] | None:
        """The queue that a message is for, if messages may go there without a second look, and the topic's flags."""
        target = self._targets.get(topic)
        if target is None or target.is_retry or topic in self._unsaved_topics:
            return None
        config = target.config
        if config is not self._find_config(topic) or config.order or not 0 <= queue_id < target.queues:
            return None
        place = self._puts.add(topic, queue_id)
        if place is None:
            return None
        self._places[topic, queue_id] = found = place, target.sys_flag
        return found

    def _finish(self, began: float, frames: int, batches: int) -> None:
        """Store all that was put, and count it."""
        self._puts.finish()
        stats = self._stats
        for place in self._puts.places:
            if place.puts:
                topic, queue_id = place.key
                stats.put(topic, len(place.entries), place.put_bytes, queue_id, place.puts)
        took = perf_counter() - began
        if frames > batches:  # the time of batches is not counted, see StoreStats
            stats.store.put_seconds += took * (frames - batches) / frames
            if took >= _WORTH_TELLING_SECONDS:
                stats.put_latency_ms(int(took * 1000))

    # One frame

    def _take(self, request: PlainSend, is_json: bool, body: bytes) -> bytes | None:
        """Put one message, or all of a batch, and answer. None where the handlers have more to do; then nothing was
        put."""
        fields = request.fields
        queue_id = fields.queue_id
        known = self._places.get((fields.topic, queue_id)) or self._place(fields.topic, queue_id)
        if known is None:
            return None
        place, sys_flag = known
        queue_offset = place.next_offset
        added = self._added_old if request.version < _V5_0_0 else self._added_new
        if fields.batch:
            ids = self._put_batch(place, fields, sys_flag, added, body)
            if ids is None:
                return None
        else:
            properties = _stored(fields.properties or "", added)
            if properties is None:
                return None
            numbers = fields.flag, fields.sys_flag | sys_flag, fields.born_timestamp, fields.reconsume_times or 0
            log_offset = self._puts.put(place, body, properties, *numbers)
            if log_offset is None:
                return None
            ids = self._id % log_offset
        place.puts += 1
        return self._encode(is_json, request.opaque, ids, queue_id, queue_offset)

    def _put_batch(
        self, place: Place, fields: SendMessageV2Header, sys_flag: int, added: str, body: bytes
    ) -> bytes | None:
        """All messages of a batch, or none; their ids."""
        if len(body) > self._settings.store.message_bytes_max:
            return None
        try:
            parts = decode_batch(body)
            shared, _ = batch_properties(fields.properties or "")
            texts = [part.properties.decode("ascii") for part in parts]
        except (RemoteProtocolError, UnicodeDecodeError):
            return None
        if not 0 < len(parts) <= _BATCH_MAX:
            return None
        before, ids = len(place.entries), list[bytes]()
        for part, text in zip(parts, texts, strict=True):
            properties = _stored(f"{shared}\x02{text}" if shared else text, added)
            if properties is None or not part.body:
                break
            numbers = part.flag, fields.sys_flag | sys_flag, fields.born_timestamp, fields.reconsume_times or 0
            log_offset = self._puts.put(place, part.body, properties, *numbers)
            if log_offset is None:
                break
            ids.append(self._id % log_offset)
        if len(ids) == len(parts):
            return b",".join(ids)
        self._puts.back_to(place, before)
        return None


def _stored(text: str, added: str) -> str | None:
    """As `stored_properties.sent_properties`, with a separator at both ends; None where that has more to do."""
    bounded = f"\x02{text}\x02".replace(_WAIT_TRUE, "\x02")
    if _IN_ALL_DELAYS in text or _WAIT in bounded or _CLUSTER in bounded or _HALF in bounded:
        return None
    # clients of 5.x end their properties with a separator already
    return (bounded if bounded[-2:] != "\x02\x02" else bounded[:-1]) + added
