"""The tag hash, which a consume queue keeps of a message's tags and by which a broker filters."""

from functools import lru_cache

# Tags are few and short. Longer ones are hashed each time, so that a sender cannot fill the cache's memory.
_CACHED_CHARACTERS_MAX = 64

_BLANK = "".join(map(chr, range(33)))  # the characters that Java's `trim` removes, and no other


def java_hash(text: str) -> int:
    """Return `String.hashCode()` of the JVM, over UTF-16 units. Consume queues filter by it: every bit counts."""
    if len(text) <= _CACHED_CHARACTERS_MAX:
        return _cached_hash(text)
    return _hash(text)


def tags_code(tags: str | None) -> int:
    """Return the hash of *tags* that the consume queue keeps; 0 for none.

    As MessageExtBrokerInner.tagsString2tagsCode, which ignores the multi-tags flag and separators.
    """
    if not tags:
        return 0
    return _cached_hash(tags) if len(tags) <= _CACHED_CHARACTERS_MAX else _hash(tags)


def subscribed_tags(text: str) -> tuple[list[str], list[int]]:
    """Return the tags in a subscription such as "a || b", and their hashes; each once (Java's FilterAPI)."""
    tags = list(dict.fromkeys(tag for part in text.split("||") if (tag := part.strip(_BLANK))))
    return tags, list(dict.fromkeys(map(java_hash, tags)))


def _hash(text: str) -> int:
    code = 0
    if text.isascii():
        for unit in text.encode():
            code = (31 * code + unit) & 0xFFFF_FFFF
    else:
        # A Java string may hold half a surrogate pair, and so may ours.
        units = text.encode("utf-16-be", "surrogatepass")
        for high, low in zip(units[::2], units[1::2], strict=True):
            code = (31 * code + (high << 8 | low)) & 0xFFFF_FFFF
    return code - (1 << 32) if code >> 31 else code


_cached_hash = lru_cache(maxsize=4096)(_hash)
