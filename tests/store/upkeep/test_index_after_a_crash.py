"""The key index after a crash in the middle of a run of puts: entries that do not count hide no older message."""

from pathlib import Path

from hanabi.store.index.index_file import ENTRY, HEADER, SLOT
from hanabi.store.index.key_index import KeyIndex
from hanabi.store.message_store import MessageStore
from hanabi.testing.clock import ManualClock
from hanabi.wire.message.record import decode_records
from tests.store.fast_path.test_appends import begun, pytestmark
from tests.store.stores import copy_as_after_a_kill, message, open_store

__all__ = ["pytestmark"]

SLOTS, ENTRIES, KEYS = 16, 512, 7
FOREVER = (0, 2**62)


def opened(root: Path, clock: ManualClock | None = None) -> MessageStore:
    return open_store(root, clock=clock, commit_log_segment_bytes=1 << 16, index_slots=SLOTS, index_entries=ENTRIES)


def put_run(store: MessageStore, numbers: range) -> None:
    """Put one run, each message with a key that earlier messages have."""
    writer = begun(store)
    for number in numbers:
        assert writer.append(message(b"%d" % number, properties={"KEYS": f"k{number % KEYS}"}))
    writer.finish()


def found(store: MessageStore) -> dict[str, list[int]]:
    """Return the numbers of the messages under each key."""
    answers: dict[str, list[int]] = {}
    for key in (f"k{number}" for number in range(KEYS)):
        records = store.queries.by_key("T", key, 64, *FOREVER).records
        answers[key] = [int(record.body) for piece in records for record in decode_records(piece)]
    return answers


def expected(count: int) -> dict[str, list[int]]:
    return {f"k{key}": [n for n in range(count) if n % KEYS == key] for key in range(KEYS)}


def index_path(root: Path) -> Path:
    (path,) = (root / "index").iterdir()
    return path


def store_killed_before_the_header(tmp_path: Path) -> Path:
    """Return what a store is that was killed when the entries of a run were written, and the header was not."""
    clock = ManualClock()
    store = opened(tmp_path / "a", clock)
    for number in range(20):
        clock.ms += 1_000
        assert store.put(message(b"%d" % number, properties={"KEYS": f"k{number % KEYS}"})).appended
    store.flush()  # recovery begins behind the oldest of them
    header = index_path(tmp_path / "a").read_bytes()[: HEADER.size]
    put_run(store, range(20, 50))
    killed = copy_as_after_a_kill(store, tmp_path / "b")
    store.close()
    with index_path(killed).open("r+b") as file:
        file.write(header)
    return killed


def test_a_run_killed_before_the_header_hides_no_older_message(tmp_path: Path) -> None:
    store = opened(store_killed_before_the_header(tmp_path))
    assert store.recovery.start > 0
    assert found(store) == expected(50)
    store.close()


def test_a_power_cut_that_takes_entries_and_leaves_slots_hides_no_older_message(tmp_path: Path) -> None:
    killed = store_killed_before_the_header(tmp_path)
    entries_at = HEADER.size + SLOTS * SLOT.size
    with index_path(killed).open("r+b") as file:
        file.seek(entries_at + 21 * ENTRY.size)  # from the first that does not count on
        file.write(bytes(40 * ENTRY.size))
    store = opened(killed)
    assert found(store) == expected(50)
    store.close()


def test_entries_that_do_not_count_yet_hide_nothing_from_a_search(tmp_path: Path) -> None:
    """Another thread or process searches while a run is being written."""
    killed = store_killed_before_the_header(tmp_path)
    index = KeyIndex(killed / "index", slots=SLOTS, entries_max=ENTRIES, now_ms=lambda: 1, writable=False)
    index.load()
    for key, numbers in expected(20).items():
        assert len(index.search("T", key, *FOREVER, 64).log_offsets) >= len(numbers)
    index.close()
