"""Starts of consumers of other clients: how many begin late, and how many get messages twice.

    python -m tests.interop.client_starts rust|npm ours|apache-4|apache-5 RUNS [MEMBERS]

Each run is a new group, of one consumer or of several that start at once, on a topic that has messages. A run is late
if it has not all messages after five seconds: it missed its first share of the queues and waits for the next, ten or
twenty seconds later. It is double if a message came twice: two loops pull one queue. The name server is ours each time,
so what differs is the broker's.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hanabi.wire.codes import RequestCode
from tests.interop.apache import ApacheBroker
from tests.interop.jars import ALL_5, SERVERS_4, node_modules, rust_peer
from tests.interop.ours import OurBroker, OurNameServer
from tests.interop.probe import ask, routes_to

NODE_PEER: Final = Path(__file__).parent / "node" / "rocketmq_peer.js"
TOPIC: Final = "Starts"
MESSAGES: Final = 8
SECONDS: Final = 5
DEADLINE_SECONDS: Final = 60


class Peer:
    """A client that is a program: `send` and `consume`, as rust/src/main.rs describes them."""

    def __init__(self, command: Sequence[str], environment: dict[str, str]) -> None:
        self._command, self._environment = command, environment

    def run(self, *arguments: str) -> list[str]:
        """Return the lines that it writes."""
        done = subprocess.run(
            [*self._command, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    def consumed(self, namesrv: str, topic: str, group: str, *, tags: str = "*", seconds: int = SECONDS) -> list[str]:
        """Return the messages of a consumer that runs for so many *seconds*: tag, key and body, in the order they
        came."""
        lines = self.run("consume", namesrv, topic, group, tags, str(seconds))
        return [line.split(maxsplit=4)[4] for line in lines if line.startswith("got ")]


def peer(name: str) -> Peer:
    """Return the client *name*; raises JavaUnavailable where it cannot be had."""
    if name == "rust":
        return Peer([str(rust_peer())], dict(os.environ))
    return Peer(["node", str(NODE_PEER)], {**os.environ, "NODE_PATH": str(node_modules())})


@contextmanager
def site(kind: str, home: Path) -> Iterator[tuple[str, str]]:
    """Yield the addresses of our name server and of a broker of some *kind*."""
    name_server = OurNameServer(home / "namesrv")
    try:
        name_server.wait_ready()
        broker = _broker(kind, home / "broker", name_server.address)
        try:
            broker.wait_ready()
            yield name_server.address, broker.address
        finally:
            broker.process.kill()
    finally:
        name_server.process.kill()


def _broker(kind: str, home: Path, namesrv: str) -> "OurBroker | ApacheBroker":
    if kind == "ours":
        return OurBroker(home, name="broker-a", namesrv=namesrv)
    jars = {"apache-4": SERVERS_4, "apache-5": ALL_5}[kind]
    return ApacheBroker(home, jars, name="broker-a", cluster="DefaultCluster", namesrv=namesrv)


def make_topic(namesrv: str, broker: str, topic: str, queues: int = 4) -> None:
    """Make *topic*; the name server knows it when this returns."""
    header = {"topic": topic, "defaultTopic": "TBW102", "perm": "6", "topicFilterType": "SINGLE_TAG"}
    counts = {"readQueueNums": str(queues), "writeQueueNums": str(queues)}
    made = ask(broker, RequestCode.UPDATE_AND_CREATE_TOPIC, {**header, **counts})
    assert made.code == 0, made.remark
    assert routes_to(namesrv, topic, "broker-a")


def measure(client: Peer, namesrv: str, runs: int, members: int) -> tuple[int, int]:
    """Return how many of so many starts were late, and how many were double."""
    late = double = 0
    with ThreadPoolExecutor(members) as pool:
        for number in range(runs):
            group = f"starts_{os.getpid()}_{number}"
            parts = pool.map(lambda _, group=group: client.consumed(namesrv, TOPIC, group), range(members))
            got = [message for part in parts for message in part]
            late += len(set(got)) < MESSAGES
            double += len(got) > len(set(got))
    return late, double


def main() -> None:
    client, kind, runs = peer(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    members = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    with tempfile.TemporaryDirectory() as home, site(kind, Path(home)) as (namesrv, broker):
        make_topic(namesrv, broker, TOPIC)
        client.run("send", namesrv, TOPIC, str(MESSAGES))
        late, double = measure(client, namesrv, runs, members)
    sys.stdout.write(f"{sys.argv[1]} with {kind}: of {runs} starts of {members} {late} late, {double} double\n")


if __name__ == "__main__":
    main()
