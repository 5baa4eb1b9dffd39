"""The order in which Java's HashMap hands out a message's properties, so that what we store has Apache's very bytes.

Apache decodes the properties of a message that it diverts into a HashMap, adds some, and writes them in the order of
the map: by bucket, and within a bucket in the order of insertion. (Buckets of more than eight names become trees in
Java and may differ; nothing depends on it.)
"""

from collections.abc import Mapping

from hanabi.wire.tags import java_hash

_FIRST_BUCKETS = 16


def in_java_order(properties: Mapping[str, str]) -> dict[str, str]:
    """*properties*, whose order is that of insertion, as `new HashMap<>()` of the JVM would list them."""
    buckets = _FIRST_BUCKETS
    while len(properties) > buckets * 3 // 4:
        buckets *= 2
    mask = buckets - 1

    def bucket(item: tuple[str, str]) -> int:
        code = java_hash(item[0]) & 0xFFFF_FFFF
        return (code ^ code >> 16) & mask

    return dict(sorted(properties.items(), key=bucket))
