"""Tests of how far groups have come: what is kept, what may go backwards, and the file."""

import logging
import tarfile
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.broker.tables.pretty_json import pretty
from hanabi.errors import StoreDamaged, StoreUnwritable, SystemBusy
from hanabi.wire.fastjson import encode_body
from tests.golden_frames import GOLDEN


def in_memory(**limits: int) -> ConsumerOffsets:
    return ConsumerOffsets(None, **limits)


def test_a_group_without_an_offset_has_none() -> None:
    offsets = in_memory()
    assert offsets.find("g", "T", 0) == -1
    assert offsets.of("g", "T") == {}
    offsets.commit("g", "T", 1, 5)
    assert offsets.find("g", "T", 0) == -1


def test_each_queue_of_each_group_has_its_own_offset() -> None:
    offsets = in_memory()
    for place, (group, topic, queue_id) in enumerate([("g", "T", 0), ("g", "T", 1), ("h", "T", 0), ("g", "U", 0)]):
        assert offsets.commit(group, topic, queue_id, place)
    assert [offsets.find("g", "T", 0), offsets.find("g", "T", 1)] == [0, 1]
    assert [offsets.find("h", "T", 0), offsets.find("g", "U", 0)] == [2, 3]
    assert len(offsets) == 4


def test_an_offset_does_not_go_backwards() -> None:
    offsets = in_memory()
    offsets.commit("g", "T", 0, 7)
    assert not offsets.commit("g", "T", 0, 6)
    assert offsets.commit("g", "T", 0, 7)
    assert offsets.find("g", "T", 0) == 7


def test_an_offset_goes_backwards_when_it_is_told_to_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    offsets = in_memory()
    offsets.commit("g", "T", 0, 7)
    assert offsets.commit("g", "T", 0, 3, "10.0.0.1:5", backwards=True)
    offsets.reset("g", "T", 0, 0)
    assert offsets.find("g", "T", 0) == 0
    offsets.save()  # from here on aloud once more
    offsets.commit("g", "T", 0, 5)
    offsets.reset("g", "T", 0, 1)
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.getMessage() for record in warnings] == [
        "10.0.0.1:5: offset of T@g queue 0 goes back from 7 to 3",
        "reset: offset of T@g queue 0 goes back from 5 to 1",
    ]


def test_a_reset_of_what_has_no_offset_sets_it() -> None:
    offsets = in_memory()
    offsets.reset("g", "T", 3, 9)
    assert offsets.of("g", "T") == {3: 9}


def test_topics_of_a_group_and_groups_of_a_topic() -> None:
    offsets = in_memory()
    for group, topic in (("g", "T"), ("g", "%RETRY%g"), ("gg", "T"), ("g", "TT")):
        offsets.commit(group, topic, 0, 1)
    assert offsets.topics_of("g") == {"T", "%RETRY%g", "TT"}
    assert offsets.groups_of("T") == {"g", "gg"}
    assert ("T", "gg") in list(offsets.each_topic_and_group())
    assert offsets.topics_of("nobody") == set()


def test_a_clone_takes_the_place_of_what_the_group_had() -> None:
    offsets = in_memory()
    offsets.commit("from", "T", 0, 5)
    offsets.commit("from", "T", 1, 6)
    offsets.commit("to", "T", 1, 9)
    offsets.commit("to", "T", 2, 9)
    offsets.clone("from", "to", "T")
    assert offsets.of("to", "T") == {0: 5, 1: 6}
    assert len(offsets) == 4
    offsets.commit("from", "T", 0, 8)
    assert offsets.find("to", "T", 0) == 5


def test_a_clone_of_nothing_changes_nothing() -> None:
    offsets = in_memory()
    offsets.commit("to", "T", 1, 9)
    offsets.clone("from", "to", "T")
    assert offsets.of("to", "T") == {1: 9}


def test_removing_a_group_or_a_topic_leaves_the_others() -> None:
    offsets = in_memory()
    for group in ("g", "h"):
        for topic in ("T", "U"):
            offsets.commit(group, topic, 0, 1)
    offsets.remove_group("g")
    assert offsets.topics_of("g") == set()
    offsets.remove_topic("T")
    assert offsets.groups_of("U") == {"h"}
    assert len(offsets) == 1


def test_there_is_a_limit_and_offsets_that_are_there_still_move() -> None:
    offsets = in_memory(offsets_max=2)
    offsets.commit("g", "T", 0, 1)
    offsets.commit("g", "T", 1, 1)
    with pytest.raises(SystemBusy, match="T@g"):
        offsets.commit("g", "T", 2, 1)
    with pytest.raises(SystemBusy, match="T@h"):
        offsets.clone("g", "h", "T")
    assert offsets.commit("g", "T", 1, 2)
    assert offsets.table().offset_table == {"T@g": {0: 1, 1: 2}}
    offsets.remove_group("g")
    assert offsets.commit("h", "T", 0, 1)


def body_of(offsets: ConsumerOffsets) -> bytes:
    return b'{"offsetTable":{%b}}' % b",".join(offsets.encoded_members())


def test_the_body_for_a_slave_is_the_table_as_fastjson_writes_it() -> None:
    offsets = in_memory()
    assert body_of(offsets) == encode_body(offsets.table()) == b'{"offsetTable":{}}'
    offsets.commit("g", "T", 0, 1)
    offsets.commit("g", "T", 12, 2**62)
    offsets.commit("g", "%RETRY%g", 0, 3)
    assert body_of(offsets) == encode_body(offsets.table())
    assert body_of(offsets) == b'{"offsetTable":{"T@g":{0:1,12:4611686018427387904},"%RETRY%g@g":{0:3}}}'


# The file


def test_what_was_saved_is_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "config" / "consumerOffset.json"
    offsets = ConsumerOffsets(path)
    offsets.commit("g", "T", 0, 5)
    offsets.commit("g", "T", 3, 6)
    offsets.save()
    again = ConsumerOffsets(path)
    assert again.of("g", "T") == {0: 5, 3: 6}
    assert len(again) == 2


def test_apaches_own_file_is_read_and_written_byte_for_byte(tmp_path: Path) -> None:
    with tarfile.open(GOLDEN / "store-clean.tar.gz") as archive:
        member = archive.extractfile("./config/consumerOffset.json")
        assert member is not None
        apaches = member.read()
    path = tmp_path / "consumerOffset.json"
    path.write_bytes(apaches)
    offsets = ConsumerOffsets(path)
    assert offsets.of("cg_golden", "Golden") == {0: 5, 1: 3, 2: 7, 3: 2}
    path.unlink()
    offsets.save()
    assert path.read_bytes() == apaches


KEYS = st.sampled_from(["T@g", "U@g", "%RETRY%g@g"])
QUEUES = st.dictionaries(st.integers(0, 99), st.integers(0, 2**63 - 1), min_size=1)


@settings(deadline=None)  # it writes files, and disks are slow at times
@given(st.dictionaries(KEYS, QUEUES))
def test_the_file_is_what_apache_would_write(table: dict[str, dict[int, int]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "consumerOffset.json"
        offsets = ConsumerOffsets(path)
        for key, queues in table.items():
            topic, group = key.split("@")
            for queue_id, offset in queues.items():
                offsets.commit(group, topic, queue_id, offset)
        offsets.save()
        written = path.read_bytes() if table else pretty({"offsetTable": {}})
        read = ConsumerOffsets(path).table()
    assert read.offset_table == table
    assert written == pretty({"offsetTable": read.offset_table})


def test_a_file_with_quoted_keys_and_of_5x_is_read(tmp_path: Path) -> None:
    path = tmp_path / "consumerOffset.json"
    version = '"dataVersion":{"counter":3,"stateVersion":0,"timestamp":17}'
    path.write_text(f'{{{version},"offsetTable":{{"T@g":{{"0":1, 1 :2}}}},"groupTopicMap":{{}}}}')
    assert ConsumerOffsets(path).of("g", "T") == {0: 1, 1: 2}


def test_only_what_changed_is_encoded_and_nothing_is_written_without_a_change(tmp_path: Path) -> None:
    path = tmp_path / "consumerOffset.json"
    offsets = ConsumerOffsets(path)
    offsets.commit("g", "T", 0, 5)
    offsets.save()
    path.write_bytes(b"touched by somebody")
    offsets.commit("g", "T", 0, 5)
    offsets.save()
    assert path.read_bytes() == b"touched by somebody"
    offsets.commit("g", "T", 0, 6)
    offsets.commit("h", "T", 0, 1)
    offsets.remove_group("h")
    offsets.save()
    assert ConsumerOffsets(path).table().offset_table == {"T@g": {0: 6}}


def test_a_save_that_failed_is_done_by_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "config" / "consumerOffset.json"
    offsets = ConsumerOffsets(path)
    offsets.commit("g", "T", 0, 5)
    path.parent.rename(tmp_path / "elsewhere")
    path.parent.write_bytes(b"in the way")
    with pytest.raises(StoreUnwritable):
        offsets.save()
    path.parent.unlink()
    offsets.save()
    assert ConsumerOffsets(path).find("g", "T", 0) == 5


def test_a_broken_file_falls_back_to_its_backup_and_without_one_stops_the_start(tmp_path: Path) -> None:
    path = tmp_path / "consumerOffset.json"
    offsets = ConsumerOffsets(path)
    for offset in (1, 2):
        offsets.commit("g", "T", 0, offset)
        offsets.save()
    path.write_bytes(b'{"offsetTable":{"T@g":{0:')
    assert ConsumerOffsets(path).find("g", "T", 0) == 1
    path.with_name(path.name + ".bak").write_bytes(b"[]")
    with pytest.raises(StoreDamaged, match=r"consumerOffset\.json"):
        ConsumerOffsets(path)


def test_commits_go_on_while_a_large_table_is_saved_and_none_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "consumerOffset.json"
    offsets = ConsumerOffsets(path)
    groups = [f"group-{number}" for number in range(2_000)]
    for group in groups:
        for queue_id in range(4):
            offsets.commit(group, "T", queue_id, 1)
    saving = threading.Thread(target=offsets.save)
    saving.start()
    offset = 1
    while saving.is_alive():
        offset += 1
        for group in groups[::50]:
            offsets.commit(group, "T", 1, offset)
        offsets.commit(f"new-{offset}", "T", 0, 1)
        offsets.remove_group(f"new-{offset - 1}")
    saving.join()
    ConsumerOffsets(path)  # whole, whatever moment it shows
    offsets.save()
    assert ConsumerOffsets(path).table() == offsets.table()
    assert ConsumerOffsets(path).find(groups[50], "T", 1) == offset
