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
from hanabi.broker.plain_properties import PlainProperties, batched_sends, single_sends
from hanabi.broker.send_replies import SendReplies
from hanabi.broker.stored_properties import RecordForm, batch_properties
from hanabi.errors import RemoteProtocolError
from hanabi.store.run_of_puts import Place, PlainPuts
from hanabi.wire.batch import decode_batch
from hanabi.wire.command import V5_0_0
from hanabi.wire.headers.send import SendMessageV2Header
from hanabi.wire.properties import join_properties

if TYPE_CHECKING:
    from hanabi.broker.config import BrokerConfig
    from hanabi.broker.handlers.send import Sends

PartsOfAnswer = Callable[[str, str, bytes], tuple[bytes, list[bytes], bytes, bytes] | None]

_FRAMES_MAX: Final = 256  # after so many a run ends, and others may have their turn
_BATCH_MAX: Final = 256  # messages
_WORTH_TELLING_SECONDS: Final = 0.001


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
        self._forms: tuple[RecordForm, RecordForm] = sends.form_4, sends.form_5
        self._singles: tuple[PlainProperties, ...] = ()  # by form
        self._batched = batched_sends()
        self._replies: SendReplies | None = None  # none: answers are too long for us
        self._places: dict[tuple[str, int], Place] = {}  # of this run

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
                if request.fields.batch:
                    batches += 1
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
        if self._flow.busy is not None or config.start_accept_sends_at_ms or self._replies is None:
            return False
        self._places = {}
        return self._puts.begin(self._host_of_peer(connection.peer), self._store_host)

    def _read(self, config: "BrokerConfig") -> None:
        sends = self._sends
        sends._read(config)
        self._config = config
        self._store_host = sends._store_host.raw
        self._forms = sends.form_4, sends.form_5
        self._singles = tuple(map(single_sends, self._forms))
        self._batched = batched_sends()
        parts = self._parts_of_answer(sends._region, sends._trace_on, self._store_host)
        self._replies = SendReplies(*parts) if parts is not None else None

    def _place(self, topic: str, queue_id: int) -> Place | None:
        """The queue that a message is for, if messages may go there without a second look."""
        target = self._targets.get(topic)
        if target is None or target.is_retry or topic in self._unsaved_topics:
            return None
        config = target.config
        if config is not self._find_config(topic) or config.order or not 0 <= queue_id < target.queues:
            return None
        place = self._puts.add(topic, queue_id, target.sys_flag)
        if place is not None:
            self._places[topic, queue_id] = place
        return place

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
        fields, replies = request.fields, self._replies
        topic, queue_id = fields.topic, fields.queue_id
        place = self._places.get((topic, queue_id)) or self._place(topic, queue_id)
        if place is None or replies is None:
            return None
        queue_offset = place.next_offset
        is_new = request.version >= V5_0_0
        if fields.batch:
            log_offsets = self._put_batch(place, fields, self._forms[is_new], body)
            if log_offsets is None:
                return None
            place.puts += 1
            return replies.to_batch(is_json, request.opaque, log_offsets, queue_id, queue_offset)
        properties = self._singles[is_new].read(fields.properties or "")
        if properties is None:
            return None
        reconsumed = fields.reconsume_times or 0
        log_offset = self._puts.put(
            place, body, properties, fields.flag, fields.sys_flag, fields.born_timestamp, reconsumed
        )
        if log_offset is None:
            return None
        place.puts += 1
        return replies.to_one(is_json, request.opaque, log_offset, queue_id, queue_offset)

    def _put_batch(self, place: Place, fields: SendMessageV2Header, form: RecordForm, body: bytes) -> list[int] | None:
        """All messages of a batch, or none; where they will be."""
        if len(body) > self._settings.store.message_bytes_max:
            return None
        try:
            parts = decode_batch(body)
            shared, waits = batch_properties(fields.properties or "", form)
            texts = [join_properties(part.properties, shared).decode("ascii") for part in parts]
        except (RemoteProtocolError, UnicodeDecodeError):
            return None
        if not waits or not 0 < len(parts) <= _BATCH_MAX:
            return None
        before, log_offsets = len(place.entries), list[int]()
        numbers = fields.sys_flag, fields.born_timestamp, fields.reconsume_times or 0
        for part, text in zip(parts, texts, strict=True):
            properties = self._batched.read(text)
            if properties is None or not part.body:
                break
            log_offset = self._puts.put(place, part.body, properties, part.flag, *numbers)
            if log_offset is None:
                break
            log_offsets.append(log_offset)
        if len(log_offsets) == len(parts):
            return log_offsets
        self._puts.back_to(place, before)
        return None
