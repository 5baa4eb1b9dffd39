"""The properties of a record as a run of puts wants them: cut at the unique key, and what queue and index keep of them.

    UNIQ_KEY\\x01 │ 7F0000011A2B251A69D701C5F3A000A7 │ \\x02TAGS\\x01red\\x02CLUSTER\\x01DefaultCluster
    start         unique key                         end

From message to message of one producer the key is another one, and often nothing else. Who has seen the rest before
knows what it means, and need not look for tags and keys in it again.
"""

from collections.abc import Sequence
from typing import Final

from hanabi.store.torn_writes import looks_torn
from hanabi.wire import property_names as names
from hanabi.wire.tags import tags_code

# Start, unique key, end; the hash of the tags; the keys that the sender chose. Without a unique key all is start.
CutProperties = tuple[bytes, bytes, bytes, int, Sequence[str]]

# With the separators around them. Where one of them is empty, another one of that name would count: not for us.
_TAGS: Final = f"\x02{names.TAGS}\x01"
_KEYS: Final = f"\x02{names.KEYS}\x01"
_UNIQUE_KEY: Final = f"\x02{names.UNIQUE_KEY}\x01"


def cut_properties(text: str) -> CutProperties | None:
    """The properties *text*, which has a separator at both ends; None: they are not for plain puts."""
    if not text.isascii() or ("\0" in text and looks_torn(text[1:-1].encode())):
        return None
    _, has_tags, tags = text.rpartition(_TAGS)
    tags = tags.partition("\x02")[0] if has_tags else ""
    _, has_keys, keys = text.rpartition(_KEYS)
    keys = keys.partition("\x02")[0] if has_keys else ""
    if (has_tags and not tags) or (has_keys and not keys):
        return None
    key_list = [key for key in keys.split(" ") if key] if keys else ()
    _, has_unique, rest = text.rpartition(_UNIQUE_KEY)
    if not has_unique:
        return text[1:-1].encode(), b"", b"", tags_code(tags), key_list
    unique_key = rest.partition("\x02")[0]
    if not unique_key:
        return None
    start, end = text[1 : -len(rest)], rest[len(unique_key) : -1]
    return start.encode(), unique_key.encode(), end.encode(), tags_code(tags), key_list
