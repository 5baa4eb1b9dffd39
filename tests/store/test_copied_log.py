"""Tests of what a slave stores of its master's log, and what it refuses."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from hanabi.errors import LogDiverged, StoreError, StoreFull
from hanabi.store.indexer import Dispatched, Hooks
from hanabi.store.message_store import MessageStore
from hanabi.wire.message.record import encode_record
from tests.store.stores import HOST, SEGMENT_BYTES, bodies, copy_as_after_a_kill, message, open_store, read_queue


def filled(root: Path, count: int, **settings: Any) -> MessageStore:
    store = open_store(root, **settings)
    put(store, 0, count)
    return store


def put(store: MessageStore, first: int, count: int) -> None:
    for number in range(first, first + count):
        store.put(message(b"%0300d" % number, queue_id=number % 2, properties={"KEYS": f"k{number}"}))


def log_of(store: MessageStore, start: int = 0, end: int | None = None) -> bytes:
    """Return the bytes of a log."""
    data, place, end = b"", start, store.max_log_offset if end is None else end
    while place < end:
        piece = store.read_log(place)
        assert piece is not None
        data += piece[: end - place]
        place = start + len(data)
    return data


def test_another_log_is_refused_and_the_right_one_goes_on(memory_directory: Path) -> None:
    master = filled(memory_directory / "master", 20)
    slave = open_store(memory_directory / "slave")
    slave.append_copy(0, log_of(master, 0, 3_000))
    for garbage in (b"x" * 500, log_of(master, 3_001), log_of(master, 0)):
        before = bodies(slave)
        # What is left of the record that has begun may be anything; the head behind it may not.
        with pytest.raises(LogDiverged, match="no message begins at"):
            slave.append_copy(3_000, garbage)
        assert (slave.max_log_offset, bodies(slave)) == (3_000, before)
    slave.append_copy(3_000, log_of(master, 3_000))
    assert read_queue(slave) == read_queue(master)
    master.close()
    slave.close()


def test_a_slave_that_was_ahead_of_a_master_with_a_lost_tail_takes_nothing_of_its_new_messages(
    memory_directory: Path,
) -> None:
    master = filled(memory_directory / "master", 10)
    lost = filled(memory_directory / "lost", 8)  # the same log without its last two messages
    assert log_of(master, 0, lost.max_log_offset) == log_of(lost)
    slave = open_store(memory_directory / "slave")
    slave.append_copy(0, log_of(master))
    lost.put(message(b"something else" * 50, queue_id=1))
    put(lost, 20, 10)
    with pytest.raises(LogDiverged, match=f"no message begins at {slave.max_log_offset} "):
        slave.append_copy(slave.max_log_offset, log_of(lost, slave.max_log_offset))
    assert log_of(slave) == log_of(master)
    for store in (master, lost, slave):
        store.close()


def test_a_record_inside_a_body_is_no_message_while_its_own_is_on_its_way(memory_directory: Path) -> None:
    told: list[Dispatched] = []
    master = filled(memory_directory / "master", 1)
    start = master.max_log_offset
    inner = start + len(log_of(master)) - 300 - len(b"KEYS\x01k0") - 20  # about where its body will begin
    forged: bytes | bytearray = b""
    for guess in range(inner - 200, inner + 200):  # a forger does not know the place, and tries
        body = encode_record(
            topic=b"T", body=b"forged", queue_id=0, born_timestamp_ms=1, born_host=HOST, store_host=HOST,
            store_timestamp_ms=2**40, queue_offset=1, log_offset=guess,
        )  # fmt: skip
        probe = open_store(memory_directory / f"probe{guess}")
        probe.append_copy(0, log_of(master))
        place = probe.put(message(bytes(body), queue_id=1)).appended[0].log_offset
        is_right = log_of(probe, place).find(bytes(body)) + place == guess
        probe.close()
        if is_right:
            forged = body
            break
    assert forged
    master.put(message(bytes(forged) + bytes(1_000), queue_id=1))
    slave = open_store(memory_directory / "slave", hooks=Hooks(on_append=told.append))
    cut = start + len(forged) + 100
    slave.append_copy(0, log_of(master, 0, cut))
    assert [dispatched.log_offset for dispatched in told] == [0]
    slave.append_copy(cut, log_of(master, cut))
    assert [dispatched.log_offset for dispatched in told] == [0, start]
    master.close()
    slave.close()


@pytest.mark.parametrize("cut", [1, 35, 36, 37, 500, SEGMENT_BYTES - 1, SEGMENT_BYTES + 5, 6_000])
def test_a_killed_slave_goes_on_behind_its_last_whole_message(memory_directory: Path, cut: int) -> None:
    master = filled(memory_directory / "master", 30)
    slave = open_store(memory_directory / "slave")
    slave.append_copy(0, log_of(master, 0, cut))
    copy = copy_as_after_a_kill(slave, memory_directory / "killed")
    slave.close()
    again = open_store(copy)
    assert log_of(again) == log_of(master, 0, again.max_log_offset)
    again.append_copy(again.max_log_offset, log_of(master, again.max_log_offset))
    assert log_of(again) == log_of(master)
    for queue_id in (0, 1):
        assert read_queue(again, queue_id=queue_id) == read_queue(master, queue_id=queue_id)
    master.close()
    again.close()


def test_a_full_disk_stops_the_copy_and_room_lets_it_go_on(small_disk: Path, tmp_path: Path) -> None:
    files: dict[str, Any] = {"commit_log_segment_bytes": 16_384, "index_enabled": False}
    master = filled(tmp_path / "master", 200, **files)
    slave = open_store(small_disk / "slave", **files)
    piece_bytes = 5_000

    def copy_on() -> None:
        while slave.max_log_offset < master.max_log_offset:
            place = slave.max_log_offset
            slave.append_copy(place, log_of(master, place, min(place + piece_bytes, master.max_log_offset)))

    with pytest.raises(StoreFull):
        copy_on()
    stopped = slave.max_log_offset
    assert 0 < stopped < master.max_log_offset
    with pytest.raises(StoreFull):
        copy_on()
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    copy_on()
    assert log_of(slave) == log_of(master)
    assert read_queue(slave) == read_queue(master)
    master.close()
    slave.close()


def test_what_cannot_be_dispatched_is_tried_again_with_the_next_heartbeat(memory_directory: Path) -> None:
    told: list[int] = []

    def listen(dispatched: Dispatched) -> None:
        told.append(dispatched.log_offset)
        if len(told) == 3:
            raise StoreError("the third message is not taken at once")

    master = filled(memory_directory / "master", 6)
    slave = open_store(memory_directory / "slave", hooks=Hooks(on_append=listen))
    with pytest.raises(StoreError, match="not taken at once"):
        slave.append_copy(0, log_of(master))
    assert slave.max_log_offset == master.max_log_offset
    slave.append_copy(slave.max_log_offset, b"")
    assert told == [*told[:3], told[2], *told[4:]]
    assert len(set(told)) == 6
    for queue_id in (0, 1):
        assert read_queue(slave, queue_id=queue_id) == read_queue(master, queue_id=queue_id)
    slave.close()
    master.close()


def test_a_heartbeat_starts_no_log(memory_directory: Path) -> None:
    slave = open_store(memory_directory / "slave")
    slave.append_copy(3 * SEGMENT_BYTES, b"")
    assert (slave.min_log_offset, slave.max_log_offset) == (0, 0)
    slave.close()


@pytest.mark.parametrize(
    "damage",
    [{"queue_id": -1}, {"queue_offset": -1}, {"queue_offset": 2**40}, {"topic": b""}, {"topic": b"a/b"}],
    ids=["queue id", "negative offset", "offset far ahead", "no topic", "a topic that is no name"],
)
def test_a_record_with_a_damaged_head_does_not_stop_the_copy(
    memory_directory: Path, damage: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    log = b""
    for number, changes in enumerate(({}, damage, {"queue_offset": 1})):
        plain: dict[str, Any] = {"topic": b"T", "queue_id": 0, "queue_offset": 0, "born_host": HOST, "store_host": HOST}
        fields = plain | {"born_timestamp_ms": 1, "store_timestamp_ms": 2} | changes
        log += encode_record(body=b"%d" % number, log_offset=len(log), **fields)
    slave = open_store(memory_directory / "slave")
    slave.append_copy(0, log)
    assert bodies(slave) == [b"0", b"2"]
    assert "of the master's log is damaged, no queue gets it" in caplog.text
    slave.close()
