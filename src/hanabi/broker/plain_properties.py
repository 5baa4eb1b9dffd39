"""The properties of plain sends: what the record keeps of them, known again by what repeats.

The messages of a producer differ in their unique keys, and often in nothing else. So properties are cut there:

    UNIQ_KEY\\x01 │ 7F0000011A2B251A69D701C5F3A000A7 │ \\x02WAIT\\x01true\\x02TAGS\\x01TagA\\x02
    before        key                                after

What stands around the key is looked into once. A key cannot change what that means: names begin, and values end, with a
separator, and there is none in a key.
"""

from typing import Final

from hanabi.store.cut_properties import CutProperties, cut_properties
from hanabi.wire import property_names as names

_REMEMBERED_MAX: Final = 2_000
_CHARACTERS_MAX: Final = 1_000  # longer ones are looked into each time
_KEY_CHARACTERS_MAX: Final = 255  # a longer key may hold zeros that the store must mark, see `store.torn_writes`

_UNIQUE_KEY: Final = f"{names.UNIQUE_KEY}\x01"
_KEYS: Final = f"{names.KEYS}\x01"

# As in `stored_properties`.
_WAIT: Final = f"\x02{names.WAIT_STORED}\x01"
_WAIT_TRUE: Final = f"{_WAIT}true\x02"
_CLUSTER: Final = f"\x02{names.CLUSTER}\x01"
_HALF: Final = f"\x02{names.TRANSACTION_PREPARED}\x01"
_IN_ALL_DELAYS: Final = "DEL"


class PlainProperties:
    """What becomes of the properties that clients send, if *added* is what the broker adds to them."""

    def __init__(self, added: str) -> None:
        self._added = f"{added}\x02"
        self._known: dict[tuple[str, str], tuple[bytes, bytes, int]] = {}  # start, end, and the hash of the tags

    def read(self, text: str) -> CutProperties | None:
        """What is stored of *text*; None where `stored_properties.sent_properties` has more to do."""
        before, found, rest = text.rpartition(_UNIQUE_KEY)
        if not found or _KEYS in text:  # keys are others with every message, too
            return self._look_into(text)
        key, _, after = rest.partition("\x02")
        known = self._known.get((before, after))
        if known is None or not key or len(key) > _KEY_CHARACTERS_MAX or not key.isascii():
            return self._learn(text, before, key, after)
        start, end, tags_code = known
        return start, key.encode(), end, tags_code, ()

    def _learn(self, text: str, before: str, key: str, after: str) -> CutProperties | None:
        cut = self._look_into(text)
        if cut is None or len(text) > _CHARACTERS_MAX:
            return cut
        start, unique_key, end, tags_code, _ = cut
        if unique_key == key.encode() and (not before or before[-1] == "\x02"):  # else it was not the name of a key
            if len(self._known) >= _REMEMBERED_MAX:
                self._known.clear()
            self._known[before, after] = start, end, tags_code
        return cut

    def _look_into(self, text: str) -> CutProperties | None:
        bounded = f"\x02{text}\x02".replace(_WAIT_TRUE, "\x02")
        if _IN_ALL_DELAYS in text or _WAIT in bounded or _CLUSTER in bounded or _HALF in bounded:
            return None
        # clients of 5.x end their properties with a separator already
        return cut_properties((bounded if bounded[-2:] != "\x02\x02" else bounded[:-1]) + self._added)
