"""What becomes of a message's properties between the request and the record.

WAIT tells the broker what to wait for and is not stored (messages that wait themselves keep it, as Apache's records of
them do). CLUSTER is the broker's to say: a consumer that answers a request finds the reply topic by it. Everything else
is stored as it came, undecoded: this runs for every message. It works on text, in which CPython searches several times
faster than in bytes.

Agrees with Java's SendMessageProcessor.asyncSendMessage.
"""

from typing import Final

from hanabi.wire import property_names as names
from hanabi.wire.properties import parse_properties

# With the separators around them, names are found where they are names and nowhere else.
_WAIT: Final = f"\x02{names.WAIT_STORED}\x01"
_WAIT_TRUE: Final = f"{_WAIT}true\x02"  # what nearly all clients send
_CLUSTER: Final = f"\x02{names.CLUSTER}\x01"
_HALF: Final = f"\x02{names.TRANSACTION_PREPARED}\x01"
_UNIQUE_KEY: Final = f"\x02{names.UNIQUE_KEY}\x01"
_DELAYS: Final = tuple(
    f"\x02{name}\x01"
    for name in (names.DELAY_LEVEL, names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS)
)
_IN_ALL_DELAYS: Final = "DEL"


def cluster_property(cluster_name: str) -> str:
    """The last property of every record, for `sent_properties`."""
    return _CLUSTER[1:] + cluster_name


def sent_properties(text: str, cluster: str) -> tuple[bytes, bool, bool]:
    """Of the properties that a client sent: what the record keeps, whether the sender waits for the disk, and whether
    this is the first half of a transaction. *cluster* is what `cluster_property` made."""
    bounded = f"\x02{text}\x02"
    waits = True
    if _IN_ALL_DELAYS not in text:
        bounded = bounded.replace(_WAIT_TRUE, "\x02")
        if _WAIT in bounded:
            waits, bounded = _waits(text), _without(bounded, _WAIT)
    elif _WAIT in bounded:
        waits = _waits(text)
        if not any(name in bounded for name in _DELAYS):
            bounded = _without(bounded, _WAIT)
    if _CLUSTER in bounded:
        bounded = _without(bounded, _CLUSTER)
    is_half = _HALF in bounded and _is_true(parse_properties(text).get(names.TRANSACTION_PREPARED))
    # clients of 5.x end their properties with a separator already
    stored = bounded[1:] + cluster if bounded[-2:] != "\x02\x02" else bounded[1:-1] + cluster
    return stored.encode("utf-8", "surrogateescape"), waits, is_half


def batch_properties(text: str) -> tuple[str, bool]:
    """What each message of a batch gets besides its own, and whether the sender waits for the disk.

    Clients of 5.x give the batch a unique key of its own, which is nobody's: each message has one already.
    """
    bounded = f"\x02{text}\x02"
    waits = _waits(text)
    for name in (_WAIT, _UNIQUE_KEY, _CLUSTER):
        bounded = _without(bounded, name)
    return bounded.strip("\x02"), waits


def in_batch(shared: str, raw: bytes, cluster: str) -> bytes:
    """The properties of one message in a batch, with those that it shares with the others."""
    own = raw.decode("utf-8", "surrogateescape")  # what is not UTF-8 is stored as it came
    # Its own come last, which is where they win.
    return sent_properties(f"{shared}\x02{own}" if shared else own, cluster)[0]


def delay_level(raw: bytes) -> int:
    """The delay level that was asked for; 0 for none, and for what is not a number."""
    try:
        return int(_parsed(raw).get(names.DELAY_LEVEL, "0"))
    except ValueError:
        return 0


def without_delay(raw: bytes) -> bytes:
    """The same properties, to be delivered at once."""
    bounded = f"\x02{raw.decode('utf-8', 'surrogateescape')}\x02"
    for name in _DELAYS:
        bounded = _without(bounded, name)
    return bounded.strip("\x02").encode("utf-8", "surrogateescape")


def _parsed(raw: bytes) -> dict[str, str]:
    return parse_properties(raw.decode("utf-8", "replace"))


def _waits(text: str) -> bool:
    value = parse_properties(text).get(names.WAIT_STORED)
    return value is None or _is_true(value)


def _is_true(text: str | None) -> bool:
    """Java's Boolean.parseBoolean."""
    return text is not None and text.lower() == "true"


def _without(bounded: str, name: str) -> str:
    """All properties but those called *name*; both have their separators around them."""
    at = bounded.find(name)
    while at >= 0:
        bounded = bounded[:at] + bounded[bounded.index("\x02", at + 1) :]
        at = bounded.find(name, at)
    return bounded
