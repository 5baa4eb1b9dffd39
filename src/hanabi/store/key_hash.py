"""The hash of a message key in the index: Java's, over the whole text at once. Every message with keys needs it.

Horner's rule without its loop. The text is one large number whose lanes are its characters; each step joins neighbours,
left * 31**k + right, into lanes of twice the width. With L for the left lanes alone, moved to where the right ones are,
that is `lanes - L * (2**width - 31**k)`: four operations on all lanes together, and six steps for 64 characters.
"""

from typing import Final

from hanabi.wire.tags import java_hash

_INT_MAX: Final = 2**31 - 1
_CHARACTERS_MAX: Final = 64
_NEXT_64: Final = pow(31, _CHARACTERS_MAX, 1 << 32)


def _step(width: int) -> tuple[int, int]:
    """A mask of every second lane, and what a left lane is too large by."""
    mask = sum(((1 << width) - 1) << at for at in range(0, 8 * _CHARACTERS_MAX, 2 * width))
    return mask, (1 << width) - 31 ** (width // 8)


_MASK_1, _EXCESS_1 = _step(8)
_MASK_2, _EXCESS_2 = _step(16)
_MASK_4, _EXCESS_4 = _step(32)
_MASK_8, _EXCESS_8 = _step(64)
_MASK_16, _EXCESS_16 = _step(128)
_, _EXCESS_32 = _step(256)


def key_hash(text: str) -> int:
    """Java's abs(text.hashCode()), and 0 where that is negative still (IndexFile.java, indexKeyHashMethod)."""
    try:
        code = _hash(text.encode("latin-1"))
    except UnicodeEncodeError:  # characters that are no single byte in Java either
        code = java_hash(text) & 0xFFFF_FFFF
    return code if code <= _INT_MAX else (1 << 32) - code & _INT_MAX


def _hash(text: bytes) -> int:
    """hashCode as an unsigned number, of a text whose characters are bytes."""
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
