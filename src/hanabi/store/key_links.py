"""The entries of many messages, added to one index file at a time: as `IndexFile.put_all` for each of them.

What the header says is written once, behind all entries. The compiled twin is `PlainPuts.link` in `_speedups`.
"""

from collections.abc import Sequence
from typing import Final

from hanabi.store.index_file import ENTRY, HEADER, SLOT, IndexFile

_INT_MAX: Final = 2**31 - 1
_SLOTS_AT: Final = HEADER.size
_SLOT_BYTES: Final = SLOT.size
_ENTRY_BYTES: Final = ENTRY.size

_pack_header, _pack_slot, _pack_entry, _unpack_slot = (
    HEADER.pack_into,
    SLOT.pack_into,
    ENTRY.pack_into,
    SLOT.unpack_from,
)


def link_messages(file: IndexFile, keyed: Sequence[tuple[int, int]], store_ms: int) -> None:
    """Add an entry for each of *keyed*, the hash of a key and the log offset of its message, to a *file* that is not
    empty and has room for all of them."""
    mapped, slots, number, used, begin_ms = file._map, file.slots, file.next_entry, file.slots_used, file.begin_ms
    entries_at = _SLOTS_AT + slots * _SLOT_BYTES
    seconds = min((store_ms - begin_ms) // 1000, _INT_MAX) if 0 < begin_ms < store_ms else 0
    log_offset = 0
    for hashed_key, log_offset in keyed:
        slot_at = _SLOTS_AT + hashed_key % slots * _SLOT_BYTES
        (previous,) = _unpack_slot(mapped, slot_at)
        if not 0 < previous < number:
            previous = 0
            used += 1
        _pack_entry(mapped, entries_at + number * _ENTRY_BYTES, hashed_key, log_offset, seconds, previous)
        _pack_slot(mapped, slot_at, number)
        number += 1
    _pack_header(mapped, 0, begin_ms, store_ms, file.begin_log_offset, log_offset, used, number)
    file.slots_used = used
    file.is_synced = False
    file.next_entry = number
    file.end_log_offset = log_offset
    file.end_ms = store_ms  # last: a sync in another thread notes this time as safe
