"""`hanabi serve container` as an operator sees it: ready lines, restarts, ADD_BROKER, REMOVE_BROKER, a clean stop."""

import http.client
import os
import re
import signal
from pathlib import Path

from hanabi.remoting.transport.connector import Connector
from hanabi.testing.waiting import eventually, wait_until
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.header import Header, NoHeader
from hanabi.wire.headers.admin import AddBrokerHeader, RemoveBrokerHeader
from tests.cli.admin_commands import run
from tests.cli.commands import refused
from tests.container.crossed import BESIDE, ContainerProcess, broker_file, running_container
from tests.interop.processes import free_port
from tests.serving import SMALL_FILES


def ready(container: ContainerProcess, name: str, count: int = 1) -> bool:
    return len(re.findall(rf"^ready broker {name} ", container.process.output(), re.MULTILINE)) == count


async def asked(container: ContainerProcess, code: RequestCode, header: Header) -> tuple[int, str]:
    connector = Connector()
    try:
        reply = await connector.request(container.address, code, header, timeout=60)
        return reply.code, reply.remark or ""
    finally:
        await connector.close()


async def test_brokers_are_added_started_again_and_removed(tmp_path: Path) -> None:
    file = broker_file(tmp_path / "a.conf", "broker-a", 0, "")
    added = AddBrokerHeader(config_path=str(file))
    removed = RemoveBrokerHeader(broker_cluster_name="DefaultCluster", broker_name="broker-a", broker_id=0)
    with running_container(tmp_path / "c") as container:
        for header, sentence in (
            (AddBrokerHeader(config_path=""), "addBroker config path is empty"),
            (AddBrokerHeader(config_path="/nonexistent.conf"), "/nonexistent.conf: No such file"),
        ):
            code, remark = await asked(container, RequestCode.ADD_BROKER, header)
            assert code == ResponseCode.SYSTEM_ERROR
            assert sentence in remark
        assert (await asked(container, RequestCode.REMOVE_BROKER, removed))[0] == ResponseCode.BROKER_NOT_EXIST
        assert await asked(container, RequestCode.ADD_BROKER, added) == (0, "")
        assert ready(container, "broker-a")
        code, remark = await asked(container, RequestCode.ADD_BROKER, added)
        assert (code, "already been added" in remark) == (ResponseCode.SYSTEM_ERROR, True)
        os.kill(container.children()[0], signal.SIGKILL)
        await eventually(lambda: ready(container, "broker-a", 2), "the broker is started again", 120)
        assert "broker broker-a:0 was killed by signal 9" in container.process.output()
        assert "[broker broker-a:0] " in container.process.output()
        assert await asked(container, RequestCode.REMOVE_BROKER, removed) == (0, "")
        assert container.children() == []
        assert (await asked(container, RequestCode.UPDATE_BROKER_CONFIG, NoHeader()))[0] == ResponseCode.NO_PERMISSION


def test_a_broker_that_cannot_start_leaves_the_others_alone_and_sigterm_stops_all(tmp_path: Path) -> None:
    good = broker_file(tmp_path / "a.conf", "broker-a", 0, "")
    bad = broker_file(tmp_path / "b.conf", "broker-b", 0, "")
    (tmp_path / "b").write_text("where its directory should be")
    with running_container(tmp_path / "c", good, bad) as container:
        process = container.process
        process.wait_until(lambda: ready(container, "broker-a"), "start the good broker")
        process.wait_until(
            lambda: "broker broker-b:0 ended with exit code 2" in process.output(), "tell of the bad one"
        )
        (broker, *_) = container.children()
        process.terminate()
        assert process.wait_ended() == 0
        assert not Path(f"/proc/{broker}").exists()
        assert process.output().count("ready broker broker-b") == 0


def test_brokers_end_when_their_container_is_killed(tmp_path: Path) -> None:
    file = broker_file(tmp_path / "a.conf", "broker-a", 0, "")
    with running_container(tmp_path / "c", file) as container:
        container.process.wait_until(lambda: ready(container, "broker-a"), "start the broker")
        (broker,) = container.children()
        container.process.kill()
        wait_until(lambda: not Path(f"/proc/{broker}").exists(), "the broker ends", 60)


def test_wrong_settings_stop_the_start_in_one_sentence(tmp_path: Path) -> None:
    one = broker_file(tmp_path / "a.conf", "broker-a", 0, "")
    home = ("--home", str(tmp_path / "c"), "--host", "127.0.0.1", "--port", "0")
    twice = run("serve", "container", "-b", f"{one}:{one}", *home)
    assert "DefaultCluster_broker-a_0 has already been added" in refused(twice, 2)
    absent = run("serve", "container", "-b", "/nonexistent.conf", *home)
    assert refused(absent, 2) == "/nonexistent.conf: No such file or directory"


async def test_a_container_that_is_protected_starts_brokers_only_for_its_operators(tmp_path: Path) -> None:
    config = tmp_path / "container.conf"
    config.write_text("writeProtectionEnable=true\nwriteAllowedPeers=192.0.2.1\n")
    with running_container(tmp_path / "c", config=config) as container:
        header = AddBrokerHeader(config_path=str(tmp_path / "a.conf"))
        code, remark = await asked(container, RequestCode.ADD_BROKER, header)
        assert (code, "writeAllowedPeers" in remark) == (ResponseCode.NO_PERMISSION, True)
        assert (await asked(container, RequestCode.GET_BROKER_CONFIG, NoHeader()))[0] == 0


def test_the_metrics_ports_of_its_brokers_are_protected_by_its_options(tmp_path: Path) -> None:
    token, offset = "a-token-of-20-letters", 5
    (tmp_path / "token").write_text(token)
    port = free_port(beside=(*BESIDE, offset))
    file = broker_file(tmp_path / "a.conf", "broker-a", 0, "", {**SMALL_FILES, "listenPort": port})
    options = ["--metrics-offset", str(offset), "--metrics-allow", "192.0.2.7"]
    options += ["--metrics-token-file", str(tmp_path / "token")]
    with running_container(tmp_path / "c", file, options=options) as container:
        container.wait_for_brokers(1)
        wait_until(lambda: _status(port + offset, "/health") == 200, "the metrics port answers", 60)
        assert _status(port + offset, "/metrics") == 401
        assert _status(port + offset, "/metrics", {"Authorization": f"Bearer {token}"}) == 200


def test_protection_of_metrics_ports_that_are_not_there_stops_the_start(tmp_path: Path) -> None:
    home = ("--home", str(tmp_path / "c"), "--host", "127.0.0.1", "--port", "0")
    alone = run("serve", "container", *home, "--metrics-allow", "10.0.0.0/8")
    assert "go with --metrics-offset" in refused(alone, 2)
    wrong = run("serve", "container", *home, "--metrics-offset", "5", "--metrics-allow", "10.0.0")
    assert "10.0.0" in refused(wrong, 2)


def _status(port: int, path: str, headers: dict[str, str] | None = None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path, headers=headers or {})
        return connection.getresponse().status
    except ConnectionRefusedError:
        return 0
    finally:
        connection.close()
