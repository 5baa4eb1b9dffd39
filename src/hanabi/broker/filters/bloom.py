"""Bloom filter of the groups that want a message, kept in its queue entry: a group hashes to a few bits of a short
bitmap.

Every bit must equal Apache's, because the bitmaps lie in consumequeue_ext and either broker may read them. Agrees with
BloomFilter.java of rocketmq-filter (guava's murmur3_128, two hashes combined) and with BitsArray.java: bit p is bit p %
8 of byte p // 8, from the lowest.
"""

import math
from typing import Final

import msgspec

_MASK_64: Final = 2**64 - 1
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F


class BloomPositions(msgspec.Struct, frozen=True, rename="camel"):
    """Bit positions of a text in a bitmap of a given size. Java: BloomFilterData."""

    bit_num: int
    bit_pos: tuple[int, ...]


class BloomFilter:
    """Numbers of bits and hashes for a false-positive rate in percent and an expected number of texts."""

    def __init__(self, *, error_percent: int, expected: int) -> None:
        if not 1 <= error_percent < 100 or expected < 1:
            raise ValueError(f"no bloom filter has false hits of {error_percent} % with {expected} texts")
        error = error_percent / 100.0
        self.hashes = math.ceil(_log(0.5, error))
        bits = math.ceil(expected * _log(2, 1 / error) * _log(2, math.e))
        self.bits = (bits + 7) // 8 * 8

    def positions(self, text: str) -> BloomPositions:
        """Return the bit positions of *text*; a position may occur twice."""
        code = murmur3_128_low(text.encode("utf-8", "replace"))
        first, second = code & 0xFFFF_FFFF, code >> 32
        bit_pos = []
        for i in range(1, self.hashes + 1):
            combined = (first + i * second) & 0xFFFF_FFFF
            if combined >> 31:  # negative in Java
                combined ^= 0xFFFF_FFFF
            bit_pos.append(combined % self.bits)
        return BloomPositions(self.bits, tuple(bit_pos))

    def fits(self, positions: BloomPositions | None) -> bool:
        """Return whether *positions* are from a filter of this size."""
        return positions is not None and positions.bit_num == self.bits and len(positions.bit_pos) == self.hashes

    def bitmap(self, mask: int) -> bytes:
        """Return the bits of *mask* as a bitmap of an entry."""
        return mask.to_bytes(self.bits // 8, "little")


def bit_mask(positions: BloomPositions) -> int:
    """Return all bits of *positions* in one number: a bitmap has them if `bitmap_number(bitmap) & mask == mask`."""
    mask = 0
    for position in positions.bit_pos:
        mask |= 1 << position
    return mask


def bitmap_number(bitmap: bytes) -> int:
    """Return a bitmap as a number, bit by bit."""
    return int.from_bytes(bitmap, "little")


def _log(base: float, value: float) -> float:
    return math.log(value) / math.log(base)  # as Java computes it; `math.log(value, base)` may differ in the last bit


def murmur3_128_low(data: bytes) -> int:
    """Return the first eight bytes of MurmurHash3 x64 128 with seed 0 as an unsigned number: guava's `asLong`."""
    first = second = 0
    whole = len(data) // 16 * 16
    for at in range(0, whole, 16):
        first ^= _mixed(int.from_bytes(data[at : at + 8], "little"), _C1, 31, _C2)
        first = (_rotated(first, 27) + second) * 5 + 0x52DCE729 & _MASK_64
        second ^= _mixed(int.from_bytes(data[at + 8 : at + 16], "little"), _C2, 33, _C1)
        second = (_rotated(second, 31) + first) * 5 + 0x38495AB5 & _MASK_64
    tail = data[whole:]
    first ^= _mixed(int.from_bytes(tail[:8], "little"), _C1, 31, _C2)  # zero mixes to zero
    second ^= _mixed(int.from_bytes(tail[8:], "little"), _C2, 33, _C1)
    first ^= len(data)
    second ^= len(data)
    first = first + second & _MASK_64
    second = second + first & _MASK_64
    return _finished(first) + _finished(second) & _MASK_64


def _mixed(block: int, factor: int, shift: int, other_factor: int) -> int:
    return _rotated(block * factor & _MASK_64, shift) * other_factor & _MASK_64


def _rotated(value: int, left: int) -> int:
    return (value << left | value >> 64 - left) & _MASK_64


def _finished(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _MASK_64
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK_64
    return value ^ value >> 33
