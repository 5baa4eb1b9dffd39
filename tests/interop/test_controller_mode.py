"""Our broker and Apache's 5.3 broker in one group, with Apache's controller and with ours: each is master and slave."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hanabi import Message, Producer
from hanabi.remoting.transport.connector import Connector
from hanabi.wire.bodies.v5.controller import SyncStateSetBody
from hanabi.wire.codes import RequestCode
from hanabi.wire.fastjson import decode_body
from hanabi.wire.headers.v5 import controller as headers
from tests.controller.controllers import ControllerProcess
from tests.interop.apache import SMALL_FILES, ApacheBroker, ApacheController
from tests.interop.jars import ALL_5
from tests.interop.ours import OurBroker
from tests.interop.processes import ServerProcess
from tests.serving import namesrv_process

pytestmark = pytest.mark.usefixtures("apache_jars")
SMALL_JVM = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
SETTINGS = {
    "brokerClusterName": "c",
    "enableControllerMode": "true",
    "brokerIP2": "127.0.0.1",
    "allAckInSyncStateSet": "true",
    "registerNameServerPeriod": 10_000,
    "controllerHeartBeatTimeoutMills": 5_000,
    **SMALL_FILES,
}
JAVA, OURS = 1, 2


class Group:
    """A Java broker with id 1 and ours with id 2, and their controller."""

    def __init__(self, home: Path, stack: ExitStack, controller: str) -> None:
        self._home, self._stack, self.controller = home, stack, controller
        self.namesrv = namesrv_process(home / "namesrv", stack)
        self.settings = {**SETTINGS, "controllerAddr": controller, "namesrvAddr": self.namesrv}
        self.java = ApacheBroker(
            home / "java", ALL_5, name="broker-a", cluster="c", namesrv=None, jvm=SMALL_JVM, settings=self.settings
        )
        stack.callback(lambda: self.java.process.kill())
        self.wait(self.java.process, lambda: self.state()[0] == JAVA, "become the master")
        self.ours = self.start_ours()

    def start_ours(self) -> OurBroker:
        ours = OurBroker(self._home / "ours", name="broker-a", namesrv=self.namesrv, settings=self.settings)
        self._stack.callback(ours.process.kill)
        ours.process.wait_for_line("ready broker broker-a (controller mode) ")
        return ours

    def state(self) -> tuple[int | None, set[int]]:
        """Return the master and the replicas in sync, as the controller says."""
        return asyncio.run(self._ask())

    async def _ask(self) -> tuple[int | None, set[int]]:
        connector = Connector()
        try:
            header = headers.GetReplicaInfoHeader(broker_name="broker-a")
            reply = await connector.request(self.controller, RequestCode.CONTROLLER_GET_REPLICA_INFO, header)
        finally:
            await connector.close()
        body = decode_body(bytes(reply.body), SyncStateSetBody) if reply.body else SyncStateSetBody()
        return reply.header(headers.GetReplicaInfoReplyHeader).master_broker_id, set(body.sync_state_set)

    def wait(self, process: ServerProcess, sign: Callable[[], bool], what: str) -> None:
        process.wait_until(sign, what, timeout_s=90)

    def both_in_sync(self, process: ServerProcess, master: int) -> None:
        self.wait(process, lambda: self.state() == (master, {JAVA, OURS}), f"be in sync with master {master}")

    def send(self, process: ServerProcess, start: int) -> None:
        """Send ten messages, as soon as the name server shows the new master."""
        with Producer("p", namesrv=self.namesrv) as producer:
            for at in range(start, start + 10):
                process.wait_until(lambda at=at: _is_sent(producer, at), f"take message {at}", timeout_s=60)  # type: ignore[misc]

    def logs(self) -> list[bytes]:
        return [_log(self._home / name / "store" / "commitlog") for name in ("java", "ours")]


def _is_sent(producer: Producer, at: int) -> bool:
    try:
        producer.send(Message("T", f"message {at}".encode()))
    except Exception:  # noqa: BLE001 - between two masters
        return False
    return True


def _log(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.iterdir()) if file.name.isdigit()).rstrip(b"\0")


@pytest.fixture(params=["apaches", "ours"])
def group(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Group]:
    with ExitStack() as stack:
        if request.param == "apaches":
            controller = ApacheController(tmp_path / "controller")
            stack.callback(controller.process.kill)
            controller.wait_ready()
            address = controller.address
        else:
            own = ControllerProcess(tmp_path / "controller")
            stack.callback(lambda: own.process.kill())
            address = own.address
        yield Group(tmp_path, stack, address)


def test_apaches_broker_and_ours_follow_each_other_and_take_over_from_each_other(group: Group) -> None:
    running = group.ours.process
    group.both_in_sync(running, JAVA)
    group.send(running, 0)
    group.wait(running, lambda: len(set(group.logs())) == 1, "have the same log")

    group.java.process.kill()
    group.wait(running, lambda: group.state()[0] == OURS, "take over")
    group.send(running, 10)
    group.java.start_again()
    group.both_in_sync(group.java.process, OURS)
    group.send(running, 20)
    group.wait(group.java.process, lambda: len(set(group.logs())) == 1, "have the same log")

    group.ours.process.kill()
    group.wait(group.java.process, lambda: group.state()[0] == JAVA, "take over")
    group.send(group.java.process, 30)
    group.ours = group.start_ours()
    group.both_in_sync(group.ours.process, JAVA)
    group.wait(group.ours.process, lambda: len(set(group.logs())) == 1, "have the same log")
    log = group.logs()[1]
    assert all(f"message {at}".encode() in log for at in range(40))
