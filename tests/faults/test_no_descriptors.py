"""A broker that may open few files, with more idle clients and more topics than that: every message is readable."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.faults.broker_process import broker_process
from tests.faults.exchange import Exchange, talk
from tests.faults.limits import limits

TOPICS = [f"Topic{number}" for number in range(120)]
DESCRIPTORS = 160


@contextmanager
def idle_clients(ports: tuple[int, ...], count: int) -> Iterator[None]:
    """Connections that say nothing, on all *ports*. Those that are refused are the broker's to count."""
    with ExitStack() as stack:
        for number in range(count):
            stack.enter_context(socket.create_connection(("127.0.0.1", ports[number % len(ports)])))
        yield


async def send_to_all(exchange: Exchange) -> None:
    for topic in TOPICS:
        answer = await exchange.send(topic.encode(), topic=topic)
        assert answer.code == 0, answer.remark


def test_every_message_is_readable_with_more_clients_and_topics_than_descriptors(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with broker_process(home) as broker:
        talk(broker.wait_ready().port, send_to_all)
        broker.process.stop()

    async def read_all(exchange: Exchange) -> dict[str, list[bytes]]:
        with idle_clients((broker.port, fast_port), 2 * DESCRIPTORS):
            found = {topic: await exchange.bodies(topic=topic) for topic in TOPICS}
            for topic in TOPICS:  # written to as well
                assert (await exchange.send(b"more", topic=topic)).code == 0
        return found

    with (
        limits(descriptors=DESCRIPTORS) as launcher,
        broker_process(home, {"fastListenPortEnable": "true"}, around=launcher) as broker,
    ):
        fast_port = broker.wait_ready().port - 2
        found = talk(broker.port, read_all)
        assert "kept for the store" in broker.process.output()
        assert "Too many open files" not in broker.process.output()
    missing = [topic for topic in TOPICS if topic.encode() not in found[topic]]
    assert not missing
