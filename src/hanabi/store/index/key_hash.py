"""The hash of a message key in the index: Java's, over the whole text at once. Every message with keys needs it.

Horner's rule without its loop. The text is one large number whose lanes are its characters; each step joins neighbours,
left * 31**k + right, into lanes of twice the width. With L for the left lanes alone, moved to where the right ones are,
that is `lanes - L * (2**width - 31**k)`: four operations on all lanes together, and six steps for 64 characters.

Some of the work is saved by keeping the hash of "topic#", which comes before every key of a topic.
"""

import contextlib
import os
from functools import lru_cache
from typing import Final

from hanabi.wire.message.tags import java_hash

_INT_MAX: Final = 2**31 - 1
_CHARACTERS_MAX: Final = 64
_NEXT_64: Final = pow(31, _CHARACTERS_MAX, 1 << 32)


def _step(width: int) -> tuple[int, int]:
    """Return a mask of every second lane, and the excess of a left lane."""
    mask = sum(((1 << width) - 1) << at for at in range(0, 8 * _CHARACTERS_MAX, 2 * width))
    return mask, (1 << width) - 31 ** (width // 8)


_MASK_1, _EXCESS_1 = _step(8)
_MASK_2, _EXCESS_2 = _step(16)
_MASK_4, _EXCESS_4 = _step(32)
_MASK_8, _EXCESS_8 = _step(64)
_MASK_16, _EXCESS_16 = _step(128)
_, _EXCESS_32 = _step(256)

_UNIQUE_KEY_CHARACTERS: Final = 32
_PRODUCER_CHARACTERS: Final = 20  # of these: in Java's its address, process and class loader
_SHORT_CHARACTERS_MAX: Final = 16
_SHORT_LANES: Final = (1 << 8 * _SHORT_CHARACTERS_MAX) - 1
_SHORT_MASK_1, _SHORT_MASK_2, _SHORT_MASK_4 = (mask & _SHORT_LANES for mask in (_MASK_1, _MASK_2, _MASK_4))
_LOW_64: Final = (1 << 64) - 1
_POWERS: Final = tuple(pow(31, characters, 1 << 32) for characters in range(129))


def key_hash(text: str) -> int:
    """Return Java's abs(text.hashCode()), and 0 where that is negative still (IndexFile.java, indexKeyHashMethod)."""
    return key_hash_after(0, text)


def prefix_code(text: str) -> int:
    """Return the hash state of a prefix, for `key_hash_after`."""
    return java_hash(text) & 0xFFFF_FFFF


def key_hash_after(prefix: int, text: str) -> int:
    """Return the `key_hash` of *text* behind a prefix whose `prefix_code` is *prefix*."""
    try:
        raw = text.encode("latin-1")
    except UnicodeEncodeError:  # characters that are no single byte in Java either
        length = len(text.encode("utf-16-be", "surrogatepass")) // 2
        code = java_hash(text) + prefix * pow(31, length, 1 << 32)
    else:
        length = len(raw)
        if length == _UNIQUE_KEY_CHARACTERS:
            code = _start_code(raw[:_PRODUCER_CHARACTERS]) + _hash_short(raw[_PRODUCER_CHARACTERS:])
        else:
            code = _hash_short(raw) if length <= _SHORT_CHARACTERS_MAX else _hash(raw)
        code += prefix * (_POWERS[length] if length < len(_POWERS) else pow(31, length, 1 << 32))
    code &= 0xFFFF_FFFF
    return code if code <= _INT_MAX else (1 << 32) - code & _INT_MAX


def _hash_short(text: bytes) -> int:
    """Return the `_hash` of at most 16 characters, not reduced to 32 bits."""
    lanes = int.from_bytes(text)
    lanes -= (lanes >> 8 & _SHORT_MASK_1) * _EXCESS_1
    lanes -= (lanes >> 16 & _SHORT_MASK_2) * _EXCESS_2
    lanes -= (lanes >> 32 & _SHORT_MASK_4) * _EXCESS_4
    return (lanes >> 64) * _POWERS[8] + (lanes & _LOW_64)


@lru_cache(maxsize=4096)
def _start_code(start: bytes) -> int:
    """Return the share of a unique key's start in its hash. It is the same for all messages of a producer."""
    return _hash(start) * _POWERS[_UNIQUE_KEY_CHARACTERS - len(start)] & 0xFFFF_FFFF


def _hash(text: bytes) -> int:
    """Return hashCode as an unsigned number, of a text whose characters are bytes."""
    if len(text) > _CHARACTERS_MAX:
        first = len(text) % _CHARACTERS_MAX
        code = _hash(text[:first])
        for at in range(first, len(text), _CHARACTERS_MAX):
            code = code * _NEXT_64 + _hash(text[at : at + _CHARACTERS_MAX]) & 0xFFFF_FFFF
        return code
    lanes = int.from_bytes(text)
    lanes -= (lanes >> 8 & _MASK_1) * _EXCESS_1
    lanes -= (lanes >> 16 & _MASK_2) * _EXCESS_2
    lanes -= (lanes >> 32 & _MASK_4) * _EXCESS_4
    lanes -= (lanes >> 64 & _MASK_8) * _EXCESS_8
    lanes -= (lanes >> 128 & _MASK_16) * _EXCESS_16
    lanes -= (lanes >> 256) * _EXCESS_32
    return lanes & 0xFFFF_FFFF


python_key_hash_after = key_hash_after
if not os.environ.get("HANABI_PURE_PYTHON"):
    with contextlib.suppress(ImportError):
        from hanabi.store._speedups import key_hash_after
