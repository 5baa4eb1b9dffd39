"""A bad bit in a message that no checkpoint vouches for, and a crash: that message is lost, and no other one."""

import logging
import random
from pathlib import Path

import pytest

from hanabi.store.config import FlushMode
from hanabi.store.message_store import MessageStore
from hanabi.testing.clock import ManualClock
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
    """Return where in the log each message lies."""
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
    """Return a store that was killed, with a bad bit in a field of each of these messages."""
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
    # A group may have consumed it: were its number given again, the group would pass the new message over.
    root = crashed(memory_directory, (COUNT - 2, "body"))
    store = open_store(root)
    queue_id, offset = (COUNT - 2) % QUEUES, (COUNT - 2) // QUEUES
    assert store.reader.max_offset("T", queue_id) == offset + 1
    assert store.get("T", queue_id, offset, 1).next_offset == offset + 1
    store.close()


@pytest.mark.parametrize("mode", FlushMode)
def test_what_follows_zeros_in_a_damaged_message_is_kept_where_it_may_have_been_promised(
    memory_directory: Path, mode: FlushMode
) -> None:
    # With SYNC_FLUSH the last message may be acknowledged. With ASYNC_FLUSH the zeros may be a page that a power cut
    # has taken, and what such a cut leaves has no gap.
    store = open_store(memory_directory / "a", flush_mode=mode)
    for content in (b"first", bytes(2_000), b"last"):
        store.put(message(content))
    copy = copy_as_after_a_kill(store, memory_directory / "b")
    flip(copy, read_queue(store)[1].log_offset + 200)
    store.close()
    again = open_store(copy, flush_mode=mode)
    assert bodies(again) == ([b"first", b"last"] if mode is FlushMode.SYNC_FLUSH else [b"first"])
    again.close()


def test_zeros_in_a_message_that_the_checkpoint_vouches_for_are_damage(memory_directory: Path) -> None:
    # It was flushed, so no power cut has taken it: it is lost, and what follows is kept.
    clock = ManualClock()
    store = open_store(memory_directory / "a", clock=clock)
    store.put(message(b"first"))
    (place,) = store.put(message(b"x" * 2_000)).appended
    store.put(message(b"flushed"))
    clock.ms += 10_000
    store.put(message(b"newer"))
    store.flush()
    store.put(message(b"last"))
    copy = copy_as_after_a_kill(store, memory_directory / "b")
    store.close()
    path = copy / "commitlog" / f"{0:020d}"
    data = path.read_bytes()
    hole = place.log_offset + -place.log_offset % 512 + 512
    path.write_bytes(data[:hole] + bytes(512) + data[hole + 512 :])
    again = open_store(copy, clock=clock)
    assert bodies(again) == [b"first", b"flushed", b"newer", b"last"]
    again.close()


@pytest.mark.parametrize("mode", FlushMode)
def test_a_page_that_a_power_cut_took_from_a_message_leaves_no_gap_with_async_flush(
    memory_directory: Path, mode: FlushMode
) -> None:
    store = open_store(memory_directory / "a", flush_mode=mode, commit_log_segment_bytes=1 << 16)
    places = [store.put(message(b"%0*d" % (2_000, number))).appended[0].log_offset for number in range(6)]
    copy = copy_as_after_a_kill(store, memory_directory / "b")
    store.close()
    path = copy / "commitlog" / f"{0:020d}"
    data = path.read_bytes()
    hole = places[2] + -places[2] % 512 + 512
    path.write_bytes(data[:hole] + bytes(1024) + data[hole + 1024 :])
    again = open_store(copy, flush_mode=mode, commit_log_segment_bytes=1 << 16)
    kept = [int(each) for each in bodies(again)]
    assert kept == ([0, 1] if mode is FlushMode.ASYNC_FLUSH else [0, 1, 3, 4, 5])
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
    # A process was killed in memcpy, which may write the first bytes last: whole records of that batch follow.
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
