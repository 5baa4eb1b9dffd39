"""The extension of a consume queue: its bytes, its addresses, and what happens when it is damaged or behind."""

import struct
from pathlib import Path

import pytest

from hanabi.store.queues.consume_queue import ENTRY_BYTES, ConsumeQueue
from hanabi.store.queues.consume_queue_ext import ConsumeQueueExt, ExtUnit, is_ext_address
from hanabi.store.queues.consume_queues import ConsumeQueues

LONG_MIN = -(2**63)
EXT_FILE_BYTES = 100


def open_queues(tmp_path: Path, ext_file_bytes: int = EXT_FILE_BYTES, *, thorough: bool = False) -> ConsumeQueues:
    queues = ConsumeQueues(
        tmp_path / "consumequeue",
        5 * ENTRY_BYTES,
        ext_directory=tmp_path / "consumequeue_ext",
        ext_file_bytes=ext_file_bytes,
    )
    queues.load(thorough=thorough)
    return queues


def extended(queues: ConsumeQueues) -> tuple[ConsumeQueue, ConsumeQueueExt]:
    queue = queues.open("T", 0)
    assert queue.ext is not None
    return queue, queue.ext


def put_many(queue: ConsumeQueue, count: int, *, start: int = 0) -> None:
    for number in range(start, start + count):
        queue.put_extended(number, number * 100, 100, number, 1_000 + number, b"\xff" * 8)


def units(queue: ConsumeQueue) -> list[ExtUnit | None]:
    assert queue.ext is not None
    return [queue.ext.get(tags_code) for _, _, tags_code in queue.entries(queue.min_offset, 1_000)]


def expected_units(numbers: range) -> list[ExtUnit]:
    return [ExtUnit(number, 1_000 + number, b"\xff" * 8) for number in numbers]


def test_a_unit_lies_in_the_file_as_apache_lays_it(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    _, ext = extended(queues)
    assert ext.put(7, 1_000, b"\x01\x02") == LONG_MIN
    assert ext.put(-5, 2_000, None) == LONG_MIN + 22
    queues.close()
    content = (tmp_path / "consumequeue_ext/T/0/00000000000000000000").read_bytes()
    written = struct.pack(">hqqh", 22, 7, 1_000, 2) + b"\x01\x02" + struct.pack(">hqqh", 20, -5, 2_000, 0)
    assert content == written.ljust(EXT_FILE_BYTES, b"\0")


def test_a_unit_that_does_not_fit_goes_to_the_next_file_behind_a_mark(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    _, ext = extended(queues)
    addresses = [ext.put(number, 0, bytes(28)) for number in range(3)]  # 48 bytes each: 96 would fit, but 4 stay free
    assert addresses == [LONG_MIN, LONG_MIN + 48, LONG_MIN + 100]
    assert [unit.tags_code for address in addresses if address and (unit := ext.get(address))] == [0, 1, 2]
    ext.put(3, 0, bytes(29))
    queues.close()
    second = (tmp_path / "consumequeue_ext/T/0/00000000000000000100").read_bytes()
    assert second[48:] == b"\xff\xff" + bytes(50)


def test_addresses_are_told_from_tag_hashes_and_delivery_times() -> None:
    assert is_ext_address(LONG_MIN)
    assert is_ext_address(-(2**31) - 1)
    assert not is_ext_address(-(2**31))
    assert not is_ext_address(0)
    assert not is_ext_address(1_794_725_148_327)


@pytest.mark.parametrize("bitmap_bytes", [32_748, 80])
def test_a_unit_that_is_too_large_leaves_the_tags_code_in_the_entry(tmp_path: Path, bitmap_bytes: int) -> None:
    queues = open_queues(tmp_path)
    queue, ext = extended(queues)
    assert ext.put(1, 2, bytes(bitmap_bytes)) is None
    queue.put_extended(0, 0, 100, 77, 1_000, bytes(bitmap_bytes))
    assert queue.entries(0, 1) == [(0, 100, 77)]


@pytest.mark.parametrize("address", [0, 5, LONG_MIN + 1, LONG_MIN + 28, LONG_MIN + 10**6, -(2**31) - 1])
def test_an_address_where_no_unit_begins_gives_none(tmp_path: Path, address: int) -> None:
    queues = open_queues(tmp_path)
    queue, ext = extended(queues)
    put_many(queue, 1)
    assert ext.get(address) is None


def test_a_message_that_is_there_already_gets_no_second_unit(tmp_path: Path) -> None:
    queue, ext = extended(open_queues(tmp_path))
    put_many(queue, 3)
    end = ext.end
    put_many(queue, 3)
    assert ext.end == end


@pytest.mark.parametrize("thorough", [True, False])
def test_units_are_found_again_after_a_restart_and_new_ones_follow(tmp_path: Path, thorough: bool) -> None:
    queues = open_queues(tmp_path)
    put_many(queues.open("T", 0), 11)
    queues.close()
    queues = open_queues(tmp_path, thorough=thorough)
    queue = queues.open("T", 0)
    assert units(queue) == expected_units(range(11))
    put_many(queue, 5, start=11)
    assert units(queue) == expected_units(range(16))


def test_units_that_no_entry_points_at_are_overwritten(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    queue, ext = extended(queues)
    put_many(queue, 4)
    end = ext.end
    ext.put(99, 99, b"never in the queue")
    queues.close()
    queues = open_queues(tmp_path)
    queue, ext = extended(queues)
    assert ext.end == end
    put_many(queue, 4, start=4)
    assert units(queue) == expected_units(range(8))


def test_without_an_address_in_the_queue_the_end_is_found_by_walking(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    queue, ext = extended(queues)
    put_many(queue, 5)
    end = ext.end
    queue.put(5, 500, 100, 42)
    queues.close()
    queue, ext = extended(open_queues(tmp_path))
    assert ext.end == end
    put_many(queue, 3, start=6)
    assert units(queue) == [*expected_units(range(5)), None, *expected_units(range(6, 9))]


@pytest.mark.parametrize("kept", range(1, 11))
def test_truncating_the_queue_truncates_its_extension(tmp_path: Path, kept: int) -> None:
    queues = open_queues(tmp_path)
    queue, ext = extended(queues)
    put_many(queue, kept)
    end = ext.end
    put_many(queue, 11 - kept, start=kept)
    queues.flush()
    queue.truncate(kept * 100)
    assert ext.end == end
    put_many(queue, 3, start=kept)
    assert units(queue) == expected_units(range(kept + 3))


def test_files_below_the_oldest_entry_are_deleted(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    queue = queues.open("T", 0)
    put_many(queue, 12)  # 28 bytes a unit: 3 in a file
    queues.flush()
    queues.delete_expired(650)
    assert units(queue) == expected_units(range(7, 12))
    names = sorted(path.name for path in (tmp_path / "consumequeue_ext/T/0").iterdir())
    assert [int(name) for name in names] == [200, 300]


def test_deleting_a_topic_deletes_its_extension(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    put_many(queues.open("T", 0), 12)
    queues.flush()
    queues.delete_topic("T")
    assert list((tmp_path / "consumequeue_ext").iterdir()) == []


@pytest.mark.parametrize("position", range(30))
def test_a_damaged_or_missing_extension_never_stops_the_queue(tmp_path: Path, position: int) -> None:
    queues = open_queues(tmp_path)
    put_many(queues.open("T", 0), 4)
    queues.close()
    path = tmp_path / "consumequeue_ext/T/0/00000000000000000000"
    content = bytearray(path.read_bytes())
    content[position] ^= 0x80
    path.write_bytes(content)
    queues = open_queues(tmp_path)
    queue, ext = extended(queues)
    assert queue.max_offset == 4
    units(queue)
    put_many(queue, 4, start=4)
    assert units(queue)[4:] == expected_units(range(4, 8))
    ext.delete_all()
    assert units(queue) == [None] * 8
