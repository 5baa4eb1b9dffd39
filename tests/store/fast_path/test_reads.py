"""A run of records is what looking at each of them by itself would find, or nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.store.fast_path.loading import record_run
from hanabi.store.queues.consume_queue import ENTRY
from hanabi.wire.message.record import encode_record, is_record, topic_field

RECORD_RUN = record_run()
pytestmark = pytest.mark.skipif(RECORD_RUN is None, reason="there is no fast path without compiled functions")

PlainRun = tuple[
    list[bytes | memoryview], int, int, int, int
]  # and how many, their bytes, the last one's place and time

BASE = 1 << 20
BYTES_MAX = 262_144
FIRST_OFFSET = 7
QUEUE_ID = 3
STORED_MS = 1_700_000_000_000
TOPIC = topic_field(b"Orders")
HOST, HOST_V6 = bytes(8), bytes(20)


class Log:
    """A log file with messages of one queue, others between them, and the entries of that queue."""

    def __init__(self, *body_bytes: int, born_host: bytes = HOST, apart: bool = True) -> None:
        records = bytearray()
        self.entries = bytearray()
        for number, size in enumerate(body_bytes):
            if apart:
                records += self._record(b"Others", 0, number, BASE + len(records), HOST)
            log_offset = BASE + len(records)
            record = self._record(b"Orders", size, FIRST_OFFSET + number, log_offset, born_host)
            self.entries += ENTRY.pack(log_offset, len(record), 0)
            records += record
        self.records = records

    def _record(self, topic: bytes, size: int, queue_offset: int, log_offset: int, born_host: bytes) -> bytearray:
        return encode_record(
            topic=topic,
            body=bytes(size),
            properties=b"TAGS\x01a",
            queue_id=QUEUE_ID,
            born_timestamp_ms=1,
            born_host=born_host,
            store_timestamp_ms=STORED_MS + queue_offset,
            store_host=HOST,
            queue_offset=queue_offset,
            log_offset=log_offset,
        )

    def run(self, *, below: int = 0, count_max: int = 32, bytes_max: int = BYTES_MAX) -> PlainRun | None:
        assert RECORD_RUN is not None
        found = RECORD_RUN()
        arguments = memoryview(self.records), BASE, b"other" + bytes(self.entries), 5, TOPIC
        if not found.find(*arguments, QUEUE_ID, FIRST_OFFSET, below, count_max, bytes_max):
            return None
        slices = found.slices()
        again = RECORD_RUN()
        assert again.find(*arguments, QUEUE_ID, FIRST_OFFSET, below, count_max, bytes_max)
        assert again.behind(b"head") == b"head" + b"".join(slices)
        return slices, found.count, found.total, found.last_log_offset, found.last_store_ms

    def wanted(self) -> list[bytes]:
        """Return the records of the queue, each looked at by itself; up to the first that is another one."""
        found: list[bytes] = []
        for number, (log_offset, size, _) in enumerate(ENTRY.iter_unpack(bytes(self.entries))):
            at = log_offset - BASE
            if not 0 <= at <= at + size <= len(self.records) or not is_record(
                bytes(self.records), at, size, TOPIC, QUEUE_ID, FIRST_OFFSET + number, log_offset, False
            ):
                break
            found.append(bytes(self.records[at : at + size]))
        return found


def _joined(run: PlainRun | None) -> tuple[object, ...] | None:
    return None if run is None else (b"".join(run[0]), *run[1:])


def test_a_run_of_short_records_is_taken_whole() -> None:
    log = Log(0, 10, 2_000, 3)
    last_log_offset, _, _ = ENTRY.unpack(log.entries[-ENTRY.size :])
    whole = b"".join(log.wanted())
    assert log.run() == ([whole], 4, len(whole), last_log_offset, STORED_MS + FIRST_OFFSET + 3)


def test_records_side_by_side_are_slices_of_the_log_itself() -> None:
    log = Log(5, 5, 5, 5, apart=False)
    taken = log.run()
    assert taken is not None
    (whole,) = taken[0]
    assert isinstance(whole, memoryview)
    assert whole == b"".join(log.wanted()) == log.records


def test_a_record_counts_only_where_its_entry_says_it_is() -> None:
    log = Log(5, 5, 5, apart=False)
    taken = log.run()
    assert taken is not None
    first, second, third = (log.entries[at : at + ENTRY.size] for at in range(0, 3 * ENTRY.size, ENTRY.size))
    for others in (second + first + third, first + third + second, first + first + third, second + third):
        log.entries = others
        assert log.run() is None


def test_no_more_than_so_many_are_taken() -> None:
    log = Log(5, 5, 5)
    assert _joined(log.run(count_max=2)) == (
        b"".join(log.wanted()[:2]),
        2,
        *(len(b"".join(log.wanted()[:2])), ENTRY.unpack(log.entries[20:40])[0], STORED_MS + FIRST_OFFSET + 1),
    )


@pytest.mark.parametrize("log", [Log(), Log(10, 10, born_host=HOST_V6)], ids=["none", "an IPv6 host"])
def test_what_needs_another_way_is_left_alone(log: Log) -> None:
    assert log.run() is None


def test_a_long_record_is_a_slice_of_the_log_itself() -> None:
    log = Log(5_000)
    taken = log.run()
    assert taken is not None
    assert [type(piece) for piece in taken[0]] == [memoryview]


def test_what_is_over_the_limit_comes_with_the_next_read_and_what_is_too_old_is_left_alone() -> None:
    log = Log(100, 100)
    whole = log.run(bytes_max=len(b"".join(log.wanted())))
    assert whole is not None
    assert whole[1] == 2
    shorter = log.run(bytes_max=len(b"".join(log.wanted())) - 1)
    assert shorter is not None
    assert b"".join(shorter[0]) == log.wanted()[0]
    assert log.run(below=ENTRY.unpack_from(log.entries)[0]) is not None
    assert log.run(below=ENTRY.unpack_from(log.entries)[0] + 1) is None


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=4),
    st.booleans(),
    st.integers(0, 2_000),
    st.integers(1, 255),
    st.integers(0, 200),
    st.booleans(),
)
def test_no_damage_makes_it_take_another_record(
    sizes: list[int], in_entries: bool, at: int, change: int, cut: int, apart: bool
) -> None:
    log = Log(*sizes, apart=apart)
    damaged = log.entries if in_entries else log.records
    damaged[at % len(damaged)] ^= change
    del log.records[max(len(log.records) - cut, 0) :]
    taken = log.run()
    if taken is not None:
        _, count, total, *_ = taken
        assert b"".join(taken[0]) == b"".join(log.wanted()[:count])
        if count < len(sizes):  # the next one would be too much, as its entry says
            assert total + ENTRY.unpack_from(log.entries, count * ENTRY.size)[1] > BYTES_MAX
