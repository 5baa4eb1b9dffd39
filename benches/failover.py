"""Recovery of writes: three replicas in controller mode under load, their master killed or stopped.

Ours with our controller and Apache's 5.3.3 with its controller, on this machine, with the same safe settings
(allAckInSyncStateSet, minInSyncReplicas 2) and default timeouts. The time begins with the signal and ends with the
first SEND_OK of a survivor, which is asked every 20 ms. kill -9 is seen as a lost connection, SIGSTOP as silence.

    python -m benches.failover [--quick] [--rounds N] [--only ours|apache]
"""

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from benches.report import keep_figures, publish, table
from hanabi.errors import MQError
from hanabi.remoting.transport.connector import Connector
from hanabi.wire.bodies.v5.controller import SyncStateSetBody
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import decode_body
from hanabi.wire.headers.v5.controller import GetReplicaInfoHeader, GetReplicaInfoReplyHeader
from tests.interop.apache import ApacheBroker, ApacheController, java_environment
from tests.interop.jars import ALL_5, JavaUnavailable, classpath
from tests.interop.processes import ServerProcess, free_port
from tests.serving import SMALL_FILES, namesrv_process

OURS, APACHE = "Hanabi", "Apache 5.3.3"
REPLICAS: Final = 3
TOPIC: Final = "Failover"
NAME: Final = "broker-a"
SAFE: Final[dict[str, object]] = {
    "enableControllerMode": "true",
    "allAckInSyncStateSet": "true",
    "minInSyncReplicas": 2,
    "inSyncReplicas": 2,
    "totalReplicas": REPLICAS,
    "brokerIP1": "127.0.0.1",
    "brokerIP2": "127.0.0.1",
}
BY_LOSS, BY_SILENCE = "kill -9", "SIGSTOP"
DEMANDS: Final = {BY_LOSS: 5.0, BY_SILENCE: 15.0}
LOAD_SECONDS: Final = 1.0
SENDERS: Final = 8
PROBE_SECONDS: Final = 0.02
GIVEN_UP_SECONDS: Final = 120.0
SETTLE_SECONDS: Final = 12.0  # a controller that has just started waits for heartbeats before it elects
JVM: Final = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:-UsePerfData")


@dataclass
class Replica:
    """One broker, which is started again at the same address."""

    address: str
    command: list[str]
    home: Path
    environment: Mapping[str, str] | None = None
    process: ServerProcess | None = None

    def start(self) -> None:
        self.process = ServerProcess(self.home.name, self.command, self.home / "console.log", self.environment)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()

    @property
    def pid(self) -> int:
        if self.process is None:
            raise RuntimeError(f"{self.home.name} was not started")
        return self.process.pid


@dataclass(frozen=True)
class Group:
    """Replicas of one broker name, and their controller."""

    controller: str
    replicas: list[Replica]

    def at(self, address: str) -> Replica:
        return next(replica for replica in self.replicas if replica.address == address)


@contextmanager
def our_group(home: Path) -> Iterator[Group]:
    """Run our controller and our brokers."""
    with ExitStack() as stack:
        namesrv = namesrv_process(home / "namesrv", stack)
        serve = [sys.executable, "-m", "hanabi", "serve"]
        here = ["--host", "127.0.0.1"]
        command = [*serve, "controller", "--home", str(home / "controller"), *here, "--port", "0"]
        controller = ServerProcess("controller", command, home / "controller" / "console.log")
        stack.callback(controller.kill)
        address = controller.wait_for_line("ready controller ").split()[-1]
        group = Group(address, [])
        for number in range(REPLICAS):
            folder, port = home / f"broker-{number}", free_port(beside=(-2, 1))
            folder.mkdir()
            settings = (
                SAFE
                | SMALL_FILES
                | {
                    "brokerName": NAME,
                    "listenPort": port,
                    "storePathRootDir": folder / "store",
                    "namesrvAddr": namesrv,
                    "controllerAddr": address,
                }
            )
            file = folder / "broker.conf"
            file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            _started(Replica(f"127.0.0.1:{port}", [*serve, "broker", "-c", str(file), *here], folder), group, stack)
        yield group


@contextmanager
def apache_group(home: Path) -> Iterator[Group]:
    """Run Apache's controller and brokers, with our name server."""
    with ExitStack() as stack:
        namesrv = namesrv_process(home / "namesrv", stack)
        (home / "controller").mkdir()
        controller = ApacheController(home / "controller")
        stack.callback(controller.process.kill)
        controller.wait_ready()
        group = Group(controller.address, [])
        for number in range(REPLICAS):
            folder = home / f"broker-{number}"
            folder.mkdir()
            settings = SAFE | {"controllerAddr": controller.address, "namesrvAddr": namesrv}
            made = ApacheBroker(
                folder, ALL_5, name=NAME, cluster="DefaultCluster", namesrv=None, jvm=JVM, settings=settings
            )
            replica = Replica(made.address, made.command, folder, java_environment(), made.process)
            group.replicas.append(replica)
            stack.callback(replica.kill)
        yield group


def _started(replica: Replica, group: Group, stack: ExitStack) -> None:
    replica.start()
    group.replicas.append(replica)
    stack.callback(replica.kill)


class Watch:
    """Questions to the controller, and sends to single brokers."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._connector = Connector()

    async def close(self) -> None:
        await self._connector.close()

    async def master(self) -> tuple[str | None, int]:
        """Return the address of the master and the size of its set."""
        try:
            header = GetReplicaInfoHeader(broker_name=NAME)
            reply = await self._connector.request(
                self._group.controller, RequestCode.CONTROLLER_GET_REPLICA_INFO, header, timeout=3.0
            )
            if reply.code != ResponseCode.SUCCESS:
                return None, 0
            body = decode_body(bytes(reply.body), SyncStateSetBody) if reply.body else SyncStateSetBody()
            return reply.header(GetReplicaInfoReplyHeader).master_address, len(body.sync_state_set)
        except (MQError, OSError):
            return None, 0

    async def until_whole(self) -> str:
        """Wait until all replicas are in sync and the master takes a message; return its address."""
        async with asyncio.timeout(300):
            while True:
                address, size = await self.master()
                if address is not None and size == REPLICAS and await self.is_sent(address):
                    return address
                await asyncio.sleep(0.2)

    async def is_sent(self, address: str, seconds: float = 1.0) -> bool:
        """Send one message to one broker; return whether it says SEND_OK."""
        fields = {
            "producerGroup": "bench",
            "topic": TOPIC,
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "4",
            "queueId": "0",
            "sysFlag": "0",
            "bornTimestamp": str(int(time.time() * 1000)),
            "flag": "0",
            "properties": "",
            "reconsumeTimes": "0",
            "unitMode": "false",
            "batch": "false",
        }
        try:
            reply = await self._connector.request(
                address, RequestCode.SEND_MESSAGE, fields, b"x" * 1024, timeout=seconds
            )
        except (MQError, OSError):
            return False
        return reply.code == ResponseCode.SUCCESS

    async def load(self, address: str) -> None:
        """Send for a while, several at once."""
        ends = time.monotonic() + LOAD_SECONDS

        async def sending() -> None:
            while time.monotonic() < ends:
                await self.is_sent(address)

        await asyncio.gather(*(sending() for _ in range(SENDERS)))

    async def until_writable(self, addresses: list[str], since: float) -> float:
        """Ask the survivors until one takes a message; return the seconds since the signal."""
        while time.monotonic() - since < GIVEN_UP_SECONDS:
            if any(await asyncio.gather(*(self.is_sent(address) for address in addresses))):
                return time.monotonic() - since
            await asyncio.sleep(PROBE_SECONDS)
        return GIVEN_UP_SECONDS


async def one_round(group: Group, fault: str) -> float:
    """Take the master away, measure, and bring it back."""
    watch = Watch(group)
    try:
        address = await watch.until_whole()
        master = group.at(address)
        loading = asyncio.create_task(watch.load(address))
        await asyncio.sleep(LOAD_SECONDS / 2)
        began = time.monotonic()
        os.kill(master.pid, signal.SIGKILL if fault == BY_LOSS else signal.SIGSTOP)
        survivors = [replica.address for replica in group.replicas if replica is not master]
        seconds = await watch.until_writable(survivors, began)
        after, size = await watch.master()
        if seconds < GIVEN_UP_SECONDS and (after not in survivors or size < 2):
            print(f"SEND_OK, but the controller has master {after} with {size} replicas in sync", flush=True)
        await loading
        if fault == BY_LOSS:
            master.kill()
            master.start()
        else:
            os.kill(master.pid, signal.SIGCONT)
        return seconds
    finally:
        await watch.close()


GROUPS: Final = {OURS: our_group, APACHE: apache_group}


def measured(name: str, rounds: Mapping[str, int]) -> dict[str, list[float]]:
    """Return the seconds of each round, by fault."""
    with tempfile.TemporaryDirectory() as folder, GROUPS[name](Path(folder)) as group:
        found: dict[str, list[float]] = {}
        time.sleep(SETTLE_SECONDS)
        for fault, count in rounds.items():
            found[fault] = []
            for number in range(count):
                with suppress(TimeoutError):  # the group did not become whole: the row shows how many rounds count
                    found[fault].append(asyncio.run(one_round(group, fault)))
                    print(f"{name}, {fault}, round {number + 1}: {found[fault][-1]:.2f} s", flush=True)
        return found


def main(*, quick: bool = False, rounds: int | None = None, only: str | None = None) -> None:
    count = rounds or (2 if quick else 20)
    names = [OURS]
    missing = ""
    try:
        classpath(ALL_5)
        names.append(APACHE)
    except JavaUnavailable as error:
        missing = f"Apache's part is left out: {error}."
    chosen = [name for name in names if only is None or name.lower().startswith(only)]
    figures = {name: measured(name, {BY_LOSS: count, BY_SILENCE: count}) for name in chosen}
    rows = [
        (
            fault,
            name,
            str(len(seconds)),
            f"{median(seconds):.2f}" if seconds else "-",
            f"{max(seconds):.2f}" if seconds else "-",
            f"{DEMANDS[fault]:g}",
        )
        for name, faults in figures.items()
        for fault, seconds in faults.items()
    ]
    text = (
        "Seconds from the signal to the first SEND_OK of a survivor; three replicas, allAckInSyncStateSet,"
        " minInSyncReplicas 2, default timeouts, 8 senders of 1 KiB. Apache's brokers register with our name server."
    )
    head = ("fault", "servers", "rounds", "median s", "longest s", "demanded s")
    publish("failover", "Recovery of writes after the loss of a master", table(head, rows), text, missing, quick=quick)
    keep_figures("failover", figures)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benches.failover")
    parser.add_argument("--quick", action="store_true", help="two rounds: to see that it works, not to quote")
    parser.add_argument("--rounds", type=int, help="rounds of each fault")
    parser.add_argument("--only", choices=("hanabi", "apache"), help="only these servers")
    given = parser.parse_args()
    main(quick=given.quick, rounds=given.rounds, only=given.only)
