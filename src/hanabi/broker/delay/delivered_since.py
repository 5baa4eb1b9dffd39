"""Messages delivered after the last save, found in the log.

Delivery progress is saved periodically; a kill loses the progress since. But each delivered message lies in the log,
behind the log's end at the save. A restarted broker scans that part and delivers nothing twice.

This module only reads the log; it may run in any thread.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from hanabi.broker.delay.redelivery import identity, identity_before_roll
from hanabi.errors import RemoteProtocolError
from hanabi.store.message_store import MessageStore
from hanabi.wire.message.properties import find_property
from hanabi.wire.message.record import BLANK_BYTES_MIN, MAGIC_BLANK, Record, decode_record
from hanabi.wire.system_names import SCHEDULE_TOPIC, TIMER_TOPIC

_MAGIC_AT: Final = 4
_BLANK: Final = MAGIC_BLANK.to_bytes(4, "big")


class Delivered(NamedTuple):
    """Messages found delivered."""

    identities: Counter[int]
    last_ms: int  # time of the last delivery; later than now if the clock was set back since


def levels_delivered_since(store: MessageStore, log_offset: int) -> Delivered:
    """Return the messages delivered from the delay topic, by their deliveries in the log from *log_offset* on."""
    found: Counter[int] = Counter()
    last_ms = 0
    for record in _marked_since(store, log_offset, b"DELAY\x01"):
        if record.topic != SCHEDULE_TOPIC and _came_here(record):
            found[identity(record)] += 1
            last_ms = max(last_ms, record.store_timestamp_ms)
    return Delivered(found, last_ms)


def timers_delivered_since(store: MessageStore, log_offset: int) -> Delivered:
    """Return the same for the timer topic. Rolled messages count too: the message that each was made from is done."""
    found: Counter[int] = Counter()
    last_ms = 0
    for record in _marked_since(store, log_offset, b"TIMER_DEQUEUE_MS\x01"):
        done = _done_by(record)
        if done is not None:
            found[done] += 1
            last_ms = max(last_ms, record.store_timestamp_ms)
    return Delivered(found, last_ms)


def _done_by(record: Record) -> int | None:
    """Return the identity of the timer message that is done because *record* is in the log; None if there is none."""
    if record.topic == TIMER_TOPIC:
        is_rolled = find_property(record.properties, b"TIMER_ROLL_TIMES") is not None
        return identity_before_roll(record) if is_rolled else None
    return identity(record) if record.topic != SCHEDULE_TOPIC and _came_here(record) else None


def _came_here(record: Record) -> bool:
    """Return whether the record is the delivery itself: a message that a consumer sent back later waits again under the
    same properties, or has another topic."""
    return find_property(record.properties, b"REAL_TOPIC") == record.topic


def _marked_since(store: MessageStore, log_offset: int, mark: bytes) -> Iterator[Record]:
    """Yield the records from *log_offset* on that have *mark* among their properties.

    Searches for the bytes first: few of the messages there were delayed.
    """
    segment_bytes = store.config.commit_log_segment_bytes
    log_offset = max(log_offset, store.min_log_offset)
    end = store.max_log_offset
    while log_offset < end:
        view = store.read_log(log_offset)
        if not view:
            break
        position, limit = 0, len(view)
        while limit - position >= BLANK_BYTES_MIN:
            size = int.from_bytes(view[position : position + 4], "big")
            if view[position + _MAGIC_AT : position + BLANK_BYTES_MIN] == _BLANK or not 0 < size <= limit - position:
                break
            record = bytes(view[position : position + size])
            if mark in record:
                try:
                    decoded = decode_record(record, check_crc=False)
                except RemoteProtocolError:
                    break  # damage that recovery has reported; reading resumes at the next segment
                if mark in decoded.properties:
                    yield decoded
            position += size
        log_offset += segment_bytes - log_offset % segment_bytes  # segments begin at multiples of their size
