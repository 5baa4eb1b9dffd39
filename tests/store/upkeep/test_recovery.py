"""Opening a store after a clean stop, after a crash, and with damaged files."""

import logging
import random
import shutil
import struct
from pathlib import Path

import pytest

from hanabi.errors import StoreDamaged
from hanabi.store.indexer import Dispatched, Hooks
from hanabi.store.log.walk import LogWalk
from hanabi.store.message_store import MessageStore
from hanabi.store.upkeep.recovery import Parts, recover
from hanabi.testing.clock import START_MS, ManualClock
from hanabi.wire.message.properties import decode_properties
from tests.store.stores import SEGMENT_BYTES, bodies, copy_as_after_a_kill, message, open_store, read_queue

PAGE = 512  # smaller than a real page, so that a few messages spread over several


def fill(store: MessageStore, count: int, *, start: int = 0, clock: ManualClock | None = None, size: int = 100) -> None:
    """Put messages over three queues, each with a key of its own and one of its hundred."""
    for number in range(start, start + count):
        if clock is not None:
            clock.ms += 10
        keys = f"k{number} h{number // 100}"
        assert store.put(message(b"%0*d" % (size, number), queue_id=number % 3, properties={"KEYS": keys})).appended


def numbers(store: MessageStore) -> list[int]:
    """Return the numbers of all messages that can be read, and a check that they are in the right places."""
    found: list[int] = []
    for queue_id in range(3):
        for record in read_queue(store, queue_id=queue_id):
            number = int(record.body)
            assert (number % 3, number // 3) == (queue_id, record.queue_offset)
            found.append(number)
    return sorted(found)


def found_by_key(store: MessageStore, number: int) -> bool:
    records = store.queries.by_key("T", f"k{number}", 8, 0, 2**62).records
    return len(records) == 1


def edit(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def flip(path: Path, position: int, bit: int = 0) -> None:
    edit(path, position, bytes([path.read_bytes()[position] ^ 1 << bit]))


def log_file(root: Path, log_offset: int) -> tuple[Path, int]:
    base = log_offset - log_offset % SEGMENT_BYTES
    return root / "commitlog" / f"{base:020d}", log_offset - base


# Crash


def test_what_the_queues_had_only_in_memory_is_built_again(memory_directory: Path) -> None:
    store = open_store(memory_directory / "a")
    fill(store, 100)
    copy = copy_as_after_a_kill(store, memory_directory / "b")
    assert not (copy / "consumequeue").exists()
    told: list[Dispatched] = []
    again = open_store(copy, hooks=Hooks(on_append=told.append))
    assert numbers(again) == list(range(100))
    assert all(found_by_key(again, number) for number in range(100))
    assert told == []  # nobody is told of old messages
    again.close()
    store.close()


def test_numbers_go_on_after_a_crash(memory_directory: Path) -> None:
    store = open_store(memory_directory / "a")
    fill(store, 50)
    again = open_store(copy_as_after_a_kill(store, memory_directory / "b"))
    fill(again, 50, start=50)
    assert numbers(again) == list(range(100))
    again.close()
    store.close()


def test_a_write_torn_at_any_byte_loses_that_message_and_nothing_else(memory_directory: Path) -> None:
    store = open_store(memory_directory / "a")
    fill(store, 20, size=20)
    store.flush()
    copy = copy_as_after_a_kill(store, memory_directory / "b")
    last = store.queries.record(store._queues.max_log_offset - read_queue(store, queue_id=1)[-1].size)
    assert last is not None
    raw = bytes(last)
    start = store.max_log_offset - len(raw)
    store.close()
    path, position = log_file(copy, start)
    whole = path.read_bytes()
    for torn_at in range(len(raw)):
        if not any(raw[torn_at:]):
            continue  # the zeros at its end are as they should be
        root = shutil.copytree(copy, memory_directory / "torn")
        edit(root / "commitlog" / path.name, 0, whole[: position + torn_at] + bytes(len(raw) - torn_at))
        again = open_store(root)
        assert (again.max_log_offset, numbers(again)) == (start, list(range(19)))
        assert not found_by_key(again, 19)
        fill(again, 1, start=19, size=20)
        assert numbers(again) == list(range(20))
        assert found_by_key(again, 19)
        again.close()
        shutil.rmtree(root)


def test_properties_that_end_with_a_zero_are_not_taken_for_a_torn_write(memory_directory: Path) -> None:
    store = open_store(memory_directory / "a")
    store.put(message(b"zero", properties={"name": "value\0"}))
    store.put(message(b"next"))
    again = open_store(copy_as_after_a_kill(store, memory_directory / "b"))
    assert bodies(again) == [b"zero", b"next"]
    assert decode_properties(read_queue(again)[0].properties) == {"name": "value\0"}
    again.close()
    store.close()


def test_old_records_behind_a_torn_one_do_not_come_back(memory_directory: Path) -> None:
    store = open_store(memory_directory / "a")
    fill(store, 20)
    place = read_queue(store, queue_id=1)[3]
    copy = copy_as_after_a_kill(store, memory_directory / "b")
    path, position = log_file(copy, place.log_offset)
    edit(path, position, bytes(512))  # a page is missing; whole records follow, and no checkpoint vouches for them
    again = open_store(copy)
    assert numbers(again) == list(range(10))
    fill(again, 1, start=10)
    assert numbers(again) == list(range(11))
    again.close()
    again = open_store(copy)
    assert numbers(again) == list(range(11))
    again.close()
    store.close()


@pytest.mark.parametrize("left", range(4, 8))
def test_a_record_whose_first_bytes_ended_a_lost_sector_is_the_end_of_the_log(
    memory_directory: Path, left: int
) -> None:
    store = open_store(memory_directory / "a")
    store.put(message(b"first"))
    around = store.max_log_offset - len(b"first")
    store.put(message(bytes(2 * 512 - left - around - store.max_log_offset)))
    start = store.max_log_offset
    assert start % 512 == 512 - left
    for body in (b"torn", b"third", b"fourth"):
        store.put(message(body))
    copy = copy_as_after_a_kill(store, memory_directory / "b")
    store.close()
    path, position = log_file(copy, start)
    edit(path, position, bytes(left))  # the sector is as it was at the last sync, before this record
    again = open_store(copy)
    assert (again.max_log_offset, again.recovery.damages) == (start, [])
    assert len(bodies(again)) == 2
    again.close()


def test_a_file_prepared_ahead_is_not_taken_for_messages(memory_directory: Path) -> None:
    store = open_store(memory_directory / "a")
    fill(store, 12)
    store._log.prepare_next()
    copy = copy_as_after_a_kill(store, memory_directory / "b")
    assert len(list((copy / "commitlog").iterdir())) == 2
    again = open_store(copy)
    assert again.max_log_offset == store.max_log_offset
    assert numbers(again) == list(range(12))
    again.close()
    store.close()


def test_recovery_looks_only_at_what_came_after_the_checkpoint(memory_directory: Path) -> None:
    clock = ManualClock()
    store = open_store(memory_directory / "a", clock=clock, commit_log_segment_bytes=1 << 20)
    fill(store, 1000, clock=clock)  # ten seconds
    store.flush()
    fill(store, 50, start=1000, clock=clock)
    copy = copy_as_after_a_kill(store, memory_directory / "b")
    store.close()
    again = open_store(copy, clock=clock, commit_log_segment_bytes=1 << 20)
    assert 350 <= again.recovery.records <= 360  # what came since, and three seconds for safety
    assert numbers(again) == list(range(1050))
    assert all(found_by_key(again, number) for number in range(0, 1050, 7))
    again.close()
    (copy / "abort").write_bytes(b"")  # an Apache broker crashed: the whole file, as it would
    again = open_store(copy, clock=clock, commit_log_segment_bytes=1 << 20)
    assert again.recovery.records == 1050
    again.close()


def test_after_a_clean_stop_only_the_last_message_is_looked_at(memory_directory: Path) -> None:
    store = open_store(memory_directory)
    fill(store, 200)
    store.close()
    store = open_store(memory_directory)
    assert store.recovery.records == 1
    assert numbers(store) == list(range(200))
    store.close()


@pytest.mark.parametrize("seed", range(40))
def test_pages_that_were_not_synced_may_be_missing_in_any_pattern(memory_directory: Path, seed: int) -> None:
    # A power cut: of what was written after the last sync, each page is on the disk or not, as it happens.
    dice = random.Random(seed)
    clock = ManualClock()
    store = open_store(memory_directory / "a", clock=clock)
    count = dice.randrange(1, 150)
    fill(store, count, clock=clock, size=dice.randrange(10, 300))
    if dice.random() < 0.5:
        store.flush()
        clock.ms += dice.choice((0, 5_000))
        fill(store, dice.randrange(20), start=count, clock=clock, size=dice.randrange(10, 300))
        count = sum(1 for _ in numbers(store))
    store.flush(log_only=True)
    synced = copy_as_after_a_kill(store, memory_directory / "synced")
    fill(store, dice.randrange(1, 60), start=count, clock=clock, size=dice.randrange(10, 300))
    if dice.random() < 0.5:
        store._queues.flush()  # into the files, but not to the disk
    written = copy_as_after_a_kill(store, memory_directory / "written")
    total = len(numbers(store))
    store.close()
    lose_pages(synced, written, dice)

    again = open_store(written, clock=clock)
    left = numbers(again)
    assert left == list(range(len(left)))
    assert count <= len(left) <= total
    assert all(found_by_key(again, number) for number in range(len(left)))
    fill(again, 10, start=len(left))
    assert numbers(again) == list(range(len(left) + 10))
    again.close()


def lose_pages(synced: Path, written: Path, dice: random.Random) -> None:
    whole = ("abort", "lock", "consumequeue.ends")  # synced before they are there under their names
    for path in sorted(path for path in written.rglob("*") if path.is_file() and path.name not in whole):
        before = synced / path.relative_to(written)
        new = bytearray(path.read_bytes())
        old = before.read_bytes() if before.exists() else b""
        old = old.ljust(len(new), b"\0")
        for start in range(0, len(new), PAGE):
            if dice.random() < 0.5:
                new[start : start + PAGE] = old[start : start + PAGE]
        path.write_bytes(new)


def opening_line(directory: Path, caplog: pytest.LogCaptureFixture) -> str:
    caplog.clear()
    with caplog.at_level(logging.INFO, "hanabi.store.upkeep.recovery"):
        open_store(directory).close()
    (line,) = (record.message for record in caplog.records if record.name == "hanabi.store.upkeep.recovery")
    return line


def test_a_start_with_nothing_wrong_is_told_without_alarm(
    memory_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    line = opening_line(memory_directory, caplog)
    assert line == f"empty store: there are no messages in {memory_directory / 'commitlog'} yet"
    with open_store(memory_directory) as store:
        fill(store, 3)
        end = store.max_log_offset
    assert opening_line(memory_directory, caplog).startswith(
        f"recovered after a clean stop: log 0..{end}, looked at 1 "
    )
    assert "the end" not in opening_line(memory_directory, caplog)


def test_what_lies_behind_the_last_message_is_told(memory_directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_store(memory_directory) as store:
        fill(store, 3)
        end = store.max_log_offset
    edit(memory_directory / "commitlog" / f"{0:020d}", end, b"rubbish!")
    assert f"; the end: {memory_directory}" in opening_line(memory_directory, caplog)


def test_progress_is_told_every_few_seconds(memory_directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = open_store(memory_directory, commit_log_segment_bytes=1 << 21)
    fill(store, 9_000, size=4)
    ticks = iter(range(0, 1000, 2))
    parts = Parts(store._commit_log, store._queues, store._index, store._indexer, store._checkpoint)
    for queue in list(store._queues):
        store._queues.delete_queue(queue.topic, queue.queue_id)
    with caplog.at_level(logging.INFO):
        recover(parts, store.config, crashed=True, clock=lambda: float(next(ticks)))
    assert any("recovery is at log offset" in record.message for record in caplog.records)
    store.close()


# Damage


def damaged(root: Path, *, crash: bool) -> Path:
    """Return a store of some files, stopped cleanly or killed."""
    clock = ManualClock()
    store = open_store(root / "a", clock=clock)
    fill(store, 120, clock=clock)
    store.flush()
    target = copy_as_after_a_kill(store, root / "b")
    store.close()
    return target if crash else root / "a"


@pytest.mark.parametrize("crash", [False, True])
def test_a_wrong_crc_in_an_old_file_costs_that_message_only(
    memory_directory: Path, crash: bool, caplog: pytest.LogCaptureFixture
) -> None:
    root = damaged(memory_directory, crash=crash)
    log = b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir()))
    where = log.index(b"%0100d" % 40)
    flip(*log_file(root, where))
    store = open_store(root)
    with caplog.at_level(logging.ERROR):
        assert numbers(store) == [number for number in range(120) if number != 40]
    assert "is skipped" in caplog.text or store.recovery.damages
    fill(store, 30, start=120)
    assert numbers(store) == [number for number in range(150) if number != 40]
    store.close()


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("field", ["size", "magic", "log offset", "sizes of parts"])
def test_a_broken_head_in_an_old_file_costs_that_message_only(memory_directory: Path, crash: bool, field: str) -> None:
    root = damaged(memory_directory, crash=crash)
    log = b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir()))
    body = log.index(b"%0100d" % 40)
    record = body - 88
    flip(*log_file(root, record + {"size": 2, "magic": 5, "log offset": 33, "sizes of parts": 86}[field]))
    store = open_store(root)
    assert numbers(store) == [number for number in range(120) if number != 40]
    store.close()


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_a_bad_bit_in_a_queue_file_hides_one_message_at_most_and_shows_no_wrong_one(
    memory_directory: Path, crash: bool, seed: int
) -> None:
    root = damaged(memory_directory, crash=crash)
    dice = random.Random(seed)
    paths = sorted(path for path in (root / "consumequeue").rglob("*") if path.is_file())
    for path in dice.sample(paths, 2):
        used = len(path.read_bytes().rstrip(b"\0"))
        flip(path, dice.randrange(used), dice.randrange(8))
    store = open_store(root)
    assert len(numbers(store)) >= 118
    assert all(store.reader.max_offset("T", queue_id) == 40 for queue_id in range(3))
    fill(store, 30, start=120)
    assert numbers(store)[-30:] == list(range(120, 150))
    store.close()


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("what", ["all queues", "a queue", "oldest file", "middle file", "last file", "short", "zeros"])
def test_queue_files_that_are_gone_or_cut_are_built_again(memory_directory: Path, crash: bool, what: str) -> None:
    root = damaged(memory_directory, crash=crash)
    queue = root / "consumequeue" / "T" / "1"
    names = sorted(queue.iterdir())
    if what == "all queues":
        shutil.rmtree(root / "consumequeue")
    elif what == "a queue":
        shutil.rmtree(queue)
    elif what == "short":
        names[-1].write_bytes(names[-1].read_bytes()[:50])
    elif what == "zeros":
        names[-2].write_bytes(bytes(200))
    else:
        names[{"oldest file": 0, "middle file": 1, "last file": -1}[what]].unlink()
    store = open_store(root)
    left = numbers(store)
    if what == "oldest file" or (what in ("a queue", "last file", "zeros") and not crash):
        # Nobody can tell that it ever existed. What is there is right and in its place.
        assert len(left) >= 80
    else:
        assert left == list(range(120))
    store.close()


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_bad_bits_in_index_and_checkpoint_show_no_wrong_message_and_lose_none(
    memory_directory: Path, crash: bool, seed: int
) -> None:
    root = damaged(memory_directory, crash=crash)
    dice = random.Random(seed)
    for path in [*sorted((root / "index").iterdir()), root / "checkpoint"]:
        used = len(path.read_bytes().rstrip(b"\0"))
        flip(path, dice.randrange(used), dice.randrange(8))
    store = open_store(root, clock=ManualClock(START_MS + 10**7))
    assert numbers(store) == list(range(120))
    for number in range(120):
        for record in store.queries.by_key("T", f"k{number}", 8, 0, 2**62).records:
            assert b"%0100d" % number in bytes(record)
    fill(store, 10, start=120)
    assert numbers(store) == list(range(130))
    assert all(found_by_key(store, number) for number in range(120, 130))
    store.close()


@pytest.mark.parametrize("content", [b"", b"x" * 100, bytes(4096), b"\xff" * 4096])
@pytest.mark.parametrize("crash", [False, True])
def test_a_useless_checkpoint_only_makes_recovery_look_further_back(
    memory_directory: Path, crash: bool, content: bytes
) -> None:
    root = damaged(memory_directory, crash=crash)
    (root / "checkpoint").write_bytes(content)
    store = open_store(root, clock=ManualClock(START_MS + 10**7))
    assert numbers(store) == list(range(120))
    assert all(found_by_key(store, number) for number in range(120))
    store.close()


def test_an_empty_queue_file_before_a_hole_can_be_written_again(memory_directory: Path) -> None:
    clock = ManualClock()
    store = open_store(memory_directory / "a", clock=clock)
    fill(store, 120, clock=clock)
    clock.ms += 60_000
    fill(store, 30, start=120, clock=clock)
    store.flush()
    root = copy_as_after_a_kill(store, memory_directory / "b")
    store.close()
    names = sorted((root / "consumequeue" / "T" / "1").iterdir())
    names[1].write_bytes(b"")  # made, and killed before it had its size
    names[2].unlink()
    for _ in range(2):
        again = open_store(root, clock=clock)
        assert numbers(again) == list(range(150))
        again.close()


def test_messages_behind_a_hole_in_a_queue_are_found_by_key(memory_directory: Path) -> None:
    clock = ManualClock()
    store = open_store(memory_directory / "a", clock=clock)
    fill(store, 120, clock=clock)
    clock.ms += 60_000
    fill(store, 30, start=120, clock=clock)
    store.flush()
    fill(store, 30, start=150, clock=clock)
    root = copy_as_after_a_kill(store, memory_directory / "b")
    store.close()
    (root / "consumequeue.ends").unlink()  # Apache's broker was here, say
    for path in sorted((root / "consumequeue" / "T" / "1").iterdir())[1:]:
        path.unlink()
    again = open_store(root, clock=clock)
    assert numbers(again) == list(range(180))
    assert [number for number in range(180) if not found_by_key(again, number)] == []
    again.close()


def test_a_log_that_is_gone_is_an_error_and_the_queues_stay(memory_directory: Path) -> None:
    root = damaged(memory_directory, crash=False)
    shutil.rmtree(root / "commitlog")
    with pytest.raises(StoreDamaged, match="put the files back, or delete consumequeue"):
        open_store(root)
    assert len(list((root / "consumequeue" / "T" / "0").iterdir())) == 4


def test_a_queue_number_that_cannot_be_is_reported_and_fills_no_disk(
    memory_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(memory_directory / "a")
    fill(store, 30)
    place = read_queue(store, queue_id=1)[-1]
    copy = copy_as_after_a_kill(store, memory_directory / "b")
    path, position = log_file(copy, place.log_offset)
    edit(path, position + 20, struct.pack(">q", 1 << 40))
    again = open_store(copy)
    assert "in no queue" in caplog.text
    assert numbers(again) == [number for number in range(30) if number != 28]
    again.close()
    store.close()


def test_an_empty_store_opens_after_a_crash(memory_directory: Path) -> None:
    store = open_store(memory_directory / "a")
    again = open_store(copy_as_after_a_kill(store, memory_directory / "b"))
    assert again.max_log_offset == 0
    fill(again, 1)
    assert numbers(again) == [0]
    again.close()
    store.close()


def test_a_log_that_ends_exactly_with_a_file_goes_on_in_the_next(memory_directory: Path) -> None:
    store = open_store(memory_directory / "a")
    fill(store, 24)  # the next one rolls
    store._log.roll(b"\0\0\0\x08\xcb\xd4\x31\x94")
    copy = copy_as_after_a_kill(store, memory_directory / "b")
    for path in sorted((copy / "commitlog").iterdir())[1:]:
        if not any(path.read_bytes()):
            path.unlink()
    again = open_store(copy)
    assert again.max_log_offset % SEGMENT_BYTES == 0
    fill(again, 10, start=24)
    assert numbers(again) == list(range(34))
    again.close()
    store.close()


def test_a_walk_over_a_log_tells_where_and_why_it_ends(memory_directory: Path) -> None:
    store = open_store(memory_directory)
    fill(store, 3)
    walk = LogWalk(store._log, 0, check_crc=True, flushed_before_ms=0)
    assert [record.log_offset for record in walk] == [
        read_queue(store, queue_id=queue_id)[0].log_offset for queue_id in range(3)
    ]
    assert (walk.start, walk.end, walk.damages) == (0, store.max_log_offset, [])
    store.close()


def test_bodies_of_all_queues_survive_many_crashes_in_a_row(memory_directory: Path) -> None:
    root = memory_directory / "0"
    store = open_store(root)
    for crash in range(1, 8):
        fill(store, 10, start=(crash - 1) * 10)
        root = copy_as_after_a_kill(store, memory_directory / str(crash))
        store.close()
        store = open_store(root)
        assert numbers(store) == list(range(crash * 10))
    assert len(bodies(store)) == 24
    store.close()
