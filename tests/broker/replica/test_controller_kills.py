"""Three brokers in controller mode whose master is killed under load, again and again (SLOW=1: 300 times).

No acknowledged message is lost, no offset is given twice, and what a consumer has read stays where it was.
"""

import logging
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from hanabi import LitePullConsumer, Message, Producer
from hanabi.errors import MQError
from tests.controller.controllers import ControllerProcess
from tests.interop.ours import OurBroker
from tests.serving import namesrv_process

logger = logging.getLogger(__name__)

ROUNDS = int(os.environ.get("HANABI_FAILOVERS", 300 if os.environ.get("HANABI_SLOW_TESTS") else 2))
SETTINGS = {
    "enableControllerMode": "true",
    "allAckInSyncStateSet": "true",
    "minInSyncReplicas": 2,
    "controllerHeartBeatTimeoutMills": 3_000,
    "mappedFileSizeCommitLog": 1 << 22,
    "diskMaxUsedSpaceRatio": 98,
}


class Load:
    """A producer that never gives up; `acked` are the bodies that were answered with SEND_OK."""

    def __init__(self, namesrv: str) -> None:
        self.acked: list[bytes] = []
        self.offsets: dict[int, list[int]] = {}  # of acknowledged messages, by queue, in the order of sending
        self._namesrv, self._ended = namesrv, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with Producer("p", namesrv=self._namesrv, send_timeout_s=2.0) as producer:
            number = 0
            while not self._ended.is_set():
                body = b"<%d>" % number
                number += 1
                try:
                    result = producer.send(Message("T", body))
                except MQError:
                    self._ended.wait(0.05)
                    continue
                if result.status.name == "SEND_OK":
                    self.acked.append(body)
                    self.offsets.setdefault(result.queue.queue_id, []).append(result.queue_offset)

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()


class Reader:
    """A consumer that goes on through all failovers. `read` is what lay at each place of a queue."""

    def __init__(self, namesrv: str) -> None:
        self.read: dict[tuple[int, int], bytes] = {}
        self.changed: list[tuple[tuple[int, int], bytes]] = []  # another message at a known place
        self._namesrv, self._ended = namesrv, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        consumer = LitePullConsumer("g", namesrv=self._namesrv, consume_from="first")
        consumer.subscribe("T")
        with consumer:
            while not self._ended.is_set():
                try:
                    messages = consumer.poll(timeout=0.5)
                except MQError:
                    self._ended.wait(0.2)
                    continue
                for message in messages:
                    place = message.queue.queue_id, message.queue_offset
                    if self.read.setdefault(place, message.body) != message.body:
                        self.changed.append((place, message.body))

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()


def log_of(home: Path) -> bytes:
    files = sorted(file for file in (home / "store" / "commitlog").iterdir() if file.name.isdigit())
    return b"".join(file.read_bytes() for file in files).rstrip(b"\0")


def is_master(broker: OurBroker) -> bool:
    lines = [line for line in broker.process.output().splitlines() if "this broker is " in line]
    return bool(lines) and "is the master of epoch" in lines[-1]


@pytest.mark.long
@pytest.mark.timeout(400 + 30 * ROUNDS)
def test_no_acknowledged_message_is_lost_when_the_master_is_killed_under_load(tmp_path: Path) -> None:
    with ExitStack() as stack:
        controller = ControllerProcess(tmp_path / "controller", settings={"electionWaitMillis": 0})
        stack.callback(controller.process.kill)
        namesrv = namesrv_process(tmp_path / "namesrv", stack)
        settings = {**SETTINGS, "controllerAddr": controller.address}

        def start(number: int) -> OurBroker:
            broker = OurBroker(tmp_path / f"b{number}", name="broker-a", namesrv=namesrv, settings=settings)
            stack.callback(broker.process.kill)
            broker.process.wait_for_line("ready broker ")
            return broker

        def wait(sign: Callable[[], bool], what: str) -> None:
            controller.process.wait_until(sign, what, timeout_s=60)

        brokers = {number: start(number) for number in (1, 2, 3)}
        load = Load(namesrv)
        stack.callback(load.stop)
        wait(lambda: len(load.acked) > 0, "see a message acknowledged")
        reader = Reader(namesrv)
        stack.callback(reader.stop)
        for _ in range(ROUNDS):
            before = len(load.acked)
            wait(lambda before=before: len(load.acked) > before + 20, "see messages acknowledged")  # type: ignore[misc]
            master = next(number for number, broker in brokers.items() if is_master(broker))
            brokers[master].process.kill()
            before = len(load.acked)
            wait(lambda before=before: len(load.acked) > before + 20, "see messages acknowledged again")  # type: ignore[misc]
            brokers[master] = start(master)
        load.stop()
        places = sum(map(len, load.offsets.values()))
        wait(lambda: len(reader.read) >= places, "see all of them read")
        reader.stop()
        homes = [tmp_path / f"b{number}" for number in brokers]
        wait(lambda: len({log_of(home) for home in homes}) == 1, "see equal logs")
        log = log_of(homes[0])
        assert [body for body in load.acked if body not in log] == []
        assert reader.changed == []
        assert [body for body in reader.read.values() if body not in log] == []
        for offsets in load.offsets.values():
            assert offsets == sorted(set(offsets))
        logger.info("%d failovers, %d acknowledged, %d read", ROUNDS, len(load.acked), len(reader.read))
