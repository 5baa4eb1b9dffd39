"""The order in which Java's HashMap hands out a message's properties, so that our records equal Apache's byte for byte.

Apache decodes the properties of a message into a HashMap, adds some, and writes them in the order of the map: by
bucket, and within a bucket in the order of insertion. (Buckets of more than eight names become trees in Java and may
differ; nothing depends on it.) The two versions write them differently:

    4.9   HashMap of 16 buckets     name 0x01 value 0x02 name 0x01 value
    5.x   HashMap of 128 buckets    name 0x01 value 0x02 name 0x01 value 0x02
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from hanabi.wire.message.properties import format_properties
from hanabi.wire.message.tags import java_hash

BUCKETS_4: Final = 16
BUCKETS_5: Final = 128
_REMEMBERED_MAX: Final = 256  # with the longest names that fit into a message some megabytes


def in_java_order(properties: Mapping[str, str], buckets: int = BUCKETS_4) -> dict[str, str]:
    """Sort *properties*, given in order of insertion, as `new HashMap<>(buckets)` of the JVM would list them."""
    return {name: properties[name] for name in names_in_java_order(tuple(properties), buckets)}


@lru_cache(maxsize=_REMEMBERED_MAX)
def names_in_java_order(names: tuple[str, ...], buckets: int) -> tuple[str, ...]:
    """Return *names* `in_java_order`. The order is cached: messages of one producer have the same names."""
    while len(names) > buckets * 3 // 4:
        buckets *= 2
    mask = buckets - 1

    def bucket(name: str) -> int:
        code = java_hash(name) & 0xFFFF_FFFF
        return (code ^ code >> 16) & mask

    return tuple(sorted(names, key=bucket))


def encode_again(properties: Mapping[str, str], stored: bytes) -> bytes:
    """Encode *properties*, which were read from a record and changed, in that record's form: 4.9's or 5.x's.

    Without a limit: the store refuses what is too long, and says so.
    """
    if stored.endswith(b"\x02"):
        text = format_properties(in_java_order(properties, BUCKETS_5)) + "\x02"
    else:
        text = format_properties(in_java_order(properties))
    return text.encode("utf-8", "replace")
