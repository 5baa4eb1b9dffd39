"""Properties with zeros: a client may send them, and a torn write leaves them. The one is kept, the other refused."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.store.inspection.home import StoreHome
from hanabi.store.inspection.verify.verify import verify
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.log.torn_writes import SEALABLE_BYTES_MAX, looks_torn, mark_zeros
from hanabi.wire.message.properties import PROPERTIES_BYTES_MAX, decode_properties
from tests.store.stores import HOST, bodies, copy_as_after_a_kill, open_store, read_queue

LARGE_FILE = 1 << 20


def with_properties(body: bytes, properties: bytes, *, topic: str = "T") -> PendingMessage:
    return PendingMessage(topic, 0, body, properties, born_timestamp_ms=1, born_host=HOST, store_host=HOST)


def zeros(count: int, *, behind: bytes = b"") -> bytes:
    return b"name\x01" + bytes(count) + behind


def longest(end: bytes) -> bytes:
    return b"name\x01".ljust(PROPERTIES_BYTES_MAX - len(end), b"v") + end


SHAPES = {
    "one zero": zeros(1),
    "511 zeros": zeros(511, behind=b"x"),
    "512 zeros": zeros(512, behind=b"x"),
    "512 zeros at the end": zeros(512),
    "10,000 zeros": zeros(10_000, behind=b"\x02other\x01value"),
    "zeros in a key": b"UNIQ_KEY\x01" + bytes(600) + b"\x02TAGS\x01red",
    "a name of zeros": bytes(600) + b"\x01value",
    "zeros without a name": bytes(600),
    "the largest, with a zero at the end": longest(b"\0"),
    "the largest, with 512 zeros at the end": longest(bytes(512)),
    "the largest that can be sealed": longest(bytes(512))[-SEALABLE_BYTES_MAX:],
    "one more than can be sealed": longest(bytes(512))[-SEALABLE_BYTES_MAX - 1 :],
    "one less than the largest, with a zero at the end": longest(b"\0")[1:],
    "every byte": b"name\x01" + bytes(byte for byte in range(256) if byte != 2) * 8,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_last", [False, True])
def test_messages_behind_zeros_in_properties_survive_a_kill(memory_directory: Path, shape: str, is_last: bool) -> None:
    store = open_store(memory_directory / "a", commit_log_segment_bytes=LARGE_FILE)
    store.put(with_properties(b"before", b""))
    store.put(with_properties(b"zeros", SHAPES[shape]))
    if not is_last:
        store.put(with_properties(b"behind", b""))
    expected = [b"before", b"zeros"] if is_last else [b"before", b"zeros", b"behind"]
    assert bodies(store) == expected
    copy = copy_as_after_a_kill(store, memory_directory / "b")
    store.close()
    for root in (copy, memory_directory / "a"):
        again = open_store(root, commit_log_segment_bytes=LARGE_FILE)
        assert bodies(again) == expected
        assert decode_properties(read_queue(again)[1].properties) == decode_properties(SHAPES[shape])
        assert not again.recovery.damages
        again.close()
        report = verify(StoreHome.open(root))
        assert report.clean, report


@pytest.mark.parametrize("shape", SHAPES)
def test_a_message_with_zeros_in_its_properties_is_found_by_its_place(memory_directory: Path, shape: str) -> None:
    # By which delayed, half and returned messages are looked up.
    with open_store(memory_directory, commit_log_segment_bytes=LARGE_FILE) as store:
        (place,) = store.put(with_properties(b"zeros", SHAPES[shape])).appended
        found = store.queries.record(place.log_offset)
        assert found is not None
        assert len(found) == place.size
        assert store.queries.store_time("T", 0, 0) == place.store_timestamp_ms


@pytest.mark.long
def test_a_torn_write_of_properties_with_zeros_ends_the_log_at_any_byte(memory_directory: Path) -> None:
    store = open_store(memory_directory / "a", commit_log_segment_bytes=LARGE_FILE)
    store.put(with_properties(b"before", b""))
    (place,) = store.put(with_properties(b"zeros", zeros(700, behind=b"\x02a\x01b"))).appended
    copy = copy_as_after_a_kill(store, memory_directory / "b")
    store.close()
    for torn_at in range(place.size):
        root = shutil.copytree(copy, memory_directory / "torn")
        path = root / "commitlog" / f"{0:020d}"
        whole = path.read_bytes()
        log = whole[: place.log_offset + torn_at].ljust(len(whole), b"\0")
        if log == whole:
            continue
        path.write_bytes(log)
        again = open_store(root, commit_log_segment_bytes=LARGE_FILE)
        assert bodies(again) == [b"before"], torn_at
        again.close()
        shutil.rmtree(root)


def test_a_foreign_record_with_unmarked_zeros_is_kept_when_a_whole_one_follows(memory_directory: Path) -> None:
    """Apache's broker marks nothing, and accepts such a record after a crash."""
    store = open_store(memory_directory / "a", commit_log_segment_bytes=LARGE_FILE)
    store.put(with_properties(b"foreign", b"x".join([b"name\x01", b"v" * 600])))
    store.put(with_properties(b"behind", b""))
    copy = copy_as_after_a_kill(store, memory_directory / "b")
    store.close()
    path = copy / "commitlog" / f"{0:020d}"
    path.write_bytes(path.read_bytes().replace(b"v" * 600, bytes(600)))
    again = open_store(copy, commit_log_segment_bytes=LARGE_FILE)
    assert bodies(again) == [b"foreign", b"behind"]
    again.close()


def test_a_copy_of_another_log_may_have_unmarked_zeros(memory_directory: Path) -> None:
    master = open_store(memory_directory / "a", commit_log_segment_bytes=LARGE_FILE)
    master.put(with_properties(b"foreign", b"name\x01" + b"v" * 600))
    data = bytes(master.read_log(0) or b"").replace(b"v" * 600, bytes(600))
    with open_store(memory_directory / "b", commit_log_segment_bytes=LARGE_FILE) as slave:
        slave.append_copy(0, data)
        assert bodies(slave) == [b"foreign"]
    master.close()


parts = st.sampled_from([b"", b"a", b"\0", bytes(511), bytes(512), bytes(5_000), b"\x01", b"\x02", b"v" * 27_000])


@given(st.lists(parts, max_size=8).map(b"".join))
def test_marking_zeros_changes_no_pair_and_no_limit(properties: bytes) -> None:
    properties = properties[:PROPERTIES_BYTES_MAX]
    marked = mark_zeros(properties)
    assert not looks_torn(marked)
    assert mark_zeros(marked) == marked
    assert len(marked) <= PROPERTIES_BYTES_MAX
    assert decode_properties(marked) == decode_properties(properties)
