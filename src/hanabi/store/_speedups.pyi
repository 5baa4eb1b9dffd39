import mmap

def key_hash_after(prefix: int, text: str) -> int: ...
def follow_chain(
    mapped: mmap.mmap,
    entries_at: int,
    number: int,
    below: int,
    hashed_key: int,
    low: int,
    high: int,
    steps_max: int,
    readable: bytearray,
) -> tuple[int, int, int]: ...
def link_entries(
    mapped: mmap.mmap, slots: int, first: int, pairs: bytes, begin_ms: int, store_ms: int, slots_used: int
) -> tuple[int, int]: ...
def follow_records(
    data: bytes | bytearray | memoryview, start: int, following: int, file_bytes: int
) -> tuple[int, int]: ...
