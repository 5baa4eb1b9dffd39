"""The official clients of RocketMQ 5 at their defaults, with our gRPC port: plain (Python, Node) and TLS (Java, Go)."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hanabi.wire.codes import RequestCode
from tests.interop import jars
from tests.interop.apache import TIMERS, ApacheBroker
from tests.interop.jars import JavaUnavailable, required
from tests.interop.ours import OurBroker
from tests.interop.probe import ask, routes_to
from tests.interop.processes import ServerProcess
from tests.serving import QUICK, Serving, namesrv_process, serving

COUNT = 20
JOURNEYS = Path(__file__).parent / "grpc"
CHECKS: dict[str, object] = {"transactionCheckInterval": 500, "transactionTimeOut": 1_000}
# Apache's broker notes the end of a transaction up to 3 s later: checked sooner, one that was rolled back is committed.
APACHE_CHECKS: dict[str, object] = {"transactionCheckInterval": 1_000, "transactionTimeOut": 6_000, **TIMERS}
TOPICS = ("Python", "Java", "JavaTransactions", "Node", "Go")


def create_topics(broker: str) -> None:
    for topic in TOPICS:
        fields = {"topic": topic, "defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "perm": "6"}
        queues = {"readQueueNums": "4", "writeQueueNums": "4"}
        made = ask(broker, RequestCode.UPDATE_AND_CREATE_TOPIC, {**fields, **queues})
        assert made.code == 0, made.remark


class GrpcServing:
    """A running `hanabi serve` with its gRPC port."""

    def __init__(self, running: Serving) -> None:
        self.endpoint = running.process.wait_for_line("ready grpc ").split()[-1]
        create_topics(running.broker)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcServing]:
    with serving(tmp_path_factory.mktemp("grpc"), QUICK, more=("--grpc-port", "0")) as running:
        yield GrpcServing(running)


def found(find: Callable[[], Path | str]) -> str:
    """Return what *find* finds; skip without it, but not in CI."""
    try:
        return str(find())
    except JavaUnavailable as error:
        if required():
            pytest.fail(f"CI must run this client, but {error}", pytrace=False)
        pytest.skip(f"this client is not here: {error}")


def lines_of(command: list[str], **environment: str) -> list[str]:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=180, check=False, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    return done.stdout.splitlines()


def expected(what: str = "received") -> list[str]:
    return sorted(f"{what}|message {number}|tag|key-{number}|blue" for number in range(COUNT))


def test_the_python_client_sends_receives_acknowledges_and_stops(server: GrpcServing) -> None:
    folder = found(jars.grpc_python)
    command = [sys.executable, str(JOURNEYS / "journey.py"), server.endpoint, "Python", "PythonGroup", str(COUNT)]
    lines = lines_of(command, PYTHONPATH=folder)
    assert sorted(lines[:-1]) == expected()
    assert lines[-1] == "stopped"


def test_the_java_client_pushes_receives_and_ends_transactions(server: GrpcServing) -> None:
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", found(jars.grpc_driver_classpath), "GrpcJourney"]
    lines = lines_of([*command, server.endpoint, "Java", "JavaTransactions", "JavaGroup", str(COUNT)])
    pushed = [f"pushed|message {number}|tag|[key-{number}]|{{colour=blue}}|1" for number in range(COUNT)]
    assert sorted(line for line in lines if line.startswith("pushed")) == sorted(pushed)
    assert "complete true" in lines
    received = sorted(line.split("|")[1] for line in lines if line.startswith("received"))
    assert received == ["checked", "committed"]
    assert lines[-1] == "stopped"


@pytest.mark.slow
def test_the_node_client_sends_receives_acknowledges_and_stops(server: GrpcServing) -> None:
    modules = found(jars.grpc_node_modules)
    command = ["node", str(JOURNEYS / "journey.js"), server.endpoint, "Node", "NodeGroup", str(COUNT)]
    lines = lines_of(command, NODE_PATH=modules)
    assert sorted(lines[:-1]) == expected()


@pytest.mark.slow
def test_the_go_client_sends_receives_acknowledges_and_stops(server: GrpcServing) -> None:
    lines = lines_of([found(jars.grpc_go), server.endpoint, "Go", "GoGroup", str(COUNT)])
    assert sorted(line for line in lines if line.startswith("received")) == expected()


@pytest.mark.slow
@pytest.mark.parametrize("side", ["ours", "apache"])
def test_clients_work_through_our_proxy_before_a_cluster(side: str, tmp_path: Path) -> None:
    folder, java = found(jars.grpc_python), found(jars.grpc_driver_classpath)
    with ExitStack() as stack:
        namesrv = namesrv_process(tmp_path / "namesrv", stack)
        if side == "apache":
            found(lambda: jars.classpath(jars.ALL_5))
            names = {"name": "broker-a", "cluster": "DefaultCluster"}
            apache = ApacheBroker(tmp_path / "broker", jars.ALL_5, **names, namesrv=namesrv, settings=APACHE_CHECKS)
            stack.callback(apache.process.kill)
            apache.wait_ready()
            create_topics(apache.address)
        else:
            ours = OurBroker(tmp_path / "broker", name="broker-a", namesrv=namesrv, settings=CHECKS)
            stack.callback(ours.process.kill)
            ours.wait_ready()
            create_topics(ours.address)
        routes_to(namesrv, "JavaTransactions", "broker-a")
        command = [
            sys.executable,
            "-m",
            "hanabi",
            "serve",
            "proxy",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "-n",
            namesrv,
        ]
        proxy = ServerProcess("hanabi serve proxy", [*command, "--home", str(tmp_path)], tmp_path / "proxy.log")
        stack.callback(proxy.kill)
        endpoint = proxy.wait_for_line("ready proxy ").split()[-1]
        python = [sys.executable, str(JOURNEYS / "journey.py"), endpoint, "Python", "PythonGroup", str(COUNT)]
        lines = lines_of(python, PYTHONPATH=folder)
        assert sorted(lines[:-1]) == expected()
        command = ["java", "-XX:TieredStopAtLevel=1", "-cp", java, "GrpcJourney"]
        lines = lines_of([*command, endpoint, "Java", "JavaTransactions", "JavaGroup", str(COUNT)])
        assert len([line for line in lines if line.startswith("pushed")]) == COUNT
        assert sorted(line.split("|")[1] for line in lines if line.startswith("received")) == ["checked", "committed"]
