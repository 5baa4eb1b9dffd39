"""What was acknowledged survives a crash at any moment, and a broken file is never taken for an empty one."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from hanabi.errors import MQError
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
    assert KVConfig(path).get("N", "k") == "v"
