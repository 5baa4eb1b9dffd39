"""Queues of messages that are sent: one for each message group, the next one for all others.

The queue of a group agrees with Apache's proxy: Guava's consistent hash of Java's hash of the group's name.
"""

from typing import Final

_FACTOR: Final = 2_862_933_555_777_941_757
_MASK_64: Final = 2**64 - 1
_SCALE: Final = float(1 << 31)


def java_hash(text: str) -> int:
    """Return Java's String.hashCode."""
    value = 0
    raw = text.encode("utf-16-be", "surrogatepass")
    for place in range(0, len(raw), 2):
        value = (31 * value + (raw[place] << 8 | raw[place + 1])) & 0xFFFF_FFFF
    return value - 2**32 if value >= 2**31 else value


def consistent_hash(number: int, buckets: int) -> int:
    """Return the bucket of *number*, as Guava's Hashing.consistentHash: few move when a bucket is added."""
    state, candidate = number & _MASK_64, 0
    while True:
        state = (_FACTOR * state + 1) & _MASK_64
        following = int((candidate + 1) / (((state >> 33) + 1) / _SCALE))
        if not 0 <= following < buckets:
            return candidate
        candidate = following


def queue_of_group(message_group: str, queues: int) -> int:
    """Return the place of the queue of *message_group* among *queues* writable ones."""
    return consistent_hash(java_hash(message_group), queues)
