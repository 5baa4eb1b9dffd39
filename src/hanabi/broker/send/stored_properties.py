"""Properties of a message in its record, from those in the request: Apache's bytes.

The record for a 4.9 client is that of a 4.9 broker, the record for a 5.x client that of a 5.x broker:

    4.9   CLUSTER is set. WAIT, which controls the wait for the disk, is removed, except from delayed messages and
          half messages.
    5.x   MSG_REGION, TRACE_ON and CLUSTER are set, a missing UNIQ_KEY is generated, POP_CK is removed. (5.x consumers
          trace only messages with a region.)

Both write the properties in the order of `java_hash_map`. The messages of a batch keep theirs unchanged; those of the
request's header follow, so they win. One difference is on purpose: 5.x clients give the batch a unique key of its own,
which Apache's brokers append to each message's own. Its messages could then not be distinguished, nor found by the ids
that the producer got. It is left out here.

Agrees with Java's SendMessageProcessor and MessageExtEncoder.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from hanabi.wire.message import property_names as names
from hanabi.wire.message.java_hash_map import BUCKETS_4, BUCKETS_5, names_in_java_order
from hanabi.wire.message.properties import parse_properties

_TIMES: Final = (names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS)
_DELAYS: Final = tuple(f"\x02{name}\x01" for name in (names.DELAY_LEVEL, *_TIMES))
_IN_ALL_DELAYS: Final = "DEL"


class RecordForm(NamedTuple):
    """Form of stored properties, with the broker's additions."""

    added: dict[str, str]
    buckets: int
    left_out: str  # the name of a property
    end: str
    new_key: Callable[[], str] | None  # makes the unique key of a message that has none


def form_of_4_9(cluster: str) -> RecordForm:
    return RecordForm({names.CLUSTER: cluster}, BUCKETS_4, names.WAIT_STORED, "", None)


def form_of_5(cluster: str, region: str, trace_on: str, new_key: Callable[[], str]) -> RecordForm:
    added = {names.MESSAGE_REGION: region, names.TRACE_ON: trace_on, names.CLUSTER: cluster}
    return RecordForm(added, BUCKETS_5, names.POP_CK, "\x02", new_key)


def sent_properties(text: str, form: RecordForm) -> tuple[bytes, bool, bool]:
    """Return the properties for the record, whether the sender waits for the disk, and whether this is a half
    message."""
    properties = parse_properties(text)
    waits = _is_true(properties.get(names.WAIT_STORED, "true"))
    is_half = _is_true(properties.get(names.TRANSACTION_PREPARED))
    if form.new_key is not None and names.UNIQUE_KEY not in properties:
        properties[names.UNIQUE_KEY] = form.new_key()
    # Apache rewrites the properties of a diverted message, with all of them.
    keeps_wait = form.new_key is None and (is_half or (_IN_ALL_DELAYS in text and _asks_to_wait(properties)))
    if keeps_wait and (wait := properties.pop(names.WAIT_STORED, None)):
        properties[names.WAIT_STORED] = wait  # removed and put back there, so it is the last of its bucket
    stored = stored_text(properties, form, "" if keeps_wait else form.left_out)
    return stored.encode("utf-8", "surrogateescape"), waits, is_half


def stored_text(properties: dict[str, str], form: RecordForm, left_out: str) -> str:
    """Return the text of *properties* for the record, with the broker's additions."""
    properties |= form.added
    order = names_in_java_order(tuple(properties), form.buckets)
    return "\x02".join([f"{name}\x01{properties[name]}" for name in order if name != left_out]) + form.end


def batch_properties(text: str, form: RecordForm) -> tuple[bytes, bool]:
    """Return the properties added to each message of a batch, and whether the sender waits for the disk."""
    properties = parse_properties(text)
    waits = _is_true(properties.get(names.WAIT_STORED, "true"))
    properties.pop(names.UNIQUE_KEY, None)
    left_out = "" if form.left_out == names.WAIT_STORED else form.left_out
    return stored_text(properties, form, left_out).encode("utf-8", "surrogateescape"), waits


def delay_level(raw: bytes) -> int:
    """Return the requested delay level; 0 if there is none or it is not a number."""
    return _level(parse_properties(raw.decode("utf-8", "replace")))


def without_delay(raw: bytes) -> bytes:
    """Return the properties without the delay."""
    bounded = f"\x02{raw.decode('utf-8', 'surrogateescape')}\x02"
    for name in _DELAYS:
        bounded = _without(bounded, name)
    return bounded[1:-1].encode("utf-8", "surrogateescape")


def _asks_to_wait(properties: dict[str, str]) -> bool:
    return _level(properties) > 0 or any(name in properties for name in _TIMES)


def _level(properties: dict[str, str]) -> int:
    try:
        return int(properties.get(names.DELAY_LEVEL, "0"))
    except ValueError:
        return 0


def _is_true(text: str | None) -> bool:
    """Parse as Java's Boolean.parseBoolean."""
    return text is not None and text.lower() == "true"


def _without(bounded: str, name: str) -> str:
    """Return all properties except those called *name*; both arguments include their separators."""
    at = bounded.find(name)
    while at >= 0:
        bounded = bounded[:at] + bounded[bounded.index("\x02", at + 1) :]
        at = bounded.find(name, at)
    return bounded
