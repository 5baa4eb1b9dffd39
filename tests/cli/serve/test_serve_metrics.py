"""`hanabi serve --metrics-port`: a port for operators, as a process has it."""

import json
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hanabi as client
from tests.cli.commands import HANABI, environment, hanabi, refused
from tests.metrics.scraping import Figures

DEADLINE_SECONDS = 60.0
SMALL = "mappedFileSizeCommitLog=1048576\nmappedFileSizeConsumeQueue=20000\nmaxHashSlotNum=100\nmaxIndexNum=400\n"


@contextmanager
def serving(*arguments: str, lines: int) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """Yield a process, and the addresses of what is ready in it."""
    with subprocess.Popen(
        [*HANABI, "serve", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        try:
            assert process.stdout is not None
            ready = [process.stdout.readline().split() for _ in range(lines)]
            yield process, {words[1]: words[-1] for words in ready}
        finally:
            process.kill()


def get(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=DEADLINE_SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_both_servers_of_a_process_show_themselves_on_one_port(tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text(SMALL)
    arguments = ("-c", str(config), "--home", str(tmp_path / "home"), "--namesrv-port", "0", "--broker-port", "0")
    with serving(*arguments, "--metrics-port", "0", lines=3) as (process, ready):
        assert list(ready) == ["namesrv", "broker", "metrics"]
        with client.Producer("shop", namesrv=ready["namesrv"]) as producer:
            for _ in range(3):
                producer.send(client.Message("Orders", b"x"))
        status, text = get(ready["metrics"], "/metrics")
        figures = Figures(text)
        assert status == 200
        assert figures("hanabi_messages_in_total", topic="Orders") == 3
        assert figures("hanabi_request_seconds_count", server="broker", request="SEND_MESSAGE_V2") == 3
        assert figures("hanabi_namesrv_brokers") == 1
        assert get(ready["metrics"], "/health") == (200, "ok\n")
        status, state = get(ready["metrics"], "/ready")
        assert (status, json.loads(state)["ready"]) == (200, True)
        process.terminate()
        _, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0
    assert "Traceback" not in err


def test_a_name_server_alone_has_one_too(tmp_path: Path) -> None:
    arguments = ("namesrv", "--home", str(tmp_path), "--host", "127.0.0.1", "--port", "0", "--metrics-port", "0")
    with serving(*arguments, lines=2) as (_, ready):
        figures = Figures(get(ready["metrics"], "/metrics")[1])
        assert figures("hanabi_namesrv_brokers") == 0
        assert not figures.has("hanabi_topics")
        assert json.loads(get(ready["metrics"], "/ready")[1]) == {"ready": True, "checks": {"namesrv": "ok"}}


def test_a_broker_that_no_name_server_knows_serves_and_is_not_ready(tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text(SMALL)
    arguments = ("broker", "-c", str(config), "--home", str(tmp_path), "--host", "127.0.0.1", "--port", "0")
    with serving(*arguments, "-n", "127.0.0.1:1", "--metrics-port", "0", lines=2) as (_, ready):
        status, state = get(ready["metrics"], "/ready")
        assert status == 503
        assert json.loads(state)["checks"]["registered"] == "none of the name servers 127.0.0.1:1 knows this broker"
        assert get(ready["metrics"], "/health") == (200, "ok\n")


def test_a_taken_port_is_one_sentence_and_nothing_is_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = hanabi(
            *("serve", "--home", str(tmp_path / "x"), "--namesrv-port", "0", "--broker-port", "0"),
            *("--metrics-port", str(port)),
        )
        assert f"cannot listen on 127.0.0.1:{port} for metrics: " in refused(result, 2)
    assert not (tmp_path / "x" / "commitlog").exists()


def test_a_host_of_its_own_can_be_asked_for(tmp_path: Path) -> None:
    result = hanabi(
        *("serve", "namesrv", "--home", str(tmp_path), "--port", "0", "--host", "127.0.0.1"),
        *("--metrics-port", "0", "--metrics-host", "192.0.2.1"),
    )
    assert "cannot listen on 192.0.2.1:0 for metrics: " in refused(result, 2)
