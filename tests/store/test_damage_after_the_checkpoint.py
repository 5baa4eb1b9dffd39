"""A bad bit in a message that no checkpoint vouches for, and a crash: that message is lost, and no other one."""

import logging
import random
from pathlib import Path

import pytest

from hanabi.store.message_store import MessageStore
from tests.store.stores import SEGMENT_BYTES, bodies, copy_as_after_a_kill, message, open_store, read_queue

COUNT = 60
QUEUES = 3
# Positions in a record: size, magic, CRC of the body, its place in the log, length of the body, body.
FIELDS = {"size": 2, "magic": 5, "crc": 9, "log offset": 33, "body length": 86, "body": 120}


def body(number: int) -> bytes:
    return b"%0100d" % number


def fill(store: MessageStore, start: int, end: int, *, size: int = 100) -> None:
    for number in range(start, end):
        assert store.put(message(b"%0*d" % (size, number), queue_id=number % QUEUES)).appended


def numbers(store: MessageStore) -> list[int]:
    found: list[int] = []
    for queue_id in range(QUEUES):
        for record in read_queue(store, queue_id=queue_id):
            number = int(record.body)
            assert (number % QUEUES, number // QUEUES) == (queue_id, record.queue_offset)
            found.append(number)
    return sorted(found)


def places(store: MessageStore) -> dict[int, int]:
    """Where in the log each message lies."""
    return {
        int(record.body): record.log_offset
        for queue_id in range(QUEUES)
        for record in read_queue(store, queue_id=queue_id)
    }


def flip(root: Path, log_offset: int, bit: int = 0) -> None:
    base = log_offset - log_offset % SEGMENT_BYTES
    path = root / "commitlog" / f"{base:020d}"
    data = bytearray(path.read_bytes())
    data[log_offset - base] ^= 1 << bit
    path.write_bytes(data)


def crashed(root: Path, *damages: tuple[int, str]) -> Path:
    """A store that was killed, with a bad bit in a field of each of these messages."""
    store = open_store(root / "a")
    fill(store, 0, COUNT)
    copy = copy_as_after_a_kill(store, root / "b")
    for number, field in damages:
        flip(copy, places(store)[number] + FIELDS[field])
    store.close()
    return copy


@pytest.mark.parametrize("number", [0, 20, 21, COUNT - 2])
@pytest.mark.parametrize("field", FIELDS)
def test_a_bad_bit_costs_that_message_only_and_is_reported(
    memory_directory: Path, caplog: pytest.LogCaptureFixture, number: int, field: str
) -> None:
    root = crashed(memory_directory, (number, field))
    with caplog.at_level(logging.ERROR):
        store = open_store(root)
    assert numbers(store) == [each for each in range(COUNT) if each != number]
    assert "the log has no valid record from" in caplog.text
    assert len(store.recovery.damages) == 1
    if (number, field) == (COUNT - 2, "body length"):
        store.close()
        return  # which queue ends with it cannot be told: its number is given again
    fill(store, COUNT, COUNT + 30)
    store.close()
    store = open_store(root)
    assert numbers(store) == [each for each in range(COUNT + 30) if each != number]
    store.close()


def test_bad_bits_in_several_messages_cost_these_only(memory_directory: Path) -> None:
    root = crashed(memory_directory, (10, "body"), (11, "size"), (30, "magic"), (40, "body length"))
    store = open_store(root)
    assert numbers(store) == [each for each in range(COUNT) if each not in {10, 11, 30, 40}]
    store.close()


def test_a_damaged_message_at_the_end_of_its_queue_keeps_its_number(memory_directory: Path) -> None:
    """A group may have consumed it: were its number given again, the group would pass the new message over."""
    root = crashed(memory_directory, (COUNT - 2, "body"))
    store = open_store(root)
    queue_id, offset = (COUNT - 2) % QUEUES, (COUNT - 2) // QUEUES
    assert store.reader.max_offset("T", queue_id) == offset + 1
    assert store.get("T", queue_id, offset, 1).next_offset == offset + 1
    store.close()


def test_a_bad_bit_in_a_body_of_zeros_costs_that_message_only(memory_directory: Path) -> None:
    store = open_store(memory_directory / "a")
    for content in (b"first", bytes(2_000), b"last"):
        store.put(message(content))
    copy = copy_as_after_a_kill(store, memory_directory / "b")
    flip(copy, read_queue(store)[1].log_offset + 200)
    store.close()
    again = open_store(copy)
    assert bodies(again) == [b"first", b"last"]
    again.close()


def test_a_damaged_last_message_of_a_file_does_not_hide_the_next_file(memory_directory: Path) -> None:
    store = open_store(memory_directory / "a")
    fill(store, 0, COUNT)
    last = max(number for number, at in places(store).items() if at < SEGMENT_BYTES)
    copy = copy_as_after_a_kill(store, memory_directory / "b")
    flip(copy, places(store)[last] + FIELDS["body"])
    store.close()
    again = open_store(copy)
    assert numbers(again) == [each for each in range(COUNT) if each != last]
    again.close()


@pytest.mark.parametrize("number", [5, 20, 30, 57])
@pytest.mark.parametrize(("byte", "bit"), [(15, 0), (15, 1), (26, 0), (27, 0), (27, 3), (39, 2), (39, 4), (189, 0)])
def test_a_bad_bit_in_a_head_takes_one_other_message_out_of_its_queue_at_most(
    memory_directory: Path, number: int, byte: int, bit: int
) -> None:
    """Queue id, queue offset, system flag, topic: no CRC covers them, so the record seems to be another message. Where
    two claim the same number, and it is the last one of the queue, the second has it: which is right cannot be told."""
    store = open_store(memory_directory / "a")
    fill(store, 0, COUNT)
    copy = copy_as_after_a_kill(store, memory_directory / "b")
    flip(copy, places(store)[number] + byte, bit)
    store.close()
    again = open_store(copy)
    found = {bytes(record.body) for queue_id in range(QUEUES) for record in read_queue(again, queue_id=queue_id)}
    assert len({body(each) for each in range(COUNT) if each != number} - found) <= 1
    again.close()


@pytest.mark.parametrize("seed", range(30))
def test_any_bad_bit_costs_one_message_at_most_and_shows_no_wrong_body(memory_directory: Path, seed: int) -> None:
    dice = random.Random(seed)
    store = open_store(memory_directory / "a")
    fill(store, 0, COUNT)
    at = places(store)
    number = dice.randrange(COUNT - 1)
    copy = copy_as_after_a_kill(store, memory_directory / "b")
    flip(copy, at[number] + dice.randrange(88 + 100), dice.randrange(8))
    store.close()
    again = open_store(copy)
    found = [bytes(record.body) for queue_id in range(QUEUES) for record in read_queue(again, queue_id=queue_id)]
    assert set(found) <= {body(each) for each in range(COUNT)}
    assert set(found) >= {body(each) for each in range(COUNT) if each != number}
    again.close()


def test_a_torn_tail_still_ends_the_log(memory_directory: Path) -> None:
    """Whole pages are missing: what lies behind them was never promised, and the log keeps its order."""
    store = open_store(memory_directory / "a")
    fill(store, 0, COUNT)
    at = places(store)
    copy = copy_as_after_a_kill(store, memory_directory / "b")
    store.close()
    path = copy / "commitlog" / f"{SEGMENT_BYTES:020d}"
    data = path.read_bytes()
    path.write_bytes(data[:1024] + bytes(1024) + data[2048:])
    again = open_store(copy)
    kept = numbers(again)
    assert kept == list(range(len(kept)))
    assert at[len(kept)] < SEGMENT_BYTES + 2048
    assert not again.recovery.damages
    again.close()


def test_a_batch_that_was_copied_without_its_first_bytes_ends_the_log(memory_directory: Path) -> None:
    """A process was killed in memcpy, which may write the first bytes last: whole records of that batch follow."""
    store = open_store(memory_directory / "a")
    fill(store, 0, 10)
    (first, *_) = store.put_batch([message(body(number)) for number in range(4)]).appended
    copy = copy_as_after_a_kill(store, memory_directory / "b")
    store.close()
    path = copy / "commitlog" / f"{0:020d}"
    data = path.read_bytes()
    path.write_bytes(data[: first.log_offset] + bytes(32) + data[first.log_offset + 32 :])
    again = open_store(copy)
    assert numbers(again) == list(range(10))
    assert again.max_log_offset == first.log_offset
    again.close()
