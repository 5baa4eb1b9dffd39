"""Expressions come with heartbeats, outlive their groups for a day and the broker for ever, and become bits."""

import logging
import tarfile
from pathlib import Path

import msgspec
import pytest

from hanabi.broker.config import BrokerConfig
from hanabi.broker.filters.bloom import bitmap_number
from hanabi.broker.filters.consumer_filters import ConsumerFilters
from hanabi.broker.settings import Settings
from hanabi.store.config import StoreConfig
from hanabi.store.indexer import Dispatched
from hanabi.testing.clock import ManualClock
from hanabi.wire.bodies.heartbeat import SubscriptionData
from hanabi.wire.message.properties import encode_properties

GOLDEN = Path(__file__).parent.parent.parent / "golden" / "store-clean.tar.gz"
DAY_MS = 24 * 3_600_000
DIED_MS = 1_794_725_167_334  # when the golden store's filter did


def _settings(**settings: object) -> Settings:
    plain = BrokerConfig(broker_name="broker-a")
    return Settings(msgspec.structs.replace(plain, **settings), StoreConfig(root="unused"))


def _filters(clock: ManualClock | None = None, path: Path | None = None, **settings: object) -> ConsumerFilters:
    return ConsumerFilters(path, _settings(**settings), clock or ManualClock())


def _sql(topic: str, expression: str | None, version: int = 1) -> SubscriptionData:
    return SubscriptionData(topic=topic, sub_string=expression, expression_type="SQL92", sub_version=version)


def _tags(topic: str) -> SubscriptionData:
    return SubscriptionData(topic=topic, sub_string="*")


def _dispatched(topic: str = "T", **properties: str) -> Dispatched:
    return Dispatched(topic, 0, 0, 0, 100, 0, 1_000, encode_properties(properties))


def _golden_file() -> bytes:
    with tarfile.open(GOLDEN) as archive:
        file = archive.extractfile("./config/consumerFilter.json")
        assert file is not None
        return file.read()


# Registration


def test_an_expression_is_found_by_topic_and_group() -> None:
    clock = ManualClock()
    filters = _filters(clock)
    filters.register("g", [_sql("T", "a = 1", 7), _tags("U")])
    data = filters.find("T", "g")
    assert data is not None
    assert (data.expression, data.client_version, data.born_ms, data.is_dead) == ("a = 1", 7, clock.ms, False)
    assert data.compiled.matches({"a": "1"})
    assert filters.find("U", "g") is None
    assert filters.find("T", "other") is None
    assert len(filters) == 1


def test_the_same_again_changes_nothing() -> None:
    filters = _filters()
    filters.register("g", [_sql("T", "a = 1")])
    before = filters.find("T", "g")
    filters.register("g", [_sql("T", "a = 1")])
    assert filters.find("T", "g") is before


def test_a_newer_version_of_the_same_expression_stays_as_old_as_it_is() -> None:
    clock = ManualClock()
    filters = _filters(clock)
    filters.register("g", [_sql("T", "a = 1", 1)])
    born_ms = clock.ms
    clock.ms += 1_000
    filters.register("g", [_sql("T", "a = 1", 2)])
    data = filters.find("T", "g")
    assert data is not None
    assert (data.client_version, data.born_ms) == (2, born_ms)


def test_another_expression_is_born_anew() -> None:
    clock = ManualClock()
    filters = _filters(clock)
    filters.register("g", [_sql("T", "a = 1", 1)])
    clock.ms += 1_000
    filters.register("g", [_sql("T", "a = 2", 2)])
    data = filters.find("T", "g")
    assert data is not None
    assert (data.expression, data.born_ms, len(filters)) == ("a = 2", clock.ms, 1)


@pytest.mark.parametrize("version", [4, 5])
def test_what_an_older_member_says_does_not_count(version: int) -> None:
    filters = _filters()
    filters.register("g", [_sql("T", "a = 1", 5)])
    filters.register("g", [_sql("T", "a = 2", version)])
    data = filters.find("T", "g")
    assert data is not None
    assert data.expression == "a = 1"


def test_a_group_that_comes_back_with_a_clock_that_is_behind_is_heard() -> None:
    clock = ManualClock()
    filters = _filters(clock)
    filters.register("g", [_sql("T", "a = 1", 5)])
    filters.unregister("g")
    filters.register("g", [_sql("T", "a = 2", 4)])
    data = filters.find("T", "g")
    assert data is not None
    assert data.expression == "a = 1"  # a member with the newer one may just be about to speak
    clock.ms += 60_000
    filters.register("g", [_sql("T", "a = 2", 4)])
    data = filters.find("T", "g")
    assert data is not None
    assert (data.expression, data.client_version, data.is_dead) == ("a = 2", 4, False)


def test_a_broken_expression_removes_the_one_before_it(caplog: pytest.LogCaptureFixture) -> None:
    filters = _filters()
    filters.register("g", [_sql("T", "a = 1", 1)])
    with caplog.at_level(logging.WARNING):
        filters.register("g", [_sql("T", "a = ", 2)])
        filters.register("g", [_sql("T", "a = ", 2)])
    assert filters.find("T", "g") is None
    assert len(filters) == 0
    assert [record.message.endswith("found the end") for record in caplog.records] == [True]  # once


def test_an_expression_of_an_unknown_type_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    filters = _filters()
    filters.register("g", [SubscriptionData(topic="T", sub_string="x", expression_type="XPATH")])
    assert len(filters) == 0
    assert "'XPATH' are unknown" in caplog.text


def test_a_subscription_without_an_expression_is_none() -> None:
    filters = _filters()
    filters.register("g", [_sql("T", None), _sql("U", "")])
    assert len(filters) == 0


def test_what_is_not_looked_at_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    _filters().register("g", [_sql("T", "a = 1 b = 2")])
    assert "the expression is ignored: b = 2" in caplog.text


# Death


def test_a_filter_dies_with_its_group_and_comes_back_with_it() -> None:
    clock = ManualClock()
    filters = _filters(clock)
    filters.register("g", [_sql("T", "a = 1")])
    born_ms = clock.ms
    clock.ms += 5_000
    filters.unregister("g")
    data = filters.find("T", "g")
    assert data is not None
    assert (data.is_dead, data.dead_ms) == (True, clock.ms)
    clock.ms += 5_000
    filters.register("g", [_sql("T", "a = 1")])
    data = filters.find("T", "g")
    assert data is not None
    assert (data.is_dead, data.dead_ms, data.born_ms) == (False, 0, born_ms)


@pytest.mark.parametrize("now", [[], [_tags("T")], [_sql("U", "a = 1")]], ids=["none", "tags", "another topic"])
def test_a_filter_that_is_no_longer_subscribed_is_dead(now: list[SubscriptionData]) -> None:
    filters = _filters()
    filters.register("g", [_sql("T", "a = 1")])
    filters.register("other", [_sql("T", "a = 1")])
    filters.register("g", now)
    data, other = filters.find("T", "g"), filters.find("T", "other")
    assert data is not None
    assert other is not None
    assert data.is_dead
    assert not other.is_dead


def test_the_dead_are_forgotten_after_a_day() -> None:
    clock = ManualClock()
    filters = _filters(clock)
    filters.register("g", [_sql("T", "a = 1"), _sql("U", "a = 1")])
    filters.register("g", [_sql("U", "a = 1")])
    clock.ms += DAY_MS - 1
    filters.tick()
    assert len(filters) == 2
    clock.ms += 1
    filters.tick()
    assert filters.find("T", "g") is None
    assert filters.find("U", "g") is not None
    assert len(filters) == 1


def test_when_there_are_too_many_the_longest_dead_go_first() -> None:
    clock = ManualClock()
    filters = ConsumerFilters(None, _settings(), clock, filters_max=3)
    for group in ("first", "second", "third"):
        filters.register(group, [_sql("T", "a = 1")])
    for group in ("second", "first"):
        clock.ms += 1
        filters.unregister(group)
    filters.register("fourth", [_sql("T", "a = 1")])
    assert filters.find("T", "second") is None
    filters.register("fifth", [_sql("T", "a = 1")])
    assert filters.find("T", "first") is None
    filters.register("sixth", [_sql("T", "a = 1")])  # and none that lives
    assert filters.find("T", "sixth") is None
    assert len(filters) == 3


def test_all_expressions_together_have_a_limit() -> None:
    filters = ConsumerFilters(None, _settings(), ManualClock(), characters_max=11)
    filters.register("g", [_sql("T", "a = 1"), _sql("U", "a = 1"), _sql("V", "a = 1")])
    assert [filters.find(topic, "g") is not None for topic in "TUV"] == [True, True, False]
    filters.register("g", [_sql("T", "a = 2", 2), _sql("U", "a = 1")])  # in place of one of the same length
    for _ in range(3):
        filters.unregister("g")
        filters.register("g", [_sql("T", "a = 2", 2), _sql("U", "a = 1")])
    filters.register("g", [_sql("T", "a = 33", 3), _sql("U", "a = 1")])
    data = filters.find("T", "g")
    assert data is not None
    assert data.expression == "a = 33"


# The file


def test_apaches_file_is_read_and_written_back_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "config" / "consumerFilter.json"
    path.parent.mkdir()
    path.write_bytes(_golden_file())
    filters = _filters(ManualClock(DIED_MS + 1), path)
    data = filters.find("Golden", "cg_sql")
    assert data is not None
    assert data.expression == "a between 1 and 3 AND TAGS is not null"
    assert (data.is_dead, data.dead_ms) == (True, DIED_MS)
    path.unlink()
    filters.save()
    assert path.read_bytes() == _golden_file()


def test_the_same_registration_makes_the_same_file(tmp_path: Path) -> None:
    clock = ManualClock(1_794_725_148_480)
    path = tmp_path / "consumerFilter.json"
    filters = _filters(clock, path)
    filters.register("cg_sql", [_sql("Golden", "a between 1 and 3 AND TAGS is not null", 1_794_725_148_519)])
    clock.ms = DIED_MS
    filters.unregister("cg_sql")
    filters.save()
    assert path.read_bytes() == _golden_file()


def test_without_filters_the_file_is_as_apaches(tmp_path: Path) -> None:
    path = tmp_path / "consumerFilter.json"
    _filters(path=path).save()
    assert path.read_bytes() == b'{\n\t"filterDataByTopic":{}\n}'


def test_a_save_without_a_change_before_it_does_not_encode_the_table(tmp_path: Path) -> None:
    path = tmp_path / "consumerFilter.json"
    filters = _filters(path=path)
    for is_registered in (True, False, True):
        filters.register("g", [_sql("T", "a = 1")]) if is_registered else filters.unregister("g")
        filters.save()
        assert path.exists()
        path.unlink()  # a table that is encoded is also written if its file has gone
        filters.save()
        assert not path.exists()


def test_what_has_been_dead_for_a_day_is_not_written(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "consumerFilter.json"
    filters = _filters(clock, path)
    filters.register("g", [_sql("T", "a = 1")])
    filters.unregister("g")
    clock.ms += DAY_MS
    filters.save()
    assert b"a = 1" not in path.read_bytes()


def test_after_a_restart_everybody_is_taken_for_dead_until_he_speaks(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "consumerFilter.json"
    filters = _filters(clock, path)
    filters.register("g", [_sql("T", "a = 1")])
    born_ms = clock.ms
    filters.save()
    clock.ms += 100_000
    again = _filters(clock, path)
    data = again.find("T", "g")
    assert data is not None
    assert (data.dead_ms, data.born_ms) == (clock.ms - 30_000, born_ms)
    again.register("g", [_sql("T", "a = 1")])
    data = again.find("T", "g")
    assert data is not None
    assert not data.is_dead


def test_with_another_bloom_filter_all_is_forgotten(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "consumerFilter.json"
    path.write_bytes(_golden_file())
    assert len(_filters(ManualClock(DIED_MS), path, expected_filter_consumers=64)) == 0
    assert "the size of the bloom filter has changed" in caplog.text


@pytest.mark.parametrize(
    ("old", "new"), [(b"a between 1", b"a between 9"), (b"SQL92", b"SQL93")], ids=["expression", "type"]
)
def test_a_filter_that_cannot_be_compiled_is_left_out(tmp_path: Path, old: bytes, new: bytes) -> None:
    path = tmp_path / "consumerFilter.json"
    path.write_bytes(_golden_file().replace(old, new))
    assert len(_filters(ManualClock(DIED_MS), path)) == 0


@pytest.mark.parametrize("position", [b"-1", b"112", b"4294967295"])
def test_bits_that_cannot_be_are_not_believed(tmp_path: Path, position: bytes) -> None:
    path = tmp_path / "consumerFilter.json"
    path.write_bytes(_golden_file().replace(b"[40,", b"[" + position + b","))
    if position == b"4294967295":  # no number of Java's at all: the file is damaged
        with pytest.raises(Exception, match="neither the table nor its backup"):
            _filters(ManualClock(DIED_MS), path)
    else:
        assert len(_filters(ManualClock(DIED_MS), path)) == 0


# Bits


def test_bits_are_those_of_all_groups_that_want_the_message() -> None:
    filters = _filters(filter_bitmap_enabled=True)
    expressions = {"one": "a = 1", "two": "a = 2", "both": "a IN ('1', '2')", "broken": "a > 1.5"}
    for group, expression in expressions.items():
        filters.register(group, [_sql("T", expression)])
        bits = filters.filter_bits(_dispatched(a="1"))
        mask = 0
        for other in ("one", "both"):
            data = filters.find("T", other)
            mask |= data.mask if data is not None else 0
        assert bits is not None
        assert len(bits) == 14
        assert bitmap_number(bits) == mask
    filters.unregister("one")
    assert filters.filter_bits(_dispatched(a="1")) == bits  # the dead are served too


def test_a_message_that_nobody_wants_has_a_bitmap_without_bits() -> None:
    filters = _filters(filter_bitmap_enabled=True)
    filters.register("g", [_sql("T", "a = 1")])
    assert filters.filter_bits(_dispatched(a="x")) == bytes(14)


def test_there_are_no_bits_without_filters_or_when_switched_off() -> None:
    on, off = _filters(filter_bitmap_enabled=True), _filters()
    off.register("g", [_sql("T", "a = 1")])
    on.register("g", [_sql("T", "a = 1")])
    assert off.filter_bits(_dispatched(a="1")) is None
    assert on.filter_bits(_dispatched("U", a="1")) is None


def test_in_a_crowd_all_bits_are_set_without_looking() -> None:
    filters = _filters(filter_bitmap_enabled=True, expected_filter_consumers=1)
    for number in range(9):
        filters.register(f"g{number}", [_sql("T", "a = 1")])
    assert filters.filter_bits(_dispatched(a="2")) == b"\xff" * (filters.bloom.bits // 8)


def test_a_heartbeat_with_many_long_expressions_is_compiled_a_part_at_a_time(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    filters = _filters(clock)
    long = " OR ".join(["a = 1"] * 2_000)
    subscriptions = [_sql(f"T{number}", f"{long} OR b = {number}") for number in range(20)]
    known = [0]
    while known[-1] < 20:
        filters.register("g", subscriptions)
        assert len(filters) > known[-1]
        known.append(len(filters))
        clock.ms += 30_000
    assert len(known) > 2
    assert "the filter of group g on topic T19 is refused: too many expressions at once" in caplog.text


def test_bits_of_filters_that_take_too_long_are_set_without_asking() -> None:
    filters = _filters(filter_bitmap_enabled=True)
    slow = " OR ".join(f"a CONTAINS 'xy{number}'" for number in range(100))
    for group in range(4):
        filters.register(f"g{group}", [_sql("T", f"{slow} OR b = '{group}'")])
    bits = filters.filter_bits(_dispatched(a="x" * 30_000))
    assert bits is not None
    last = filters.find("T", "g3")
    assert last is not None
    assert bitmap_number(bits) & last.mask == last.mask
