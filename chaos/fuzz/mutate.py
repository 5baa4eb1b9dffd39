"""Frames that were good once: bits flipped, bytes cut out, put in, exchanged. Pure; the dice are the caller's."""

import random
from collections.abc import Sequence
from typing import Final

_TELLING: Final = (
    b"\0",
    b"\xff",
    b"\x7f",
    b"\x80",
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\\u",
    b"\n",
    b"../",
)
_LENGTH_BYTES: Final = 4


def mutated(dice: random.Random, frame: bytes, others: Sequence[bytes]) -> bytes:
    """*frame*, which has its length in front, with a few things wrong. *others* lend pieces."""
    content = frame[_LENGTH_BYTES:]
    for _ in range(dice.randint(1, 4)):
        content = _changed(dice, content, others)
    # Most of the time the lengths fit, so that the damage reaches what is behind them.
    if len(content) >= _LENGTH_BYTES and dice.random() < 0.8:
        header_bytes = min(int.from_bytes(content[1:4], "big"), len(content) - _LENGTH_BYTES)
        content = content[:1] + header_bytes.to_bytes(3, "big") + content[4:]
    length = len(content)
    if dice.random() < 0.05:
        length = dice.choice((0, 1, 3, length + 1, max(0, length - 1), 16 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1))
    return length.to_bytes(_LENGTH_BYTES, "big") + content


def _changed(dice: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    # Most of what matters stands at the beginning: form, lengths, the fixed part of a binary header.
    start = min(dice.randint(0, len(data)), dice.choice((4, 24, 64, 300, len(data))))
    match dice.randrange(5):
        case 0:
            return (
                data[:start]
                + bytes(byte ^ 1 << dice.randrange(8) for byte in data[start : start + 1])
                + data[start + 1 :]
            )
        case 1:
            return data[:start] + data[start + dice.randint(1, 40) :]
        case 2:
            piece = dice.choice(_TELLING) if dice.random() < 0.5 else dice.randbytes(dice.randint(1, 8))
            return data[:start] + piece + data[start:]
        case 3:
            other = dice.choice(others)[_LENGTH_BYTES:]
            begin = dice.randint(0, len(other))
            piece = other[begin : begin + dice.randint(1, 80)]
            return data[:start] + piece + data[start + len(piece) :]
        case _:
            return data[:start] if dice.random() < 0.3 else data
