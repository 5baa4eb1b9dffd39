"""The properties of plain sends: what the record keeps of them, known again by what repeats.

The messages of a producer differ in their unique keys, and often in nothing else. So properties are cut there:

    UNIQ_KEY\\x01 │ 7F0000011A2B251A69D701C5F3A000A7 │ \\x02WAIT\\x01true\\x02TAGS\\x01TagA\\x02
    before        key                                after

What stands around the key is looked into once. A key cannot change what that means: names begin, and values end, with a
separator, and there is none in a key. The keys that a sender chose differ as well: a mark stands for them meanwhile.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from hanabi.broker.stored_properties import RecordForm, stored_text
from hanabi.store.cut_properties import CutProperties, cut_properties
from hanabi.wire import property_names as names
from hanabi.wire.properties import parse_properties

_REMEMBERED_MAX: Final = 2_000
_CHARACTERS_MAX: Final = 1_000  # longer ones are looked into each time
_KEY_CHARACTERS_MAX: Final = 255  # a longer key may hold zeros that the store must mark, see `store.torn_writes`

_UNIQUE_KEY: Final = f"{names.UNIQUE_KEY}\x01"
_KEYS: Final = f"{names.KEYS}\x01"
_IN_ALL_DELAYS: Final = "DEL"
_MARK: Final = "\x03"
_MARK_BYTES: Final = _MARK.encode()


class PlainProperties:
    """The properties of many messages, each looked into by *look_into* unless it is known what becomes of it."""

    def __init__(self, look_into: Callable[[str], CutProperties | None]) -> None:
        self._look_into = look_into
        self._known: dict[tuple[str, str], tuple[bytes, bytes, int]] = {}  # start, end, and the hash of the tags

    def read(self, text: str) -> CutProperties | None:
        """What is stored of *text*; None where `stored_properties` has more to do."""
        if _KEYS not in text:
            return self._read(text)
        before, _, rest = text.rpartition(_KEYS)
        keys = rest.partition("\x02")[0]
        is_name = not before or before[-1] == "\x02"
        if not keys or not is_name or not keys.isascii() or "\0" in keys or _MARK in text:
            return self._look_into(text)
        found = self._read(f"{before}{_KEYS}{_MARK}{rest[len(keys) :]}")
        if found is None:
            return None
        start, unique_key, end, tags_code, _ = found
        raw = keys.encode()
        chosen = [key for key in keys.split(" ") if key]
        return start.replace(_MARK_BYTES, raw), unique_key, end.replace(_MARK_BYTES, raw), tags_code, chosen

    def _read(self, text: str) -> CutProperties | None:
        before, found, rest = text.rpartition(_UNIQUE_KEY)
        if not found:
            return self._look_into(text)
        key = rest.partition("\x02")[0]
        after = rest[len(key) :]  # with its separator, which is stored in a batch
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
        # else it was not the name of a key, or one without a value, which counts as none
        if key and unique_key == key.encode() and (not before or before[-1] == "\x02"):
            if len(self._known) >= _REMEMBERED_MAX:
                self._known.clear()
            self._known[before, after] = start, end, tags_code
        return cut


def single_sends(form: RecordForm) -> PlainProperties:
    """Of messages that are sent alone: as `stored_properties.sent_properties`."""
    return PlainProperties(partial(_of_one, form))


def batched_sends() -> PlainProperties:
    """Of messages in batches, with those of their batch behind them: as `wire.properties.join_properties`."""
    return PlainProperties(_in_batch)


def _of_one(form: RecordForm, text: str) -> CutProperties | None:
    properties = parse_properties(text)
    if (
        _IN_ALL_DELAYS in text
        or properties.get(names.WAIT_STORED, "true") != "true"
        or names.TRANSACTION_PREPARED in properties
        or (form.new_key is not None and names.UNIQUE_KEY not in properties)
    ):
        return None
    return cut_properties(f"\x02{stored_text(properties, form, form.left_out)}\x02")


def _in_batch(text: str) -> CutProperties | None:
    return cut_properties(f"\x02{text}\x02") if _IN_ALL_DELAYS not in text else None
