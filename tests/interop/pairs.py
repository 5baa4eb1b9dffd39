"""Pairs of whole brokers, a master and its slave in processes of their own: Apache's, and ours."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from hanabi.wire.codes import RequestCode
from tests.interop.apache import ApacheBroker, properties
from tests.interop.ours import OurNameServer
from tests.interop.probe import ask
from tests.interop.processes import ServerProcess, free_port

NAME = "broker-a"
OURS = "ours"


class PairBroker(Protocol):
    """One broker of a pair. `process.kill()` and `start_again()`: with the same files, at the same address."""

    process: ServerProcess
    address: str

    def start_again(self) -> None: ...


class OurPairBroker:
    """`hanabi serve broker` at a port that it keeps when it is started again."""

    def __init__(self, home: Path, namesrv: str, settings: Mapping[str, object]) -> None:
        self.address = f"127.0.0.1:{(port := free_port(beside=(-2, 1)))}"
        config = properties(home / "broker.conf", {"brokerName": NAME, "brokerClusterName": "C", **settings})
        serve = (sys.executable, "-m", "hanabi", "serve", "broker", "-c", str(config), "--home", str(home / "store"))
        self._command = [*serve, "--host", "127.0.0.1", "--port", str(port), "-n", namesrv]
        self._log = home / "console.log"
        self.start_again()

    def start_again(self) -> None:
        self.process = ServerProcess(f"our {NAME}", self._command, self._log)


class BrokerPair:
    """A master with one slave, and the name server that knows them."""

    def __init__(self, namesrv: str, master: PairBroker, slave: PairBroker) -> None:
        self.namesrv, self.master, self.slave = namesrv, master, slave

    def wait_known(self, broker: PairBroker) -> None:
        """Until the name server lists *broker*."""
        broker.process.wait_until(lambda: self._knows(broker), f"register with {self.namesrv}")

    def _knows(self, broker: PairBroker) -> bool:
        return f'"{broker.address}"'.encode() in ask(self.namesrv, RequestCode.GET_BROKER_CLUSTER_INFO).body


def _broker(kind: str, home: Path, namesrv: str, settings: Mapping[str, object]) -> PairBroker:
    if kind == OURS:
        return OurPairBroker(home, namesrv, settings)
    local = {"brokerIP2": "127.0.0.1", **settings}
    return ApacheBroker(home, kind, name=NAME, cluster="C", namesrv=namesrv, settings=local)


@contextmanager
def running_pair(home: Path, master_kind: str, slave_kind: str, **settings: object) -> Iterator[BrokerPair]:
    """A pair; each kind is one of Apache's sets of jars, or `OURS`. *settings* are those of the slave."""
    with ExitStack() as stack:
        name_server = OurNameServer(home / "namesrv")
        stack.callback(name_server.process.kill)
        name_server.wait_ready()
        master = _broker(master_kind, home / "master", name_server.address, {"brokerRole": "ASYNC_MASTER"})
        stack.callback(lambda: master.process.kill())
        as_slave = {"brokerRole": "SLAVE", "brokerId": 1, **settings}
        slave = _broker(slave_kind, home / "slave", name_server.address, as_slave)
        stack.callback(lambda: slave.process.kill())
        pair = BrokerPair(name_server.address, master, slave)
        pair.wait_known(master)
        pair.wait_known(slave)
        yield pair
