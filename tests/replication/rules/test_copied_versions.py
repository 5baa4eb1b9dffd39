"""Versions of a slave's offsets: a master of 5.x that returns takes them only if they are not older than its own."""

from hanabi.replication.rules.copied_tables import is_ahead, version_of_copy
from hanabi.wire.bodies.topics import DataVersion

MASTERS = DataVersion(state_version=2, counter=7, timestamp=100)


def test_a_copy_has_its_masters_version_until_a_group_gets_ahead_there() -> None:
    assert version_of_copy(MASTERS, is_ahead=False, now_ms=900) == MASTERS
    newer = version_of_copy(MASTERS, is_ahead=True, now_ms=900)
    assert (newer.state_version, newer.counter, newer.timestamp) == (2, 8, 900)
    assert version_of_copy(None, is_ahead=True, now_ms=900) == DataVersion(timestamp=900)


def test_a_slave_is_ahead_when_any_offset_is_larger_or_unknown_to_its_master() -> None:
    masters = {"T@g": {0: 5, 1: 3}}
    assert not is_ahead({"T@g": {0: 5, 1: 2}}, masters)
    assert is_ahead({"T@g": {0: 6}}, masters)
    assert is_ahead({"T@g": {2: 0}}, masters)
    assert is_ahead({"T@other": {0: 0}}, masters)
    assert not is_ahead({}, masters)
