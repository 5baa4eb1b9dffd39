"""Two machines that carry each other's slaves: one is lost, and the other serves both broker names."""

import re
from pathlib import Path

import hanabi
from hanabi.testing.waiting import wait_until
from hanabi.wire.codes import RequestCode
from tests.cli.admin_commands import run
from tests.container.crossed import ACTING, broker_file, running_container, running_namesrv
from tests.interop.probe import ask
from tests.interop.processes import ServerProcess

TOPIC = "Crossed"


def received(namesrv: str, wanted: set[bytes]) -> set[bytes]:
    """Consume the topic from its beginning until all *wanted* bodies are there."""
    bodies: set[bytes] = set()
    consumer = hanabi.PushConsumer("g", namesrv=namesrv, consume_from="first", route_refresh_s=1.0, rebalance_s=1.0)
    consumer.subscribe(TOPIC)

    @consumer.listener
    def keep(messages: list[hanabi.StoredMessage]) -> None:
        bodies.update(message.body for message in messages)

    with consumer:
        wait_until(lambda: wanted <= bodies, lambda: f"consuming {sorted(wanted - bodies)}", seconds=90)
    return bodies


def test_the_slave_of_a_lost_machine_acts_as_master_beside_the_other_master(tmp_path: Path) -> None:
    with running_namesrv(tmp_path / "namesrv") as namesrv:
        files = {
            (name, number): broker_file(tmp_path / f"{name}-{number}.conf", name, number, namesrv, ACTING)
            for name in ("broker-a", "broker-b")
            for number in (0, 1)
        }
        one = running_container(tmp_path / "one", files["broker-a", 0], files["broker-b", 1])
        two = running_container(tmp_path / "two", files["broker-b", 0], files["broker-a", 1])
        with one as first, two as second:
            for container in (first, second):
                container.wait_for_brokers(2)
            copied(second.process, namesrv)
            assert run("topic", "create", TOPIC, "--queues", "1", "-n", namesrv).returncode == 0
            second.process.wait_until(lambda: has_topic(files["broker-a", 1]), "copy the topic")
            with hanabi.Producer("p", namesrv=namesrv) as producer:
                bodies = {str(number).encode() for number in range(20)}
                sent = {producer.send(hanabi.Message(TOPIC, body)).queue.broker_name for body in bodies}
                assert sent == {"broker-a", "broker-b"}
                for number in range(2):  # one for each broker
                    producer.send(hanabi.Message(TOPIC, f"late {number}".encode(), delay_level=2))
                    bodies.add(f"late {number}".encode())
            copied(second.process, namesrv)
            first.kill_all()
            assert received(namesrv, bodies) == bodies
            with hanabi.Producer("p", namesrv=namesrv) as producer:
                assert producer.send(hanabi.Message(TOPIC, b"after")).queue.broker_name == "broker-b"


def has_topic(file: Path) -> bool:
    """Return whether the broker of *file* has the topic: a slave copies tables every 10 s."""
    (port,) = re.findall(r"^listenPort=(\d+)$", file.read_text(), re.MULTILINE)
    return TOPIC.encode() in ask(f"127.0.0.1:{port}", RequestCode.GET_ALL_TOPIC_CONFIG).body


def copied(process: ServerProcess, namesrv: str) -> None:
    check = ("broker", "replication", "--max-lag", "0", "-n", namesrv)
    process.wait_until(lambda: run(*check).returncode == 0, "copy everything")
