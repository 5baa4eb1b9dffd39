"""The hash of a unique key in the index: that of `key_hash`, for the keys that nearly every message has.

    7F000001 1A2B 251A69D7 │ 01C5F3A0 │ 00A7        who made it │ when │ a counter

As they are made of these parts, two thirds of one were seen before: see `wire.message_id`. The parts of a hash add up.
"""

from functools import lru_cache
from typing import Final

from hanabi.store.key_hash import key_hash_after, prefix_code

_CHARACTERS: Final = 32
_TIME_AT: Final = 20
_COUNTER_AT: Final = 28
_INT_MAX: Final = 2**31 - 1
_MASK: Final = 2**32 - 1
_AFTER_PREFIX: Final = pow(31, _CHARACTERS, 1 << 32)


def unique_key_hash(prefix: int, key: str) -> int:
    """As `key_hash_after`. The *key* is in ASCII."""
    if len(key) != _CHARACTERS:
        return key_hash_after(prefix, key)
    first, second, third, fourth = key[_COUNTER_AT:].encode()
    counter_code = ((first * 31 + second) * 31 + third) * 31 + fourth
    start_code = _maker_code(key[:_TIME_AT]) + _time_code(key[_TIME_AT:_COUNTER_AT])
    code = prefix * _AFTER_PREFIX + start_code + counter_code & _MASK
    return code if code <= _INT_MAX else (1 << 32) - code & _INT_MAX


@lru_cache(maxsize=4096)
def _maker_code(start: str) -> int:
    return prefix_code(start) * pow(31, _CHARACTERS - _TIME_AT, 1 << 32) & _MASK


@lru_cache(maxsize=4096)
def _time_code(text: str) -> int:
    return prefix_code(text) * pow(31, _CHARACTERS - _COUNTER_AT, 1 << 32) & _MASK
