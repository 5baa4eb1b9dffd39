"""`hanabi store` as its users see it: output, exit codes, and a store that is not touched."""

import base64
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hanabi.cli.main import app
from hanabi.cli.shared.message_line import BODY_CHARACTERS_MAX, message_text
from hanabi.cli.shared.output import printable
from hanabi.cli.shared.times import time_text
from hanabi.cli.store.text import record_line
from hanabi.wire.message import sysflag
from hanabi.wire.message.compression import compress
from hanabi.wire.message.record import decode_record, encode_record
from tests.golden_records import STORES
from tests.store.sample_stores import HOST, Snapshot, flip, make_store, snapshot, unpack_golden

HANABI = [sys.executable, "-m", "hanabi"]
DEADLINE_SECONDS = 60.0
CLEAN, CRASHED = STORES
LOG = "commitlog/00000000000000000000"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `hanabi store ...` to its end."""
    command = [*HANABI, "store", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)


def refused(result: subprocess.CompletedProcess[str]) -> str:
    """Return the one sentence of a command that could not do what was asked."""
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line.removeprefix("hanabi: ")


def lines(result: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Return what a command that succeeded wrote with --json."""
    assert (result.returncode, result.stderr) == (0, "")
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """Apache's store after a clean stop."""
    return unpack_golden(CLEAN, tmp_path)


@pytest.fixture
def before(golden: Path) -> Snapshot:
    """Everything in the store before a command, changed in times and bytes by none."""
    return snapshot(golden)


@pytest.mark.parametrize("arguments", [[], ["info"], ["verify"], ["dump"]])
def test_every_command_explains_itself(arguments: list[str]) -> None:
    words = ["store", *arguments, "--help"]
    result = CliRunner().invoke(app, words, prog_name="hanabi", env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == 0
    assert f"Usage: {' '.join(['hanabi', *words[:-1]])}" in result.stdout


def test_info_shows_what_is_there(golden: Path, before: Snapshot) -> None:
    result = run("info", "--home", golden)
    assert (result.returncode, result.stderr) == (0, "")
    assert "commit log: offsets 0 to 9,512" in result.stdout
    assert "stored 2026-11-15T06:45:47.138Z to 2026-11-15T06:45:49.539Z" in result.stdout
    assert "consume queues: 7 topics, 11 queues" in result.stdout
    assert "key index: 1 file" in result.stdout
    assert snapshot(golden) == before


def test_info_writes_one_json_object(golden: Path, before: Snapshot) -> None:
    (store,) = lines(run("info", "--home", golden, "--json"))
    assert list(store) == ["home", "abort", "lock", "log", "topics", "queues", "index", "checkpoint", "config"]
    assert (store["home"], store["topics"], len(store["queues"])) == (str(golden), 7, 11)
    assert (store["log"]["minOffset"], store["log"]["maxOffset"]) == (0, 9_512)
    assert store["queues"][4] == {
        "topic": "Golden",
        "queueId": 2,
        "minOffset": 0,
        "maxOffset": 7,
        "count": 7,
        "files": 1,
        "bytes": 2_000,
    }
    assert snapshot(golden) == before


@pytest.mark.parametrize("name", STORES)
def test_verify_of_a_good_store_ends_with_0(tmp_path: Path, name: str) -> None:
    golden = unpack_golden(name, tmp_path)
    before = snapshot(golden)
    result = run("verify", "--home", golden)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.endswith("no damage found\n")
    (report,) = lines(run("verify", "--home", golden, "--json"))
    assert report["clean"] is True
    assert (report["log"]["records"], report["queues"]["entries"], report["index"]["entries"]) == (36, 36, 52)
    assert (report["damageCount"], report["damage"]) == (0, [])
    assert snapshot(golden) == before


@pytest.mark.parametrize("name", STORES)
def test_verify_of_a_backup_without_what_is_built_again_ends_with_0(tmp_path: Path, name: str) -> None:
    """docs/operations.md: `consumequeue/` and `index/` need not be in a backup."""
    golden = unpack_golden(name, tmp_path)
    for folder in ("consumequeue", "consumequeue_ext", "index"):
        shutil.rmtree(golden / folder, ignore_errors=True)
    result = run("verify", "--home", golden)
    assert (result.returncode, result.stderr) == (0, "")
    assert " messages without an entry yet: the broker makes it, or makes it at its next start" in result.stdout
    assert result.stdout.endswith("no damage found\n")


def test_verify_of_a_store_that_lost_one_queue_ends_with_1(golden: Path) -> None:
    queue = next(each for each in sorted((golden / "consumequeue").rglob("0")) if each.is_dir())
    shutil.rmtree(queue)
    result = run("verify", "--home", golden)
    assert result.returncode == 1
    assert "has no entry" in result.stdout


def test_verify_of_a_damaged_store_says_where_and_ends_with_1(golden: Path) -> None:
    flip(golden / LOG, 1140 + 90)
    before = snapshot(golden)
    result = run("verify", "--home", golden)
    assert (result.returncode, result.stderr) == (1, "")
    assert f"  {LOG} at byte 1,140 (log offset 1,140): its body has CRC" in result.stdout
    result = run("verify", "--home", golden, "--json")
    assert result.returncode == 1
    report = json.loads(result.stdout)
    assert report["clean"] is False
    (damage,) = report["damage"]
    assert (damage["kind"], damage["file"], damage["position"], damage["count"]) == ("commitlog", LOG, 1_140, 1)
    assert "ends at 1,140 with a broken record" in run("info", "--home", golden).stdout
    assert snapshot(golden) == before


def test_verify_takes_the_brokers_delay_levels(golden: Path) -> None:
    assert run("verify", "--home", golden, "--delay-levels", "3s").returncode == 1
    assert "not 'soon'" in refused(run("verify", "--home", golden, "--delay-levels", "soon"))


def test_dump_shows_messages_to_people(golden: Path, before: Snapshot) -> None:
    result = run("dump", "--home", golden, "--topic", "Golden", "--queue", "1", "--count", "1")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("Golden/1 offset 0, log offset 228, 228 bytes\n")
    assert "  city = 杭州\n" in result.stdout
    assert "  body (utf-8): hello 1\n" in result.stdout
    assert snapshot(golden) == before


def test_dump_writes_one_json_object_a_message(golden: Path, before: Snapshot) -> None:
    messages = lines(run("dump", "--home", golden, "--json"))
    assert len(messages) == 36
    message = messages[1]
    assert (message["topic"], message["queueId"], message["queueOffset"]) == ("Golden", 1, 0)
    assert (message["logOffset"], message["size"], message["storeTimestamp"]) == (228, 228, 1794725147233)
    assert (message["body"], message["encoding"]) == ("hello 1", "utf-8")
    assert message["messageId"] == "FD00000000000000000000000000000240F65FFD2B27498C8A4D0001"
    assert message["offsetMessageId"] == "7F00000100002ADB00000000000000E4"
    assert (message["tags"], message["keys"], message["properties"]["city"]) == ("TagA", ["key1"], "杭州")
    assert snapshot(golden) == before


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        (["--key", "key1"], [228]),
        (["--topic", "Golden", "--queue", "3"], [684, 1600]),
        (["--topic", "Golden", "--queue", "3", "--offset", "1"], [1600]),
        (["--log-offset", "9047"], [9047, 9377]),
        (["--from", "2026-11-15T06:45:49.539"], [9047, 9377]),
        (["--from", "2026-11-15T07:45:49.539+01:00"], [9047, 9377]),
        (["--to", "1794725147233"], [0]),
        (["--count", "2"], [0, 228]),
    ],
)
def test_dump_filters(tmp_path: Path, options: list[str], offsets: list[int]) -> None:
    home = unpack_golden(CLEAN, tmp_path)
    assert [message["logOffset"] for message in lines(run("dump", "--home", home, "--json", *options))] == offsets


def test_dump_shows_raw_entries(golden: Path, before: Snapshot) -> None:
    result = run("dump", "--home", golden, "--queues", "--topic", "Golden", "--queue", "3")
    assert result.stdout.splitlines()[1] == "Golden/3 1: log offset 1600, size 201, tags code 2598920"
    entries = lines(run("dump", "--home", golden, "--index", "--json"))
    assert len(entries) == 52
    assert [*entries[0]] == ["file", "number", "keyHash", "logOffset", "storedMs", "previous"]
    assert snapshot(golden) == before


def test_dump_passes_over_a_broken_record_and_ends_with_1(golden: Path) -> None:
    flip(golden / LOG, 1140 + 90)
    result = run("dump", "--home", golden, "--json")
    assert result.returncode == 1
    assert len(result.stdout.splitlines()) == 35
    assert result.stderr.startswith(f"hanabi: {LOG}: no valid record from log offset 1140 to 1368: its body has CRC")


@pytest.mark.parametrize("command", ["info", "verify", "dump"])
def test_what_cannot_be_looked_at_is_one_sentence(tmp_path: Path, command: str) -> None:
    assert refused(run(command, "--home", tmp_path / "none")) == f"{tmp_path / 'none'} does not exist"
    (tmp_path / LOG).mkdir(parents=True)
    assert "cannot be read: Is a directory" in refused(run(command, "--home", tmp_path))


def test_what_is_no_store_is_one_sentence(tmp_path: Path) -> None:
    assert "is not a store" in refused(run("info", "--home", tmp_path))
    (tmp_path / "loop").symlink_to("loop")
    assert "cannot be read: Too many levels of symbolic links" in refused(run("info", "--home", tmp_path / "loop"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("command", ["info", "verify", "dump"])
def test_what_may_not_be_read_is_one_sentence(golden: Path, command: str) -> None:
    (golden / LOG).chmod(0)
    assert f"{golden / LOG} cannot be read: Permission denied" in refused(run(command, "--home", golden))


@pytest.mark.parametrize("command", ["info", "verify", "dump"])
def test_a_store_that_may_not_be_written_is_looked_into(golden: Path, command: str) -> None:
    for path in (*golden.rglob("*"), golden):
        path.chmod(0o555 if path.is_dir() else 0o444)
    assert run(command, "--home", golden).returncode == 0
    for path in (golden, *golden.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--from", "yesterday"], "--from yesterday: must be a time"),
        (["--queues", "--index"], "choose one"),
        (["--index", "--key", "k"], "give both --topic and --key"),
        (["--topic", "Golden", "--queue", "9"], "has no queue Golden/9"),
        (["--topic", "NoSuch"], "has no queue of topic NoSuch"),
        (["--topic", "NoSuch", "--queues"], "has no queue of topic NoSuch"),
    ],
)
def test_options_that_make_no_sense_are_one_sentence(tmp_path: Path, options: list[str], complaint: str) -> None:
    assert complaint in refused(run("dump", "--home", unpack_golden(CLEAN, tmp_path), *options))


def test_a_closed_pipe_ends_it_quietly(tmp_path: Path) -> None:
    make_store(tmp_path, 2_000, log_file_bytes=1 << 20)
    command = [*HANABI, "store", "dump", "--home", str(tmp_path), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["queueOffset"] == 0
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(DEADLINE_SECONDS) == 141


def test_an_interrupt_ends_it_quietly(tmp_path: Path) -> None:
    make_store(tmp_path, 2_000, log_file_bytes=1 << 20)
    command = [*HANABI, "store", "dump", "--home", str(tmp_path), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it waits now until we read on: the pipe is full
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=DEADLINE_SECONDS)
        assert (process.returncode, err) == (130, b"")


def test_a_terminal_shows_progress_and_the_report(tmp_path: Path) -> None:
    home = unpack_golden(CLEAN, tmp_path)
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        [*HANABI, "store", "verify", "--home", str(home)], stdout=subprocess.PIPE, stderr=slave, env=environment
    ) as process:
        os.close(slave)
        out, _ = process.communicate(timeout=DEADLINE_SECONDS)
    shown = b""
    try:
        while data := os.read(master, 4_096):
            shown += data
    except OSError:  # Linux says so when the other end is closed
        pass
    finally:
        os.close(master)
    assert process.returncode == 0
    assert out.endswith(b"no damage found\n")
    assert b"key index" in shown


# ---- how things are shown --------------------------------------------------------------------------------------------


def record_of(body: bytes, sys_flag: int = 0, properties: bytes = b"") -> bytes:
    return bytes(
        encode_record(
            topic=b"T",
            body=body,
            properties=properties,
            queue_id=0,
            sys_flag=sys_flag,
            born_timestamp_ms=0,
            born_host=HOST,
            store_host=HOST,
        )
    )


def test_a_body_that_is_not_text_is_base64() -> None:
    line = record_line(decode_record(record_of(b"\xff\x00")))
    assert (line.body, line.encoding) == (base64.b64encode(b"\xff\x00").decode(), "base64")


def test_a_compressed_body_is_unpacked_and_a_bad_one_is_shown_as_stored() -> None:
    packed = compress("héllo".encode())
    assert record_line(decode_record(record_of(packed, sysflag.COMPRESSED))).body == "héllo"
    line = record_line(decode_record(record_of(b"no zlib", sysflag.COMPRESSED)))
    assert (line.body, line.encoding, line.sys_flag) == ("no zlib", "utf-8", sysflag.COMPRESSED)
    assert line.body_problem
    assert "cannot be unpacked" in message_text(line)


def test_nothing_that_a_terminal_obeys_is_shown() -> None:
    text = message_text(record_line(decode_record(record_of(b"\x1b[2J\n\x07ok", 0, b"a\x01\x1b]0;x"))))
    assert "\x1b" not in text
    assert "\\x1b[2J\\n\\x07ok" in text
    assert printable("a\tb杭") == "a\\tb杭"


def test_a_long_body_is_cut_for_people_only() -> None:
    line = record_line(decode_record(record_of(b"x" * 5_000)))
    assert len(line.body) == 5_000
    assert "... and 3000 more characters" in message_text(line, BODY_CHARACTERS_MAX)
    assert line.body in message_text(line)


def test_a_time_that_no_calendar_has_stays_a_number() -> None:
    assert time_text(0) == "1970-01-01T00:00:00.000Z"
    assert time_text(2**62) == str(2**62)
    assert time_text(None) == "-"
