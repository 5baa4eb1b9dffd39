"""Tests that acknowledged changes survive a crash at any moment, and a broken file is never taken for an empty one."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from hanabi.errors import MQError, NoPermission, StoreDamaged, StoreUnwritable
from hanabi.namesrv import kv_config
from hanabi.namesrv.kv_config import KVConfig

# A process that dies without a word before its Nth call that opens or renames a file.
DIES_AT_STEP = """
import os, sys
from pathlib import Path
from hanabi.namesrv.kv_config import KVConfig

kv = KVConfig(Path(sys.argv[1]))
steps_left = int(sys.argv[2])

def count(event, args):
    global steps_left
    if event in ("open", "os.rename", "os.mkdir"):
        steps_left -= 1
        if steps_left < 0:
            os._exit(9)

sys.addaudithook(count)
kv.put("N", "k", "new")
os._exit(0)
"""


def test_values_survive_a_crash_at_every_step_of_a_write(tmp_path: Path) -> None:
    died = 0
    for step in range(20):
        path = tmp_path / str(step) / "kvConfig.json"
        kv = KVConfig(path)
        kv.put("N", "k", "older")
        kv.put("N", "k", "old")
        kv.put("N", "other", "kept")
        exit_code = subprocess.run([sys.executable, "-c", DIES_AT_STEP, path, str(step)], check=False).returncode
        found = KVConfig(path)
        assert found.get("N", "other") == "kept"
        if exit_code == 0:
            assert found.get("N", "k") == "new"
            break
        assert exit_code == 9
        died += 1
        assert found.get("N", "k") in ("old", "new")
        found.put("N", "k", "newest")  # and nothing that the crash left is in the way
        assert KVConfig(path).get("N", "k") == "newest"
    assert died >= 3  # the temporary file, and two renames


@pytest.mark.parametrize("left", [b"", b"{", b'{"configTable":{"N":{"k":"ne'])
def test_a_torn_temporary_file_is_never_read(tmp_path: Path, left: bytes) -> None:
    path = tmp_path / "kvConfig.json"
    KVConfig(path).put("N", "k", "v")
    (tmp_path / "kvConfig.json.tmp").write_bytes(left)
    assert KVConfig(path).get("N", "k") == "v"


@pytest.mark.parametrize("broken", [b"", b"{", b"[]", b"\xff\xfe", b'{"configTable":{"N":{"k":3}}}'])
def test_a_broken_file_falls_back_to_its_backup_and_says_so(
    tmp_path: Path, broken: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "kvConfig.json"
    kv = KVConfig(path)
    kv.put("N", "k", "old")
    kv.put("N", "k", "new")
    path.write_bytes(broken)
    with caplog.at_level(logging.WARNING):
        assert KVConfig(path).get("N", "k") == "old"
    assert f"read {path}.bak instead" in caplog.text


def test_when_nothing_can_be_read_the_start_fails_rather_than_forgets(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_bytes(b"{")
    with pytest.raises(MQError, match=r"kvConfig\.json"):
        KVConfig(path)
    assert path.read_bytes() == b"{"


def test_the_file_of_values_is_apaches(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text('{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:4"}}}')
    kv = KVConfig(path)
    assert kv.namespace("ORDER_TOPIC_CONFIG") == {"T": "broker-a:4"}
    kv.put("N", "k", "v")
    assert json.loads(path.read_text()) == {"configTable": {"ORDER_TOPIC_CONFIG": {"T": "broker-a:4"}, "N": {"k": "v"}}}


def test_a_value_that_cannot_be_saved_is_not_in_force(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "kvConfig.json"
    kv = KVConfig(path)
    kv.put("N", "k", "v")
    (tmp_path / "folder" / "kvConfig.json.tmp").mkdir()  # the disk says no
    with pytest.raises(MQError, match=r"writing .* failed"):
        kv.put("N", "k", "w")
    with pytest.raises(MQError, match=r"writing .* failed"):
        kv.delete("N", "k")
    assert kv.get("N", "k") == "v"
    (tmp_path / "folder" / "kvConfig.json.tmp").rmdir()
    assert KVConfig(path).get("N", "k") == "v"


def test_a_place_where_nothing_can_be_written_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "kvConfig.json.tmp").mkdir()
    with pytest.raises(StoreUnwritable, match=r"writing .*kvConfig\.json failed"):
        KVConfig(tmp_path / "kvConfig.json")
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnwritable, match=r"writing .*kvConfig\.json failed"):
        KVConfig(tmp_path / "file" / "kvConfig.json")


def test_a_path_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises((StoreUnwritable, StoreDamaged), match="null"):
        KVConfig(tmp_path / "kv\0Config.json")


def test_a_value_or_a_name_that_is_too_long_is_refused(tmp_path: Path) -> None:
    kv = KVConfig(tmp_path / "kvConfig.json")
    longest = "v" * kv_config.VALUE_BYTES_MAX
    kv.put("N", "k", longest)
    for namespace, key, value in (
        ("N", "k", longest + "v"),
        ("N", "k", "ü" * (kv_config.VALUE_BYTES_MAX // 2 + 1)),
        ("N" * (kv_config.NAME_CHARACTERS_MAX + 1), "k", ""),
        ("N", "k" * (kv_config.NAME_CHARACTERS_MAX + 1), ""),
    ):
        with pytest.raises(NoPermission, match="more than"):
            kv.put(namespace, key, value)
    assert kv.namespace("N") == {"k": longest}


def test_all_values_together_have_a_limit_and_what_is_deleted_makes_room(tmp_path: Path) -> None:
    kv = KVConfig(tmp_path / "kvConfig.json")
    value = "v" * (kv_config.VALUE_BYTES_MAX - 20)
    for number in range(kv_config.TABLE_BYTES_MAX // kv_config.VALUE_BYTES_MAX):
        kv.put("N", str(number), value)
    with pytest.raises(NoPermission, match="no room for one-more"):
        kv.put("N", "one-more", value)
    assert kv.get("N", "one-more") is None
    kv.delete("N", "0")
    kv.put("N", "one-more", value)


def test_a_table_that_is_already_too_large_can_be_made_smaller(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text(json.dumps({"configTable": {"N": {"k": "v" * kv_config.TABLE_BYTES_MAX, "other": "w"}}}))
    kv = KVConfig(path)
    kv.delete("N", "k")
    assert kv.namespace("N") == {"other": "w"}


def test_values_are_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        KVConfig(tmp_path / "kvConfig.json").put("N", "k", "secret")
    assert "N/k" in caplog.text
    assert "secret" not in caplog.text
