"""The end of a slave's log is compared with its master's, however the master cuts it, before anything is appended."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.replication.overlap import Overlap
from hanabi.replication.rules.verdicts import Refusal, RefusalKind
from hanabi.replication.wire import Piece, encode_header, encode_report
from tests.replication.logs import FILE_BYTES, MemoryLog, running_master, running_slave, until
from tests.replication.test_bad_peers import scripted_master

DATA = random.Random(1).randbytes(3 * FILE_BYTES)


def log_of(size: int, compared_bytes: int = 500) -> MemoryLog:
    log = MemoryLog()
    log.append(DATA[:size])
    log.compared_bytes = compared_bytes
    return log


def pieces(start: int, *sizes: int) -> list[Piece]:
    """Return pieces of *sizes* of the master's log from *start* on."""
    found = []
    for size in sizes:
        found.append(Piece(start, memoryview(DATA)[start : start + size]))
        start += size
    return found


@given(st.lists(st.lists(st.integers(0, 400), max_size=5), max_size=12))
def test_pieces_of_any_size_are_compared_and_only_what_follows_is_left(reads: list[list[int]]) -> None:
    log = log_of(FILE_BYTES + 300)  # the compared bytes lie in two files
    overlap = Overlap(log)
    assert (overlap.start, overlap.is_over) == (log.end_offset - 500, False)
    at, left = overlap.start, b""
    for sizes in reads:
        some = [piece for piece in pieces(at, *sizes) if piece.data]  # without heartbeats
        at += sum(sizes)
        if overlap.is_over:
            break
        found = overlap.compare(some)
        assert not isinstance(found, Refusal)
        assert not found or found[0].offset == log.end_offset
        left += b"".join(bytes(piece.data) for piece in found)
        assert overlap.position == min(at, log.end_offset)
        assert left == DATA[log.end_offset : max(at, log.end_offset)]


@pytest.mark.parametrize("wrong_at", [0, 1, 250, 499])
def test_one_other_byte_is_another_log(wrong_at: int) -> None:
    log = log_of(2_000)
    log.data[1_500 + wrong_at] ^= 1
    found = Overlap(log).compare(pieces(1_500, 100, 300, 900))
    assert isinstance(found, Refusal)
    assert found.kind is RefusalKind.DIVERGED


def test_an_empty_log_has_nothing_to_compare_and_offset_0_is_never_asked_for() -> None:
    assert Overlap(MemoryLog()).is_over
    assert Overlap(log_of(10)).start == 1


def test_a_master_without_these_bytes_is_noticed_at_its_second_heartbeat() -> None:
    overlap = Overlap(log_of(2_000))
    heartbeat = Piece(1_500, memoryview(b""))
    assert overlap.compare([heartbeat]) == []
    found = overlap.compare([heartbeat])
    assert isinstance(found, Refusal)
    assert found.kind is RefusalKind.NOT_COMPARED
    slow = Overlap(log_of(2_000))
    assert slow.compare([heartbeat, *pieces(1_500, 10), Piece(1_510, memoryview(b""))]) == []


def test_a_heartbeat_of_another_place_is_refused_while_the_logs_are_compared() -> None:
    found = Overlap(log_of(2_000)).compare([Piece(2_000, memoryview(b""))])
    assert isinstance(found, Refusal)
    assert found.kind is RefusalKind.OTHER_OFFSET


async def test_a_master_that_ends_where_the_last_message_of_its_slave_begins_is_told_by_the_slave() -> None:
    ours, copy = log_of(1_500), log_of(2_000)
    async with running_master(ours) as (master, address), running_slave(copy, address) as slave:
        await until(lambda: slave.refusals[RefusalKind.NOT_COMPARED] >= 2)
        assert "it sends nothing from 1500 on, where the log here goes on to 2000" in slave.state().trouble
        assert master.acks.slaves == () or [each.acked for each in master.acks.slaves] in ([0], [1_500])
    assert copy.end_offset == 2_000


async def test_a_master_that_closes_before_the_logs_are_compared_is_refused_the_third_time() -> None:
    ours, copy = log_of(1_000), log_of(2_000)
    async with running_master(ours) as (master, address), running_slave(copy, address) as slave:
        await until(lambda: slave.refusals[RefusalKind.NOT_COMPARED] >= 2)
        assert "closes each connection before it has sent the last message" in slave.state().trouble
        assert master.refusals[RefusalKind.BEYOND_END] >= 4


async def test_nothing_is_acknowledged_that_was_not_compared() -> None:
    connections: list[bytes] = []
    copy = log_of(2_000)
    answer = encode_header(1_500, 100) + DATA[1_500:1_600]
    async with scripted_master(answer, connections) as address, running_slave(copy, address) as slave:
        await until(lambda: connections)
        assert connections[0] == encode_report(1_500)
        assert not slave.state().is_connected


async def test_a_log_that_ends_with_a_file_goes_on_though_the_master_has_deleted_that_file(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ours, copy = log_of(2 * FILE_BYTES + 50), log_of(FILE_BYTES)
    ours.delete_before(FILE_BYTES)
    async with running_master(ours) as (master, address), running_slave(copy, address):
        await until(lambda: copy.end_offset == ours.end_offset)
        assert master.refusals[RefusalKind.BELOW_START] == 3
    assert copy.data == DATA[: 2 * FILE_BYTES + 50]
    assert len([line for line in caplog.messages if "the logs are not compared" in line]) == 1


async def test_a_log_that_ends_with_a_file_is_compared_if_the_master_has_that_file() -> None:
    ours, copy = log_of(2 * FILE_BYTES), log_of(FILE_BYTES)
    copy.data[-1] ^= 1
    async with running_master(ours) as (_, address), running_slave(copy, address) as slave:
        await until(lambda: slave.refusals[RefusalKind.DIVERGED] >= 5)
    assert copy.end_offset == FILE_BYTES
