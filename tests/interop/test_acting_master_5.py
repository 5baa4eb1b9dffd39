"""A slave that acts as master beside Apache's 5.3: our slave for Apache's master."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hanabi import Message, Producer
from hanabi.remoting.transport.connector import Connector
from hanabi.wire.codes import RequestCode
from hanabi.wire.headers.offset import OffsetReplyHeader, QueryConsumerOffsetHeader, UpdateConsumerOffsetHeader
from tests.interop.apache import ApacheBroker
from tests.interop.jars import ALL_5
from tests.interop.ours import OurBroker, OurNameServer

pytestmark = [pytest.mark.usefixtures("apache_jars"), pytest.mark.slow]

GROUP = "TOOLS_CONSUMER"  # every broker has it: an offset of an unknown group is refused
SMALL_JVM = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
SETTINGS = {
    "brokerClusterName": "c",
    "brokerIP2": "127.0.0.1",
    "enableSlaveActingMaster": "true",
    "slaveReadEnable": "true",
    "totalReplicas": 2,
    "consumerOffsetUpdateVersionStep": 1,  # each commit is a version
}


class Pair:
    """Apache's master and our slave, with our name server."""

    def __init__(self, home: Path, stack: ExitStack) -> None:
        settings_file = home / "namesrv.conf"
        settings_file.write_text("supportActingMaster=true\n")
        namesrv = OurNameServer(home / "namesrv", "-c", str(settings_file))
        stack.callback(namesrv.process.kill)
        namesrv.wait_ready()
        self.namesrv = namesrv.address
        settings = {**SETTINGS, "namesrvAddr": self.namesrv}
        self.java = ApacheBroker(
            home / "java", ALL_5, name="broker-a", cluster="c", namesrv=self.namesrv, jvm=SMALL_JVM, settings=settings
        )
        stack.callback(lambda: self.java.process.kill())
        self.java.wait_ready()
        # A master of 5.x asks for the progress of timers at the fast port.
        slave = {**settings, "brokerRole": "SLAVE", "brokerId": 1, "fastListenPortEnable": "true"}
        self.ours = OurBroker(home / "ours", name="broker-a", namesrv=self.namesrv, settings=slave)
        stack.callback(self.ours.process.kill)
        self.ours_address = self.ours.process.wait_for_line("ready broker ").split()[-1]

    def commit(self, address: str, offset: int) -> None:
        header = UpdateConsumerOffsetHeader(consumer_group=GROUP, topic="T", queue_id=0, commit_offset=offset)
        asyncio.run(_ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, header))

    def committed(self, address: str) -> int:
        header = QueryConsumerOffsetHeader(consumer_group=GROUP, topic="T", queue_id=0)
        reply = asyncio.run(_ask(address, RequestCode.QUERY_CONSUMER_OFFSET, header))
        return reply.header(OffsetReplyHeader).offset if reply is not None and reply.code == 0 else -1


async def _ask(address: str, code: RequestCode, header: object):  # type: ignore[no-untyped-def]
    connector = Connector()
    try:
        return await connector.request(address, code, header, timeout=3.0)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001 - it is not up yet
        return None
    finally:
        await connector.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        yield Pair(tmp_path, stack)


def test_a_returning_master_of_apaches_takes_the_offsets_that_were_committed_at_our_slave(pair: Pair) -> None:
    running = pair.ours.process
    with Producer("p", namesrv=pair.namesrv) as producer:
        for at in range(40):
            running.wait_until(lambda at=at: _is_sent(producer, at), f"take message {at}", timeout_s=180)  # type: ignore[misc]
    for offset in range(1, 4):
        pair.commit(pair.java.address, offset)
    running.wait_until(lambda: pair.committed(pair.ours_address) == 3, "copy the offset", timeout_s=180)
    pair.java.process.stop()  # it saves the version of its offsets
    pair.commit(pair.ours_address, 9)
    assert pair.committed(pair.ours_address) == 9
    pair.java.start_again()
    pair.java.process.wait_until(lambda: pair.committed(pair.java.address) == 9, "take the offset", timeout_s=300)


def _is_sent(producer: Producer, at: int) -> bool:
    try:
        producer.send(Message("T", f"message {at}".encode()))
    except Exception:  # noqa: BLE001 - the broker is not registered yet
        return False
    return True
