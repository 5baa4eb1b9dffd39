"""`hanabi serve broker` and `hanabi serve` as their users see them: a process, its output, its exit code."""

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

from hanabi.cli.main import app
from hanabi.cli.serve.command import _parse_advertise
from hanabi.errors import ConfigError
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command, decode_command, encode_head
from hanabi.wire.frame import FrameDecoder

HANABI = [sys.executable, "-m", "hanabi"]
DEADLINE_SECONDS = 60.0
SMALL = "mappedFileSizeCommitLog=1048576\nmappedFileSizeConsumeQueue=20000\nmaxHashSlotNum=100\nmaxIndexNum=400\n"


def run(*arguments: str | Path | int) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [*HANABI, *map(str, arguments)], capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
    )


def refused(result: subprocess.CompletedProcess[str]) -> str:
    """Return the one sentence of a start that failed as it should."""
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    line = result.stderr.splitlines()[-1]
    assert line.startswith("hanabi: ")
    assert "Traceback" not in result.stderr
    return line


class Serving:
    """A process, and what it said when it was ready."""

    def __init__(self, process: subprocess.Popen[str], ready: list[str]) -> None:
        self.process, self.ready = process, ready

    @property
    def addresses(self) -> list[str]:
        return [line.rpartition(" ")[2] for line in self.ready]

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=DEADLINE_SECONDS)
        return self.process.returncode, out, err


@contextmanager
def serving(*arguments: str | Path, lines: int = 1, cwd: Path | None = None) -> Iterator[Serving]:
    with subprocess.Popen(
        [*HANABI, "serve", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd
    ) as process:
        try:
            assert process.stdout is not None
            yield Serving(process, [process.stdout.readline().removesuffix("\n") for _ in range(lines)])
        finally:
            process.kill()


@contextmanager
def broker(home: Path, *arguments: str | Path) -> Iterator[Serving]:
    config = home / "small.conf"
    home.mkdir(exist_ok=True)
    config.write_text(SMALL + "brokerName=broker-a\n")
    with serving("broker", "-c", config, "--home", home, "--host", "127.0.0.1", "--port", "0", *arguments) as running:
        yield running


@contextmanager
def both(home: Path, *arguments: str | Path) -> Iterator[Serving]:
    with serving("--home", home, "--namesrv-port", "0", "--broker-port", "0", *arguments, lines=2) as running:
        yield running


def ask(address: str, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> Command:
    host, _, port = address.rpartition(":")
    decoder = FrameDecoder()
    with socket.create_connection((host, int(port)), timeout=DEADLINE_SECONDS) as client:
        client.sendall(encode_head(code=code, opaque=1, fields=fields, body_bytes=len(body)) + body)
        while data := client.recv(1 << 16):
            for frame in decoder.feed(data):
                return decode_command(frame)
    raise AssertionError(f"{address} closed the connection")


def send(address: str, body: bytes) -> None:
    fields = dict(zip("abcdefghi", ("shop", "Orders", "TBW102", "4", "0", "0", "1", "0", ""), strict=True))
    reply = ask(address, RequestCode.SEND_MESSAGE_V2, fields, body)
    assert reply.code == ResponseCode.SUCCESS, reply.remark


def count(address: str) -> int:
    reply = ask(address, RequestCode.GET_MAX_OFFSET, {"topic": "Orders", "queueId": "0"})
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return int(reply.fields()["offset"])


@pytest.mark.parametrize("arguments", [["serve", "--help"], ["serve", "broker", "--help"]])
def test_every_level_explains_itself(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments, prog_name="hanabi", env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == 0
    assert "Usage: hanabi serve" in result.stdout
    for word in ("--home", "--host", "--advertise", "--namesrv", "--tls-config", "--log-level", "--log-json", "ready"):
        assert word in result.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_broker_says_when_it_is_ready_serves_and_stops_cleanly(tmp_path: Path, number: int) -> None:
    with broker(tmp_path) as running:
        assert running.ready[0].startswith("ready broker broker-a 127.0.0.1:")
        send(running.addresses[0], b"x")
        code, out, err = running.stop(number)
    assert (code, out) == (0, ""), err
    assert not (tmp_path / "abort").exists()
    assert {path.name for path in tmp_path.iterdir()} >= {"commitlog", "consumequeue", "config", "checkpoint", "lock"}
    with broker(tmp_path) as running:
        assert count(running.addresses[0]) == 1


def test_what_was_acknowledged_is_there_after_kill_9(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        for number in range(10):
            send(running.addresses[0], b"%d" % number)
        running.process.kill()
        running.process.wait(DEADLINE_SECONDS)
    assert (tmp_path / "abort").exists()
    with broker(tmp_path) as running:
        assert count(running.addresses[0]) == 10
        send(running.addresses[0], b"10")
        assert count(running.addresses[0]) == 11


def test_without_a_command_both_run_in_one_process_and_know_each_other(tmp_path: Path) -> None:
    with both(tmp_path) as running:
        namesrv, address = running.addresses
        assert running.ready == [f"ready namesrv {namesrv}", f"ready broker broker-a {address}"]
        assert namesrv.startswith("127.0.0.1:")
        send(address, b"x")
        until_routed(namesrv, address)
        code, out, err = running.stop()
    assert (code, out) == (0, ""), err
    assert "Traceback" not in err
    assert (tmp_path / "namesrv").is_dir()
    assert (tmp_path / "commitlog").is_dir()


def test_the_name_server_inside_is_protected_by_keys_in_the_file_of_the_broker(tmp_path: Path) -> None:
    account = {"accessKey": "operator", "secretKey": "secret-of-operator"}
    (tmp_path / "plain_acl.yml").write_text(json.dumps({"accounts": [{**account, "admin": True}]}))
    config = tmp_path / "broker.conf"
    protection = f"writeProtectionEnable=true\nwriteAllowedPeers=192.0.2.7\naclFolder={tmp_path}\n"
    config.write_text(f"{SMALL}{protection}innerClientAuthenticationCredentials={json.dumps(account)}\n")
    with both(tmp_path / "h", "-c", config) as running:
        namesrv, address = running.addresses
        put = ask(namesrv, RequestCode.PUT_KV_CONFIG, {"namespace": "N", "key": "k", "value": "v"})
        assert put.code == ResponseCode.NO_PERMISSION
        send(address, b"x")
        until_routed(namesrv, address)  # the broker signs
        _, _, err = running.stop()
    assert "is not a setting" not in err
    shown = json.loads(run("serve", "-c", config, "--config", "--json").stdout)
    assert "writeAllowedPeers" in str(shown["namesrv"])
    assert "writeAllowedPeers" not in str(shown["broker"])


def until_routed(namesrv: str, address: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        route = ask(namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "Orders"})
        if route.code == ResponseCode.SUCCESS and address.encode() in route.body:
            return
        time.sleep(0.02)
    raise AssertionError("no route")


def test_the_default_home_is_in_the_folder_that_one_is_in(tmp_path: Path) -> None:
    with serving("--namesrv-port", "0", "--broker-port", "0", lines=2, cwd=tmp_path) as running:
        assert running.stop()[0] == 0
    assert (tmp_path / "hanabi-data" / "commitlog").is_dir()


def test_the_home_of_the_file_is_used_unless_another_is_asked_for(tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text(f"{SMALL}storePathRootDir={tmp_path / 'of-file'}\nbrokerName=from-file\n")
    arguments = ("broker", "-c", config, "--host", "127.0.0.1", "--port", "0")
    with serving(*arguments) as running:
        assert running.ready[0].startswith("ready broker from-file ")
    with serving(*arguments, "--home", tmp_path / "other"):
        pass
    assert (tmp_path / "of-file" / "config").is_dir()
    assert (tmp_path / "other" / "config").is_dir()


def test_the_port_of_the_file_is_used_unless_another_is_asked_for(tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config.write_text(f"{SMALL}listenPort={port}\n")
        result = run("serve", "broker", "-c", config, "--home", tmp_path, "--host", "127.0.0.1")
        assert f"cannot listen on 127.0.0.1:{port}: Address already in use. Stop the program" in refused(result)


def test_nobody_is_ready_before_both_are(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("serve", "--home", tmp_path, "--namesrv-port", "0", "--broker-port", port)
        assert f"cannot listen on 127.0.0.1:{port}: " in refused(result)


def test_a_broker_without_a_name_server_says_so_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    for options, warnings in (((), 1), (("-n", "127.0.0.1:1"), 0)):
        with broker(tmp_path, *options) as running:
            _, _, err = running.stop()
        assert err.count("no name server is set") == warnings, err


def test_clients_are_told_what_is_advertised_and_a_broker_finds_the_name_server_it_was_given(tmp_path: Path) -> None:
    with serving("namesrv", "--home", tmp_path, "--host", "127.0.0.1", "--port", "0") as namesrv:
        (address,) = namesrv.addresses
        with broker(
            tmp_path / "b", "-n", f"127.0.0.1:1;{address}", "--advertise", "broker.example.org:4711"
        ) as running:
            send(running.addresses[0], b"x")
            until_routed(address, "broker.example.org:4711")


def test_a_broker_that_was_told_no_name_server_takes_that_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving("namesrv", "--home", tmp_path, "--host", "127.0.0.1", "--port", "0") as namesrv:
        monkeypatch.setenv("NAMESRV_ADDR", namesrv.addresses[0])
        with broker(tmp_path / "b") as running:
            send(running.addresses[0], b"x")
            until_routed(namesrv.addresses[0], running.addresses[0])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--advertise", "host:0"], "--advertise 'host:0' has no port between 1 and 65535"),
        (["--advertise", ""], "--advertise needs a host"),
        (["-n", "nowhere"], "name server 'nowhere' is not host:port"),
        (["-c", "no-such.conf"], "no-such.conf: No such file or directory"),
        (["--tls-config", "no-such.conf"], "--tls-config no-such.conf: No such file or directory"),
        (["--host", "192.0.2.1"], "cannot listen on 192.0.2.1:0: "),
    ],
)
def test_a_bad_option_is_one_sentence(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    assert complaint in refused(run("serve", "broker", "--home", tmp_path, "--port", "0", *arguments))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("listenPort=many", "listenPort must be a whole number, not 'many'"),
        ("messageDelayLevel=soon", "messageDelayLevel must be"),
        ("brokerRole=SLAVE", "brokerRole = SLAVE"),
        ("flushDiskType=NEVER", "flushDiskType must be"),
    ],
)
def test_a_bad_key_is_one_sentence(tmp_path: Path, text: str, complaint: str) -> None:
    config = tmp_path / "broker.conf"
    config.write_text(text)
    ports = ("--namesrv-port", "0", "--broker-port", "0")
    assert complaint in refused(run("serve", "-c", config, "--home", tmp_path / "h", *ports))


def test_a_locked_home_and_one_that_is_a_file_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "cannot be written: " in refused(run("serve", "broker", "--home", tmp_path / "file", "--port", "0"))
    assert "cannot be written: " in refused(run("serve", "--home", tmp_path / "file", "--namesrv-port", "0"))
    with broker(tmp_path):
        assert str(tmp_path) in refused(run("serve", "broker", "--home", tmp_path, "--port", "0"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_home_that_may_not_be_written_is_one_sentence(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert "cannot be written: " in refused(run("serve", "broker", "--home", tmp_path / "h", "--port", "0"))


def test_an_option_before_the_command_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    line = refused(run("serve", "--home", tmp_path, "broker"))
    assert "options stand behind the command: hanabi serve broker --home" in line


def test_a_key_that_we_do_not_have_is_one_warning(tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text(SMALL + "enableSingleTopicRegister=true\n")
    with serving(
        "broker", "-c", config, "--home", tmp_path / "h", "--host", "127.0.0.1", "--port", "0", "--log-json"
    ) as running:
        _, _, err = running.stop()
    lines = [json.loads(line) for line in err.splitlines()]
    warnings = [line["message"] for line in lines if line["level"] == "WARNING"]
    assert [text for text in warnings if "no name server" not in text] == [
        f"{config}: enableSingleTopicRegister is not a setting of this broker and has no effect"
    ]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_both_together_are_small_when_idle(tmp_path: Path) -> None:
    with both(tmp_path) as running:
        status = Path(f"/proc/{running.process.pid}/status").read_text()
        (resident,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
        assert int(resident.split()[1]) < 100 * 1024


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("broker", ("broker", 0)),
        ("broker:4711", ("broker", 4711)),
        ("10.0.0.1", ("10.0.0.1", 0)),
        ("[2001:db8::1]:4711", ("2001:db8::1", 4711)),
        ("[2001:db8::1]", ("2001:db8::1", 0)),
        ("2001:db8::1", ("2001:db8::1", 0)),
    ],
)
def test_what_is_advertised_may_have_a_port(text: str, expected: tuple[str, int]) -> None:
    assert _parse_advertise(text) == expected


@pytest.mark.parametrize("text", ["", ":1", "host:", "host:x"])
def test_what_cannot_be_advertised_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--advertise"):
        _parse_advertise(text)


def test_a_slave_follows_its_master_through_kill_9_and_says_so_when_it_is_ready(tmp_path: Path) -> None:
    (tmp_path / "master.conf").write_text(SMALL + "brokerName=broker-a\n")
    with both(tmp_path / "master", "-c", tmp_path / "master.conf") as master:
        namesrv, address = master.addresses
        send(address, b"0")
        config = tmp_path / "slave.conf"
        config.write_text(f"{SMALL}brokerName=broker-a\nbrokerRole=SLAVE\nbrokerId=1\nnamesrvAddr={namesrv}\n")
        arguments = ("broker", "-c", config, "--home", tmp_path / "slave", "--host", "127.0.0.1", "--port", "0")
        for number in range(1, 4):
            with serving(*arguments) as slave:
                assert slave.ready[0].startswith("ready broker broker-a (slave 1 of 127.0.0.1:")
                send(address, b"%d" % number)
                until_counted(slave.addresses[0], number + 1)
                slave.process.kill()
                slave.process.wait(DEADLINE_SECONDS)


def until_counted(address: str, expected: int) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while count(address) != expected:
        assert time.monotonic() < deadline, f"{count(address)} of {expected} messages"
        time.sleep(0.02)
