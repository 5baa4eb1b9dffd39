"""Finding messages by place, key, unique key and time."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hanabi.store.indexer import Hooks
from hanabi.store.read.offset_by_time import BoundaryType
from hanabi.store.read.queries import KeyQuery
from hanabi.store.read.queue_reader import GetStatus
from hanabi.testing.clock import START_MS, ManualClock
from hanabi.wire.message.record import decode_record
from hanabi.wire.message.tags import tags_code
from tests.store.stores import message, open_store

ALWAYS = (0, 2**62)


class World:
    def __init__(self, root: Path) -> None:
        self.clock = ManualClock()
        self.store = open_store(root, clock=self.clock)

    def put(self, body: bytes, *, keys: str = "", unique: str = "", topic: str = "T") -> int:
        properties = {name: value for name, value in (("KEYS", keys), ("UNIQ_KEY", unique)) if value}
        return self.store.put(message(body, topic=topic, properties=properties)).appended[0].log_offset


@pytest.fixture
def world(memory_directory: Path) -> Iterator[World]:
    world = World(memory_directory)
    yield world
    world.store.close()


def found(query: KeyQuery) -> list[bytes]:
    return [decode_record(record).body for record in query.records]


def test_a_message_is_found_by_its_place(world: World) -> None:
    places = [world.put(b"a"), world.put(b"b")]
    record = world.store.queries.record(places[1])
    assert record is not None
    assert decode_record(record).body == b"b"


def test_nothing_is_found_where_no_message_begins(world: World) -> None:
    place = world.put(b"a" * 50)
    for log_offset in (-1, place + 1, place + 60, world.store.max_log_offset, 10**12):
        assert world.store.queries.record(log_offset) is None


def test_messages_are_found_by_key_oldest_first_and_only_the_newest_if_there_are_many(world: World) -> None:
    for number in range(5):
        world.put(b"%d" % number, keys=f"all k{number}")
    assert found(world.store.queries.by_key("T", "all", 64, *ALWAYS)) == [b"0", b"1", b"2", b"3", b"4"]
    assert found(world.store.queries.by_key("T", "all", 2, *ALWAYS)) == [b"3", b"4"]
    assert found(world.store.queries.by_key("T", "k3", 64, *ALWAYS)) == [b"3"]
    assert found(world.store.queries.by_key("Other", "all", 64, *ALWAYS)) == []


def test_keys_with_the_same_hash_are_told_apart(world: World) -> None:
    world.put(b"1", keys="Aa")
    world.put(b"2", keys="BB")  # Java's hash of both is 2112
    assert found(world.store.queries.by_key("T", "Aa", 64, *ALWAYS)) == [b"1"]
    assert found(world.store.queries.by_key("T", "BB", 64, *ALWAYS)) == [b"2"]


def test_when_newer_messages_have_only_the_same_hash_the_search_goes_further_back(world: World) -> None:
    world.put(b"1", keys="Aa")
    world.clock.ms += 5000
    world.put(b"2", keys="BB")
    assert found(world.store.queries.by_key("T", "Aa", 1, *ALWAYS)) == [b"1"]


def test_a_time_range_bounds_the_search(world: World) -> None:
    for number in range(4):
        world.put(b"%d" % number, keys="k")
        world.clock.ms += 10_000
    middle = START_MS + 5_000, START_MS + 25_000
    assert found(world.store.queries.by_key("T", "k", 64, *middle)) == [b"1", b"2"]


def test_a_search_tells_how_far_the_index_is(world: World) -> None:
    world.put(b"1", keys="k")
    last = world.put(b"2", keys="k")
    query = world.store.queries.by_key("T", "k", 64, *ALWAYS)
    assert (query.last_update_ms, query.last_update_log_offset) == (START_MS, last)


def test_a_unique_key_is_found_as_such_and_as_a_key_but_not_the_other_way_round(world: World) -> None:
    world.put(b"1", keys="plain", unique="U1")
    assert found(world.store.queries.by_unique_key("T", "U1")) == [b"1"]
    assert found(world.store.queries.by_key("T", "U1", 64, *ALWAYS)) == [b"1"]
    assert found(world.store.queries.by_unique_key("T", "plain")) == []


def test_the_offset_for_a_time_is_the_nearest_or_on_the_side_asked_for(world: World) -> None:
    for number in range(5):
        world.put(b"%d" % number)
        world.clock.ms += 1000
    queries = world.store.queries
    between = START_MS + 2_400
    assert queries.offset_by_time("T", 0, between) == 2
    assert queries.offset_by_time("T", 0, between, BoundaryType.LOWER) == 3
    assert queries.offset_by_time("T", 0, between, BoundaryType.UPPER) == 2
    assert queries.offset_by_time("T", 0, START_MS + 99_000, BoundaryType.LOWER) == 5
    assert queries.offset_by_time("Other", 0, between) == 0


def test_store_times_of_a_queue_and_of_the_log(world: World) -> None:
    queries = world.store.queries
    assert queries.earliest_store_time_in_log() == -1
    world.put(b"x", topic="Other")
    for number in range(3):
        world.clock.ms += 1000
        world.put(b"%d" % number)
    assert queries.earliest_store_time_in_log() == START_MS
    assert queries.earliest_store_time("T", 0) == START_MS + 1000
    assert queries.latest_store_time("T", 0) == START_MS + 3000
    assert queries.store_time("T", 0, 1) == START_MS + 2000
    assert queries.store_time("T", 0, 3) == queries.store_time("None", 0, 0) == -1
    assert queries.earliest_store_time("None", 0) == queries.latest_store_time("None", 0) == -1


def test_a_clock_that_jumps_back_does_not_confuse_a_search_by_time(world: World) -> None:
    world.put(b"0")
    world.clock.ms -= 60_000
    world.put(b"1")
    world.clock.ms += 120_000
    world.put(b"2")
    times = [world.store.queries.store_time("T", 0, offset) for offset in range(3)]
    assert times == [START_MS, START_MS, START_MS + 60_000]
    assert world.store.queries.offset_by_time("T", 0, START_MS + 1, BoundaryType.LOWER) == 2


def test_the_entries_of_a_queue_are_told_as_they_stand_there(world: World) -> None:
    places = [world.put(b"%d" % number) for number in range(3)]
    entries = world.store.queries.entries("T", 0, 1, 10)
    assert entries is not None
    assert [entry.log_offset for entry in entries] == places[1:]
    assert [(entry.is_extended, entry.known_tags_code) for entry in entries] == [(False, 0), (False, 0)]
    assert world.store.queries.entries("T", 0, 3, 10) == []
    assert world.store.queries.entries("T", 1, 0, 10) is None


def test_entries_with_an_extension_show_what_is_in_it(memory_directory: Path) -> None:
    hooks = Hooks(filter_bits=lambda _: b"\x05")
    with open_store(memory_directory, hooks=hooks, consume_queue_ext_enabled=True) as store:
        store.put(message(properties={"TAGS": "a"}))
        entries = store.queries.entries("T", 0, 0, 1)
        assert entries is not None
        assert entries[0].is_extended
        assert entries[0].ext == (tags_code("a"), START_MS, b"\x05")
        assert entries[0].known_tags_code == tags_code("a")
        assert entries[0]._replace(ext=None).known_tags_code is None


def test_a_closed_store_answers_that_nothing_is_there(world: World) -> None:
    place = world.put(b"1", keys="k")
    world.store.close()
    assert world.store.queries.record(place) is None
    assert world.store.queries.by_key("T", "k", 1, *ALWAYS).records == []


# ---- the confirm offset ----------------------------------------------------------------------------------------------


def test_clients_find_nothing_that_replicas_may_lose(world: World) -> None:
    times = []
    for body in (b"one", b"two", b"three"):
        world.put(body, keys="k", unique=f"u-{body.decode()}")
        times.append(world.clock())
        world.clock.ms += 1_000
    queries, reader = world.store.queries, world.store.reader
    place = reader.log_offset("T", 0, 2)
    assert place is not None
    reader.confirmed = place
    assert queries.record(place) is None
    assert found(queries.by_key("T", "k", 9, *ALWAYS)) == [b"one", b"two"]
    assert found(queries.by_unique_key("T", "u-three")) == []
    assert found(queries.by_unique_key("T", "u-three", unconfirmed=True)) == [b"three"]
    assert len(queries.entries("T", 0, 0, 9) or ()) == 2
    assert queries.latest_store_time("T", 0) == times[1]
    assert queries.offset_by_time("T", 0, times[2]) == 1
    assert queries.offset_by_time("T", 0, times[2], BoundaryType.LOWER) == 2
    assert queries.offset_by_time("T", 0, times[2], BoundaryType.UPPER) == 1
    assert reader.max_offset("T", 0) == 2
    reader.confirmed = world.store.max_log_offset
    assert found(queries.by_key("T", "k", 9, *ALWAYS)) == [b"one", b"two", b"three"]
    assert queries.offset_by_time("T", 0, times[2]) == 2


def test_a_consumer_behind_the_confirm_offset_is_not_set_back(world: World) -> None:
    for body in (b"one", b"two", b"three"):
        world.put(body)
    reader = world.store.reader
    reader.confirmed = 0
    waits = reader.get("T", 0, 2, 10)
    assert (waits.status, waits.next_offset) == (GetStatus.OFFSET_OVERFLOW_ONE, 2)
    beyond = reader.get("T", 0, 9, 10)
    assert beyond.status is not GetStatus.OFFSET_OVERFLOW_ONE
