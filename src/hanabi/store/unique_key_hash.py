"""The hash of a unique key in the index: that of `key_hash`, for the keys that nearly every message has.

    7F000001 1A2B 251A69D7 │ 01C5F3A0 │ 00A7        who made it │ when │ a counter

As they are made of these parts, two thirds of one were seen before: see `wire.message_id`. The parts of a hash add up.
"""

import struct
from typing import Final

from hanabi.store.key_hash import key_hash_after, prefix_code

_PARTS: Final = struct.Struct(">20s8s4B")
_CHARACTERS: Final = _PARTS.size
_INT_MAX: Final = 2**31 - 1
_MASK: Final = 2**32 - 1
_AFTER_PREFIX: Final = pow(31, _CHARACTERS, 1 << 32)
_CODES_MAX: Final = 4096

_unpack_parts = _PARTS.unpack


class _Codes(dict[bytes, int]):
    """What a part of a key adds to the hash, by the part."""

    def __init__(self, characters_behind: int) -> None:
        super().__init__()
        self._factor = pow(31, characters_behind, 1 << 32)

    def __missing__(self, part: bytes) -> int:
        if len(self) >= _CODES_MAX:
            self.clear()
        self[part] = code = prefix_code(part.decode()) * self._factor & _MASK
        return code


_maker_codes, _time_codes = _Codes(characters_behind=12), _Codes(characters_behind=4)


def unique_key_hash(prefix: int, key: bytes) -> int:
    """As `key_hash_after`. The *key* is in ASCII."""
    if len(key) != _CHARACTERS:
        return key_hash_after(prefix, key.decode())
    maker, time, first, second, third, fourth = _unpack_parts(key)
    counter_code = ((first * 31 + second) * 31 + third) * 31 + fourth
    code: int = prefix * _AFTER_PREFIX + _maker_codes[maker] + _time_codes[time] + counter_code & _MASK
    return code if code <= _INT_MAX else (1 << 32) - code & _INT_MAX
