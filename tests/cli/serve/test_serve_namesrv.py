"""`hanabi serve namesrv` as its users see it: a process, its output, its exit code."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hanabi import __version__
from hanabi.cli.main import app
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import decode_command, encode_request
from hanabi.wire.frame import FrameDecoder
from tests.interop.processes import free_port

HANABI = [sys.executable, "-m", "hanabi"]
DEADLINE_SECONDS = 60.0


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [*HANABI, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


@contextmanager
def serving(home: Path, *arguments: str | Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield a name server that said it is ready, and what it said."""
    command = [*HANABI, "serve", "namesrv", "--home", home, "--host", "127.0.0.1", "--port", "0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline()
        finally:
            process.kill()


def refused(result: subprocess.CompletedProcess[str]) -> str:
    """Return the one sentence of a start that failed as it should."""
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("hanabi: ")
    return line


def test_the_version_is_shown() -> None:
    result = run("--version")
    assert (result.returncode, result.stdout) == (0, f"hanabi {__version__}\n")


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"], ["serve", "namesrv", "--help"]])
def test_every_level_explains_itself(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments, prog_name="hanabi", env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == 0
    assert f"Usage: {' '.join(['hanabi', *arguments[:-1]])}" in result.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_when_it_is_ready_answers_and_stops_cleanly(tmp_path: Path, number: int) -> None:
    with serving(tmp_path) as (process, line):
        assert line.startswith("ready namesrv 127.0.0.1:")
        port = int(line.removeprefix("ready namesrv 127.0.0.1:").removesuffix("\n"))
        with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_SECONDS) as client:
            client.sendall(encode_request(RequestCode.GET_BROKER_CLUSTER_INFO, 1))
            (frame,) = FrameDecoder().feed(client.recv(4096))
            assert decode_command(frame).code == ResponseCode.SUCCESS
            process.send_signal(number)
            out, err = process.communicate(timeout=DEADLINE_SECONDS)
        assert (process.returncode, out, err) == (0, "", "")


def test_the_port_of_the_file_is_used_unless_another_is_asked_for(tmp_path: Path) -> None:
    config = tmp_path / "namesrv.conf"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config.write_text(f"listenPort={port}\n")
        result = run("serve", "namesrv", "-c", config, "--home", tmp_path, "--host", "127.0.0.1")
        assert f"cannot listen on 127.0.0.1:{port}: " in refused(result)
        with serving(tmp_path, "-c", config) as (_, line):
            assert line.startswith("ready namesrv 127.0.0.1:")


def test_an_address_that_is_not_ours_is_one_sentence(tmp_path: Path) -> None:
    result = run("serve", "namesrv", "--home", tmp_path, "--host", "192.0.2.1", "--port", "0")
    assert "cannot listen on 192.0.2.1:0: " in refused(result)


@pytest.mark.parametrize("host", ["a..b", "a" * 70])
def test_a_host_that_cannot_be_a_name_is_one_sentence(tmp_path: Path, host: str) -> None:
    result = run("serve", "namesrv", "--home", tmp_path, "--host", host, "--port", "0")
    assert f"cannot listen on {host}:0: not a host name" in refused(result)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("descriptor", [0, 1, 2])
def test_a_closed_standard_stream_does_not_keep_it_from_serving(tmp_path: Path, descriptor: int, loop: str) -> None:
    port = free_port()
    with process_with(tmp_path, port, f"{descriptor}>&-", loop) as process:
        until_answered(process, port)
        process.terminate()
        assert process.wait(DEADLINE_SECONDS) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_stdout_that_cannot_be_written_is_a_log_line_and_no_reason_not_to_serve(tmp_path: Path) -> None:
    port = free_port()
    with process_with(tmp_path, port, "1>/dev/full", "uvloop") as process:
        until_answered(process, port)
        process.terminate()
        _, err = process.communicate(timeout=DEADLINE_SECONDS)
        assert process.returncode == 0
    (line,) = err.splitlines()
    assert f"ready namesrv 127.0.0.1:{port} (stdout cannot be written: " in line


@contextmanager
def process_with(home: Path, port: int, redirection: str, loop: str) -> Iterator[subprocess.Popen[str]]:
    """Yield a name server whose streams a shell has changed: it cannot tell us its port, so it is told one."""
    command = [*HANABI, "serve", "namesrv", "--home", str(home), "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(
        ["/bin/sh", "-c", f'exec "$@" {redirection}', "sh", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "HANABI_LOOP": loop},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def until_answered(process: subprocess.Popen[str], port: int) -> None:
    """Ask until it is there to answer; it has announced itself by then, and listens for signals."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_SECONDS) as client:
                client.sendall(encode_request(RequestCode.GET_BROKER_CLUSTER_INFO, 1))
                (frame,) = FrameDecoder().feed(client.recv(4096))
                assert decode_command(frame).code == ResponseCode.SUCCESS
                return
        except ConnectionRefusedError:
            time.sleep(0.02)
    raise AssertionError(f"no answer, exit code {process.poll()}")


def test_a_locked_home_is_one_sentence(tmp_path: Path) -> None:
    with serving(tmp_path) as (process, _):
        result = run("serve", "namesrv", "--home", tmp_path, "--port", "0")
        assert f"in use by another server (process {process.pid})" in refused(result)


def test_a_home_is_free_again_after_kill_9(tmp_path: Path) -> None:
    with serving(tmp_path) as (process, _):
        process.kill()
        process.wait(DEADLINE_SECONDS)
        with serving(tmp_path) as (_, line):
            assert line.startswith("ready")


def test_a_home_that_is_a_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "cannot be written: " in refused(run("serve", "namesrv", "--home", tmp_path / "file", "--port", "0"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("listenPort=many", "listenPort must be a whole number"), (None, "namesrv.conf: No such file")],
)
def test_a_bad_configuration_is_one_sentence(tmp_path: Path, text: str | None, complaint: str) -> None:
    config = tmp_path / "namesrv.conf"
    if text is not None:
        config.write_text(text)
    assert complaint in refused(run("serve", "namesrv", "-c", config, "--home", tmp_path, "--port", "0"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tls.server.mode=enforcing", "tls.server.certPath"),
        ("tls.server.mode=sometimes", "tls.server.mode"),
        (None, "tls.properties: No such file"),
    ],
)
def test_a_bad_tls_configuration_is_one_sentence(tmp_path: Path, text: str | None, complaint: str) -> None:
    path = tmp_path / "tls.properties"
    if text is not None:
        path.write_text(text)
    assert complaint in refused(run("serve", "namesrv", "--tls-config", path, "--home", tmp_path, "--port", "0"))


def test_tls_can_be_switched_off_in_its_file(tmp_path: Path) -> None:
    path = tmp_path / "tls.properties"
    path.write_text("tls.server.mode=disabled\n")
    with serving(tmp_path, "--tls-config", path) as (_, line):
        assert line.startswith("ready")


def test_a_key_that_we_do_not_have_is_a_warning_on_stderr_as_json_if_asked(tmp_path: Path) -> None:
    config = tmp_path / "namesrv.conf"
    config.write_text("needWaitForService=true\n")
    with serving(tmp_path, "-c", config, "--log-json") as (process, _):
        process.terminate()
        _, err = process.communicate(timeout=DEADLINE_SECONDS)
    (line,) = (json.loads(each) for each in err.splitlines())
    assert line["level"] == "WARNING"
    assert line["logger"] == "hanabi.namesrv.config"
    assert "needWaitForService" in line["message"]


def test_the_log_level_decides_how_much_is_told(tmp_path: Path) -> None:
    config = tmp_path / "namesrv.conf"
    config.write_text("needWaitForService=true\n")
    with serving(tmp_path, "-c", config, "--log-level", "error") as (process, _):
        process.terminate()
        _, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert err == ""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_an_idle_name_server_is_small(tmp_path: Path) -> None:
    with serving(tmp_path) as (process, _):
        status = Path(f"/proc/{process.pid}/status").read_text()
        (resident,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
        assert int(resident.split()[1]) < 60 * 1024
