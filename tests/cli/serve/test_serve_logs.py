"""Tests of where `hanabi serve` logs: on stderr for people, and in files beside the data, which stay few and short."""

import json
import os
import pty
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hanabi.cli.main import app
from tests.cli.commands import HANABI, environment, hanabi, refused

DEADLINE_SECONDS = 60.0
PORTS: dict[int, int] = {}  # by process


@contextmanager
def namesrv(home: Path, *arguments: str, stderr: int = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
    command = [*HANABI, "serve", "namesrv", "--home", str(home), "--host", "127.0.0.1", "--port", "0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment()) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("ready namesrv")
            PORTS[process.pid] = int(line.rpartition(":")[2])
            yield process
        finally:
            process.kill()


def stop(process: subprocess.Popen[str]) -> str:
    process.terminate()
    _, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0
    return err or ""


def with_a_warning(folder: Path) -> str:
    """Return a file with a key that nobody knows, which is worth a line."""
    path = folder / "namesrv.conf"
    path.write_text("noSuchKey=1\n")
    return str(path)


def test_what_is_on_stderr_is_in_a_file_beside_the_data_too(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with namesrv(home, "-c", with_a_warning(tmp_path)) as process:
        err = stop(process)
    assert "noSuchKey is not a setting" in err
    assert (home / "logs" / "namesrv.log").read_text() == err
    assert sorted(path.name for path in home.iterdir()) == ["logs", "namesrv"]


def test_json_is_for_both(tmp_path: Path) -> None:
    with namesrv(tmp_path, "-c", with_a_warning(tmp_path), "--log-json") as process:
        err = stop(process)
    (line,) = (tmp_path / "logs" / "namesrv.log").read_text().splitlines()
    assert json.loads(line) == json.loads(err)
    assert json.loads(line)["level"] == "WARNING"


def test_another_folder_or_none_can_be_asked_for(tmp_path: Path) -> None:
    warning = with_a_warning(tmp_path)
    with namesrv(tmp_path / "a", "-c", warning, "--log-dir", str(tmp_path / "elsewhere" / "deep")) as process:
        stop(process)
    assert "noSuchKey" in (tmp_path / "elsewhere" / "deep" / "namesrv.log").read_text()
    with namesrv(tmp_path / "b", "-c", warning, "--no-log-file") as process:
        assert "noSuchKey" in stop(process)
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["namesrv"]


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    line = refused(hanabi("serve", "namesrv", "--home", str(tmp_path / "home"), "--log-dir", str(tmp_path / "file")), 2)
    assert line.startswith(f"--log-dir {tmp_path / 'file'} cannot be written: ")
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("option", ["--log-file-mib", "--log-files"])
def test_a_limit_that_makes_no_sense_is_refused(option: str) -> None:
    result = CliRunner().invoke(app, ["serve", "namesrv", option, "0"], env={"TERM": "dumb", "COLUMNS": "200"})
    assert result.exit_code == 2
    assert option in result.output


def test_why_a_start_failed_is_in_the_file(tmp_path: Path) -> None:
    with namesrv(tmp_path) as process:
        line = refused(hanabi("serve", "namesrv", "--home", str(tmp_path), "--port", "0"), 2)
        stop(process)
    assert f"ERROR hanabi.cli.logs.log_output: {line}" in (tmp_path / "logs" / "namesrv.log").read_text()


def test_a_full_disk_does_not_stop_the_server(tmp_path: Path, small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(b"x" * 64 * 1024)
    with namesrv(tmp_path, "-c", with_a_warning(tmp_path), "--log-dir", str(small_disk)) as process:
        err = stop(process)
    assert re.search(r"ERROR .*log file \S+ cannot be written, its lines are lost until it can be: No space left", err)


def test_a_stderr_that_nobody_reads_does_not_stop_the_server(tmp_path: Path) -> None:
    with namesrv(tmp_path) as process:
        for _ in range(900):  # each is worth a line of 100 bytes, and a pipe holds 64 KiB
            assert_closed_by(process)
        process.terminate()
        assert process.wait(DEADLINE_SECONDS) == 0
    lines = (tmp_path / "logs" / "namesrv.log").read_text().splitlines()
    assert sum("closed: frame of" in line for line in lines) == 900


def assert_closed_by(process: "subprocess.Popen[str]") -> None:
    """Speak another protocol; the server parts with us as long as it runs."""
    with socket.create_connection(("127.0.0.1", PORTS[process.pid]), timeout=DEADLINE_SECONDS) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with suppress(ConnectionResetError):
            assert client.recv(1) == b""


def test_a_terminal_gets_colours_unless_it_wants_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    ours, theirs = pty.openpty()
    try:
        for colour, expected in (("", b"\x1b[33mWARNING\x1b[0m"), ("1", b" WARNING ")):
            monkeypatch.setenv("NO_COLOR", colour)
            with namesrv(tmp_path, "-c", with_a_warning(tmp_path), stderr=theirs) as process:
                stop(process)
            assert expected in os.read(ours, 1 << 16)
    finally:
        os.close(ours)
        os.close(theirs)
    assert "\x1b" not in (tmp_path / "logs" / "namesrv.log").read_text()
