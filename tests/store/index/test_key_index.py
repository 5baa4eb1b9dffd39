"""The key index: against Apache's files, against a dict of lists, and against broken files."""

import contextlib
import os
import shutil
import struct
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hanabi.errors import StoreError, StoreFull
from hanabi.store.index.index_file import ENTRY, HEADER, PAUSE_STEPS, SLOT, IndexFile, index_file_bytes
from hanabi.store.index.key_hash import key_hash, key_hash_after, prefix_code
from hanabi.store.index.key_index import KeyIndex, local_time_name
from hanabi.testing.clock import ManualClock
from hanabi.wire.message.tags import java_hash
from tests.golden_records import STORES, golden_store

pytestmark = pytest.mark.pure

SLOTS, ENTRIES = 7, 20
MEMORY = Path("/dev/shm")  # noqa: S108 (fresh directories inside it: syncing costs nothing there)
FOREVER = (0, 2**62)
START_MS = 1_794_725_147_138


def open_index(directory: Path, *, clock: ManualClock | None = None, load: bool = True) -> KeyIndex:
    index = KeyIndex(directory, slots=SLOTS, entries_max=ENTRIES, now_ms=clock or ManualClock(START_MS))
    if load:
        index.load()
    return index


def contents(directory: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(directory.iterdir())]


# the hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("Hello World", 862_545_276),  # Java says -862545276
        ("polygenelubricants", 0),  # its hash is -2147483648, which Math.abs leaves negative
    ],
)
def test_the_hash_is_javas_made_positive(text: str, expected: int) -> None:
    assert key_hash(text) == expected


@given(st.text(min_size=1, max_size=20), st.text(max_size=150) | st.from_regex("[0-9A-F]{32}", fullmatch=True))
def test_a_hash_may_go_on_from_that_of_the_text_before(before: str, text: str) -> None:
    assert key_hash_after(prefix_code(before), text) == key_hash(before + text)


@given(st.text(max_size=200) | st.text(st.characters(max_codepoint=255), min_size=50, max_size=300))
def test_the_quick_hash_agrees_with_the_plain_one(text: str) -> None:
    plain = abs(java_hash(text))
    assert key_hash(text) == (0 if plain == 2**31 else plain)


# Apache's own files


def golden_index(store: str) -> tuple[str, bytes]:
    ((path, content),) = [item for item in golden_store(store).items() if item[0].startswith("index/")]
    return path, content


def golden_messages(store: str) -> list[tuple[str, list[str], int, int]]:
    """Topic, keys, log offset and store time of every message in a recorded log, read with nothing but its layout."""
    messages = []
    for path, log in sorted(golden_store(store).items()):
        at = 0
        while path.startswith("commitlog/") and at + 8 <= len(log):
            size, magic = struct.unpack_from(">ii", log, at)
            if magic != -626843481:
                break
            log_offset, sys_flag = struct.unpack_from(">qi", log, at + 28)
            (store_ms,) = struct.unpack_from(">q", log, at + 56)
            (body_bytes,) = struct.unpack_from(">i", log, at + 84)
            topic_at = at + 88 + body_bytes
            topic = log[topic_at + 1 : topic_at + 1 + log[topic_at]].decode()
            properties_at = topic_at + 1 + log[topic_at]
            (properties_bytes,) = struct.unpack_from(">h", log, properties_at)
            text = log[properties_at + 2 : properties_at + 2 + properties_bytes].decode()
            properties = dict(pair.split("\x01", 1) for pair in text.split("\x02") if pair)
            keys = [properties["UNIQ_KEY"]] if "UNIQ_KEY" in properties else []
            keys += [key for key in properties.get("KEYS", "").split(" ") if key]
            if sys_flag & 12 != 12:  # messages that roll a transaction back are not in the index
                messages.append((topic, keys, log_offset, store_ms))
            at += size
    return messages


@pytest.mark.parametrize("store", STORES)
def test_every_key_of_apaches_store_is_found_in_apaches_index(store: str, tmp_path: Path) -> None:
    path, content = golden_index(store)
    (tmp_path / path).parent.mkdir()
    (tmp_path / path).write_bytes(content)
    index = KeyIndex(tmp_path / "index", slots=100, entries_max=400, now_ms=ManualClock(START_MS), writable=False)
    index.load()
    messages = golden_messages(store)
    keys = [(topic, key, log_offset) for topic, keys, log_offset, _ in messages for key in keys]
    assert len(keys) == 52 == index.files[0].next_entry - 1
    for topic, key, log_offset in keys:
        found = index.search(topic, key, *FOREVER, 64)
        assert log_offset in found.log_offsets
        assert found.log_offsets == sorted(found.log_offsets, reverse=True)
        assert (found.last_update_log_offset, found.is_complete) == (9_047, True)
    assert index.search("Golden", "no such key", *FOREVER, 64).log_offsets == []
    index.close()
    assert (tmp_path / path).read_bytes() == content


@pytest.mark.parametrize("store", STORES)
def test_the_same_messages_give_the_same_bytes_as_apache_wrote(store: str, tmp_path: Path) -> None:
    index = KeyIndex(tmp_path, slots=100, entries_max=400, now_ms=ManualClock(START_MS))
    for topic, keys, log_offset, store_ms in golden_messages(store):
        index.put(topic, keys, log_offset, store_ms)
    index.close()
    assert contents(tmp_path) == [golden_index(store)[1]]


# putting and searching


def test_the_newest_messages_come_first_and_no_more_than_asked_for(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    for number in range(50):
        index.put("T", ["key", f"other{number}"], number * 100, START_MS + number)
    assert len(index.files) == 6
    assert index.search("T", "key", *FOREVER, 7).log_offsets == [number * 100 for number in range(49, 42, -1)]
    assert index.search("T", "key", *FOREVER, 100).log_offsets == [number * 100 for number in range(49, -1, -1)]
    assert index.search("T", "other3", *FOREVER, 9).log_offsets == [300]
    assert index.search("Other", "key", *FOREVER, 9).log_offsets == []


def test_a_search_is_bounded_by_time(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    for number in range(50):
        index.put("T", ["key"], number * 100, START_MS + number * 1_000)

    def found(begin: int, end: int) -> list[int]:
        times = START_MS + begin * 1_000, START_MS + end * 1_000
        return [log_offset // 100 for log_offset in index.search("T", "key", *times, 100).log_offsets]

    assert found(10, 12) == [12, 11, 10]
    assert found(18, 21) == [21, 20, 19, 18]  # over the end of a file
    assert found(45, 100) == [49, 48, 47, 46, 45]
    assert found(-9, 1) == [1, 0]
    assert found(60, 70) == []
    assert found(-9, 99) == list(range(49, -1, -1))


def test_the_first_entry_of_a_later_file_has_the_time_of_its_message(tmp_path: Path) -> None:
    # Its seconds count from the end of the file before, in Apache's files too, where such a message is not found.
    index = open_index(tmp_path)
    for number in range(ENTRIES - 1):
        index.put("T", ["key"], number * 100, START_MS)
    index.put("T", ["key"], 9_000, START_MS + 300_000)
    assert index.files[1].entry(1)[2] == 300
    assert index.search("T", "key", START_MS + 299_000, START_MS + 301_000, 9).log_offsets == [9_000]


def test_a_message_with_one_key_twice_is_found_once(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    index.put("T", ["key", "key"], 100, START_MS)
    assert index.search("T", "key", *FOREVER, 9).log_offsets == [100]


def test_an_index_without_files_finds_nothing(tmp_path: Path) -> None:
    index = open_index(tmp_path / "index")
    assert index.search("T", "key", *FOREVER, 9) == ([], 0, 0, True)
    assert (index.sync(), index.truncate(0), index.delete_expired(100)) == (0, 0, 0)
    index.put("T", [], 100, START_MS)
    index.close()
    assert not (tmp_path / "index").exists()


def test_a_message_that_is_in_the_index_is_passed_over(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    for number in range(30):
        index.put("T", ["key", f"k{number}"], number * 100, START_MS + number)
    before = contents(tmp_path)
    for number in range(30):
        index.put("T", ["key", f"k{number}"], number * 100, START_MS + number)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("already", range(5))
def test_a_message_whose_keys_are_only_partly_there_gets_the_others(tmp_path: Path, already: int) -> None:
    # A process can be killed between two keys of a message, also where a file ends.
    index = open_index(tmp_path)
    for number in range(ENTRIES - 3):
        index.put("T", [f"k{number}"], number * 100, START_MS)
    keys = ["a", "b", "a", "c", "d"]
    index.put("T", keys[:already], 5_000, START_MS)
    index.put("T", keys, 5_000, START_MS)
    entries = [file.entry(number)[:2] for file in index.files for number in range(1, file.next_entry)]
    assert entries[-5:] == [(key_hash(f"T#{key}"), 5_000) for key in keys]
    assert len(entries) == ENTRIES - 3 + 5


def test_seconds_are_counted_from_the_first_message_and_never_negative(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    for number, store_ms in enumerate([5_000, 5_999, 6_000, 4_000, 5_000 + 2**31 * 1_000 + 5]):
        index.put("T", ["k"], 100 + number, store_ms)
    assert [index.files[0].entry(number)[2] for number in range(1, 6)] == [0, 0, 1, 0, 2**31 - 1]


def test_files_are_named_by_local_time_and_keep_their_order_when_the_clock_goes_back(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    index = open_index(tmp_path, clock=clock)
    for number in range(4 * ENTRIES):
        index.put("T", ["key"], 100 + number, START_MS)
        clock.ms -= 1_000
    names = [file.path.name for file in index.files]
    assert names[0] == local_time_name(START_MS)
    assert len(names[0]) == 17
    assert names == sorted(set(names))
    index.close()
    again = open_index(tmp_path)
    assert again.search("T", "key", *FOREVER, 99).log_offsets == [100 + n for n in range(4 * ENTRIES - 1, -1, -1)]


def test_a_full_file_is_handed_over_to_be_synced(tmp_path: Path) -> None:
    full: list[IndexFile] = []
    index = KeyIndex(tmp_path, slots=SLOTS, entries_max=ENTRIES, now_ms=ManualClock(START_MS), on_full=full.append)
    for number in range(ENTRIES):
        index.put("T", ["key"], 100 + number, START_MS + number)
    assert full == index.files[:1]
    assert full[0].end_ms == START_MS + ENTRIES - 2
    assert index.sync() == START_MS + ENTRIES - 1
    assert all(file.is_synced for file in index.files)


def test_files_below_the_logs_beginning_are_deleted_but_never_the_last(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    for number in range(50):
        index.put("T", ["key"], number * 100, START_MS)
    assert [file.end_log_offset for file in index.files] == [1_800, 3_700, 4_900]
    assert index.delete_expired(1_800) == 0
    assert index.delete_expired(1_801) == 1
    assert index.delete_expired(10**9) == 1
    assert len(contents(tmp_path)) == 1
    assert index.search("T", "key", *FOREVER, 99).log_offsets == [number * 100 for number in range(49, 37, -1)]


class FilesThatGrowMeanwhile(list[IndexFile]):
    """The files of an index; when they are sliced, the writer's thread has its turn and needs a new file."""

    grow: Callable[[], None]

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        if isinstance(key, slice) and key.stop is None:  # those that are kept
            writer = threading.Thread(target=self.grow)
            writer.start()
            writer.join(0.2)  # a writer that waits for us is right, too
        return found


def test_a_file_made_while_old_ones_are_deleted_is_not_forgotten(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    for number in range(3 * (ENTRIES - 1)):
        index.put("T", ["key"], number * 100, START_MS + number)
    assert len(index.files) == 3
    newest = 3 * (ENTRIES - 1) * 100
    index.files = files = FilesThatGrowMeanwhile(index.files)
    done = threading.Event()

    def grow() -> None:
        if not done.is_set():
            done.set()
            index.put("T", ["key"], newest, START_MS + 100)

    files.grow = grow
    assert index.delete_expired(ENTRIES * 100) == 1
    for _ in range(100):
        if len(index.files) == 3:
            break
        time.sleep(0.05)
    assert index.search("T", "key", *FOREVER, 1).log_offsets == [newest]
    assert len(index.files) == len(contents(tmp_path)) == 3
    index.close()


def test_a_file_deleted_while_it_is_searched_stays_readable(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    for number in range(50):
        index.put("T", ["key"], number * 100, START_MS)
    held = index.files[0]
    index.delete_expired(10**9)
    assert len(list(held.chain(key_hash("T#key"), *FOREVER))) == ENTRIES - 1


@pytest.mark.parametrize("kept", [0, 1, 5, 19, 20, 38, 39, 49, 50])
def test_a_truncated_index_is_as_if_the_rest_had_never_been_there(tmp_path: Path, kept: int) -> None:
    index, other = open_index(tmp_path / "a"), open_index(tmp_path / "b")
    for number in range(50):
        message = "T", [f"k{number % 9}"], number * 100, START_MS + number * 700
        index.put(*message)
        if number < kept:
            other.put(*message)
    assert index.truncate(kept * 100) == 50 - kept
    for number in range(kept, 60):
        message = "T", [f"j{number % 5}"], number * 100, START_MS + number * 700
        index.put(*message)
        other.put(*message)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.parametrize("trusted_until_ms", [None, START_MS + 20, START_MS + 10, 0])
def test_after_a_crash_files_later_than_the_checkpoint_are_deleted(
    tmp_path: Path, trusted_until_ms: int | None
) -> None:
    index = open_index(tmp_path)
    for number in range(30):
        index.put("T", ["key"], number * 100, START_MS + number)
    index.close()
    again = open_index(tmp_path, load=False)
    again.load(trusted_until_ms=trusted_until_ms)
    expected = {None: 2, START_MS + 20: 1, START_MS + 10: 0, 0: 0}[trusted_until_ms]
    assert len(again.files) == len(contents(tmp_path)) == expected


# faults


def test_a_full_disk_is_an_error_when_a_file_is_made_and_leaves_none_behind(small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(bytes(50_000))
    index = KeyIndex(small_disk / "index", slots=5_000, entries_max=1_000, now_ms=ManualClock(START_MS))
    for _ in range(2):
        with pytest.raises(StoreFull, match="no room on the disk for"):
            index.put("T", ["key"], 100, START_MS)
    assert contents(small_disk / "index") == []
    (small_disk / "ballast").unlink()
    index.put("T", ["key"], 100, START_MS)
    assert index.search("T", "key", *FOREVER, 9).log_offsets == [100]
    index.close()


def put_until_full(index: KeyIndex) -> int:
    """Return the number of the first message that is refused."""
    number = 1
    with contextlib.suppress(StoreFull):
        for number in range(2, 20_000):
            index.put("T", ["key"], number * 100, START_MS)
    return number


@pytest.mark.parametrize("reopened", [False, True])
def test_a_disk_that_fills_up_while_a_file_grows_is_an_error_that_changes_nothing(
    small_disk: Path, reopened: bool
) -> None:
    def fresh() -> KeyIndex:
        index = KeyIndex(small_disk / "index", slots=100, entries_max=20_000, now_ms=ManualClock(START_MS))
        index.load()
        return index

    index = fresh()
    index.put("T", ["key"], 100, START_MS)
    state = os.statvfs(small_disk)
    (small_disk / "ballast").write_bytes(bytes(state.f_bavail * state.f_frsize))
    if reopened:
        index.close()
        index = fresh()
    number = put_until_full(index)
    with pytest.raises(StoreFull, match="no room on the disk for the entries of"):
        index.put("T", ["key"], number * 100, START_MS)
    found = index.search("T", "key", *FOREVER, 20_000)
    assert found.log_offsets == [at * 100 for at in range(number - 1, 0, -1)]
    (small_disk / "ballast").unlink()
    index.put("T", ["key"], number * 100, START_MS)
    assert index.search("T", "key", *FOREVER, 1).log_offsets == [number * 100]
    index.close()


def test_a_new_file_has_its_full_size_and_takes_little_of_the_disk(tmp_path: Path) -> None:
    index = KeyIndex(tmp_path, slots=5_000_000, entries_max=20_000_000, now_ms=ManualClock(START_MS))
    index.put("T", ["key"], 100, START_MS)
    (path,) = tmp_path.iterdir()
    assert path.stat().st_size == index_file_bytes(5_000_000, 20_000_000) == 420_000_040
    assert 20_000_000 <= path.stat().st_blocks * 512 < 32 << 20
    index.close()


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="creating"):
        open_index(tmp_path / "file" / "index").put("T", ["key"], 100, START_MS)


def test_a_file_of_another_size_is_left_alone_and_an_empty_one_removed(tmp_path: Path) -> None:
    (tmp_path / "20200101000000000").write_bytes(bytes(123))
    (tmp_path / "20200101000000001").write_bytes(b"")
    (tmp_path / "readme").write_text("hello")
    index = open_index(tmp_path)
    assert index.files == []
    index.put("T", ["key"], 100, START_MS)
    index.close()
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        "20200101000000000",
        local_time_name(START_MS),
        "readme",
    ]


@pytest.mark.parametrize("killed_after", ["entry", "slot"])
def test_an_entry_that_was_not_finished_does_not_break_its_chain(tmp_path: Path, killed_after: str) -> None:
    index = open_index(tmp_path)
    for number in range(5):
        index.put("T", ["key"], number * 100, START_MS)
    index.close()
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    hashed_key = key_hash("T#key")
    ENTRY.pack_into(content, HEADER.size + SLOTS * SLOT.size + 6 * ENTRY.size, hashed_key, 500, 0, 5)
    if killed_after == "slot":
        SLOT.pack_into(content, HEADER.size + hashed_key % SLOTS * SLOT.size, 6)
    path.write_bytes(content)
    index = open_index(tmp_path)
    assert index.search("T", "key", *FOREVER, 9).log_offsets == [400, 300, 200, 100, 0]
    index.put("T", ["key"], 500, START_MS)
    assert index.search("T", "key", *FOREVER, 9).log_offsets == [500, 400, 300, 200, 100, 0]


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    for number in range(5):
        index.put("T", ["key"], number * 100, START_MS)
    index.close()
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    previous_at = HEADER.size + SLOTS * SLOT.size + 3 * ENTRY.size + 16
    for target in (3, 5, ENTRIES - 1, -1, 2**31 - 1):
        SLOT.pack_into(content, previous_at, target)
        path.write_bytes(content)
        index = open_index(tmp_path)
        assert index.search("T", "key", *FOREVER, 99).log_offsets == [400, 300, 200]
        index.close()


@pytest.mark.parametrize("slot", [-1, 1, 2, 19, 2**31 - 1])
def test_a_slot_that_points_at_no_entry_counts_as_empty(tmp_path: Path, slot: int) -> None:
    file = IndexFile.create(tmp_path / "1", SLOTS, ENTRIES)
    SLOT.pack_into(file._map, HEADER.size, slot)
    file.put(7, 100, START_MS)
    assert file.entry(1) == (7, 100, 0, 0)
    assert file.slots_used == 1


def test_a_long_chain_is_followed_to_its_end_and_its_reader_may_stop_on_the_way(tmp_path: Path) -> None:
    index = KeyIndex(tmp_path, slots=1, entries_max=4 * PAUSE_STEPS, now_ms=lambda: START_MS)
    for number in range(3 * PAUSE_STEPS):
        index.put("T", ["old" if number == 0 else "new"], number * 100, START_MS)
    asked = 0

    def goes_on(times: int) -> bool:
        nonlocal asked
        asked += 1
        return asked <= times

    assert index.search("T", "old", *FOREVER, 1).log_offsets == [0]
    stopped = index.search("T", "old", *FOREVER, 1, goes_on=lambda: goes_on(1))
    assert (stopped.log_offsets, stopped.is_complete, asked) == ([], False, 2)
    asked = 0
    stopped = index.search("T", "new", *FOREVER, 99, goes_on=lambda: goes_on(3))
    assert stopped.log_offsets == [(3 * PAUSE_STEPS - number) * 100 for number in (1, 2, 3)]
    assert not stopped.is_complete


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_flipped_bit_anywhere_never_stops_the_index_from_working(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        directory = Path(name)
        index = open_index(directory)
        for number in range(data.draw(st.integers(1, ENTRIES - 1))):
            index.put("T", [f"k{number % 3}"], number * 100, START_MS + number)
        index.close()
        (path,) = directory.iterdir()
        content = bytearray(path.read_bytes())
        bit = data.draw(st.integers(0, len(content) * 8 - 1))
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)

        index = open_index(directory)
        for key in ("k0", "k1", "k2"):
            index.search("T", key, *FOREVER, 99)
        index.truncate(100_000)  # the end of the log
        for number in range(ENTRIES, 3 * ENTRIES):
            index.put("T", [f"k{number % 3}"], number * 100, START_MS + number)
        # A damaged begin time may hide the damaged file and what is in it, but nothing newer.
        newer = {number * 100 for number in range(ENTRIES, 3 * ENTRIES) if number % 3 == 0}
        found = set(index.search("T", "k0", *FOREVER, 99).log_offsets)
        in_damaged = {index.files[0].entry(n)[1] for n in range(1, index.files[0].next_entry)}
        assert newer - in_damaged <= found
        index.delete_expired(2_500)
        index.close()


class IndexMachine(RuleBasedStateMachine):
    """Any order of puts, searches, syncs, truncations, deletions and restarts, beside a dict of lists."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        self.clock = ManualClock(START_MS)
        self.model: dict[str, list[int]] = defaultdict(list)
        self.messages: list[tuple[str, list[str], int, int]] = []
        self.index = open_index(self.directory, clock=self.clock)
        self.log_end = 0
        self.log_begin = 0

    @rule(keys=st.lists(st.sampled_from("abcdefgh"), max_size=4, unique=True), pause_ms=st.integers(0, 3_000))
    def put(self, keys: list[str], pause_ms: int) -> None:
        self.clock.ms += pause_ms
        self.messages.append(("T", keys, self.log_end, self.clock.ms))
        self.index.put(*self.messages[-1])
        for key in keys:
            self.model[key].append(self.log_end)
        self.log_end += 100

    @rule()
    def put_all_again(self) -> None:
        for message in self.messages:
            self.index.put(*message)

    @rule()
    def restart(self) -> None:
        self.index.close()
        self.index = open_index(self.directory, clock=self.clock)

    @rule()
    def crash(self) -> None:
        """Killed: what is in the map is in the file."""
        self.index = open_index(self.directory, clock=self.clock)

    @rule()
    def sync(self) -> None:
        self.index.sync()

    @rule(dropped=st.integers(0, 10))
    def truncate(self, dropped: int) -> None:
        self.log_end = max(self.log_end - dropped * 100, self.log_begin)
        self.index.truncate(self.log_end)
        self.messages = [message for message in self.messages if message[2] < self.log_end]
        for log_offsets in self.model.values():
            log_offsets[:] = [log_offset for log_offset in log_offsets if log_offset < self.log_end]

    @rule(data=st.data())
    def delete_expired(self, data: st.DataObject) -> None:
        self.log_begin = data.draw(st.integers(self.log_begin // 100, self.log_end // 100)) * 100
        self.index.delete_expired(self.log_begin)
        self.messages = [message for message in self.messages if message[2] >= self.log_begin]

    @invariant()
    def agrees(self) -> None:
        for key in "abcdefgh":
            found = self.index.search("T", key, *FOREVER, 1_000).log_offsets
            alive = [log_offset for log_offset in reversed(self.model[key]) if log_offset >= self.log_begin]
            # Other keys with the same hash would be found too; these eight have none.
            assert found[: len(alive)] == alive
            assert set(found) <= set(self.model[key])
        size = index_file_bytes(SLOTS, ENTRIES)
        assert all(os.stat(file.path).st_size == size for file in self.index.files)  # noqa: PTH116

    def teardown(self) -> None:
        self.index.close()
        shutil.rmtree(self.directory)


TestIndexAgainstADict = IndexMachine.TestCase
TestIndexAgainstADict.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
