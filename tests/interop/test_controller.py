"""Apache's 5.3 brokers in controller mode, and Apache's mqadmin, with our controller."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.controller.controllers import ControllerProcess
from tests.interop.apache import ApacheBroker
from tests.interop.jars import ALL_5
from tests.interop.mqadmin import MqAdmin
from tests.interop.processes import ServerProcess
from tests.serving import namesrv_process

pytestmark = pytest.mark.usefixtures("apache_jars")
SMALL_JVM = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
SETTINGS = {
    "enableControllerMode": "true",
    "brokerIP2": "127.0.0.1",
    "allAckInSyncStateSet": "true",
    "registerNameServerPeriod": 10_000,
    "controllerHeartBeatTimeoutMills": 5_000,
}
REPLICAS = 3 if os.environ.get("SLOW") else 2


class Replicas:
    """Brokers of one name in controller mode, and mqadmin to ask about them."""

    def __init__(self, home: Path, stack: ExitStack, count: int) -> None:
        self.controller = ControllerProcess(home / "controller")
        stack.callback(lambda: self.controller.process.kill())
        self._namesrv, self._stack, self._home = namesrv_process(home / "namesrv", stack), stack, home
        self.brokers = {number: self._start(number) for number in range(1, count + 1)}
        self._admin = MqAdmin(_made(home / "admin"), ALL_5, jvm=SMALL_JVM)
        stack.callback(self._admin.close)

    def _start(self, number: int) -> ApacheBroker:
        """Start one and wait until it has its id, so that ids are in order."""
        broker = ApacheBroker(
            self._home / f"broker-{number}",
            ALL_5,
            name="broker-a",
            cluster="c",
            namesrv=None,
            jvm=SMALL_JVM,
            settings={**SETTINGS, "controllerAddr": self.controller.address, "namesrvAddr": self._namesrv},
        )
        self._stack.callback(lambda: broker.process.kill())
        identity = self._home / f"broker-{number}" / "store" / "brokerIdentity"
        broker.process.wait_until(identity.exists, "get its id")
        assert identity.read_text() == f"c#broker-a#{number}"
        return broker

    def mqadmin(self, *arguments: str) -> str:
        return self._admin.run(self._namesrv, *arguments)

    def state(self) -> SimpleNamespace:
        """What mqadmin getSyncStateSet says."""
        text = self.mqadmin("getSyncStateSet", "-a", self.controller.address, "-b", "broker-a")
        values = dict(re.findall(r"#(\w+)\t(\S+)", text))
        in_sync = sorted(int(each) for each in re.findall(r"\nInSyncReplica:.*?brokerId=(\d+)", text))
        return SimpleNamespace(master=values.get("MasterBrokerId"), epoch=values.get("MasterEpoch"), in_sync=in_sync)

    def wait(self, process: ServerProcess, sign: Callable[[SimpleNamespace], bool], what: str) -> SimpleNamespace:
        process.wait_until(lambda: sign(self.state()), what, timeout_s=120)
        return self.state()


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Replicas]:
    with ExitStack() as stack:
        yield Replicas(tmp_path, stack, REPLICAS)


def test_apaches_brokers_elect_follow_and_fail_over_with_our_controller(replicas: Replicas) -> None:
    everyone = list(range(1, REPLICAS + 1))
    running = replicas.brokers[2].process
    first = replicas.wait(running, lambda seen: seen.in_sync == everyone, "be in sync")
    assert (first.master, first.epoch) == ("1", "1")

    metadata = replicas.mqadmin("getControllerMetaData", "-a", replicas.controller.address)
    assert f"#ControllerLeaderAddress\t{replicas.controller.address}" in metadata
    assert "notifyBrokerRoleChanged" in replicas.mqadmin("getControllerConfig", "-a", replicas.controller.address)

    replicas.brokers[1].process.kill()
    second = replicas.wait(running, lambda seen: seen.master not in ("1", "null"), "take over")
    assert second.master in map(str, everyone[1:])
    assert second.epoch == "2"
    assert 1 not in second.in_sync

    replicas.brokers[1].start_again()
    replicas.wait(running, lambda seen: seen.in_sync == everyone, "be in sync with the old master as a slave")
    elect = ("electMaster", "-a", replicas.controller.address, "-b", "1", "-bn", "broker-a", "-c", "c")
    assert f"#BrokerMasterAddr\t{replicas.brokers[1].address}" in replicas.mqadmin(*elect)
    third = replicas.wait(running, lambda seen: seen.in_sync == everyone, "follow the designated master")
    assert (third.master, third.epoch) == ("1", "3")

    clean = ("cleanBrokerMetadata", "-a", replicas.controller.address, "-bn", "broker-a", "-c", "c", "-b", "2")
    assert "still alive" in replicas.mqadmin(*clean)
    running.kill()
    replicas.wait(replicas.brokers[1].process, lambda seen: 2 not in seen.in_sync, "lose a slave")
    assert "success" in replicas.mqadmin(*clean)
