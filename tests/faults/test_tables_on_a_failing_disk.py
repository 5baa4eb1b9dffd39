"""Tables on a disk that is full, slow, or fails at the last step: nothing refused is in force, nothing kept is lost."""

import asyncio
import errno
import json
import os
import subprocess
import sys
from pathlib import Path

from hanabi.namesrv.kv_config import KVConfig
from hanabi.wire.codes import RequestCode, ResponseCode
from tests.broker.tables.test_slow_disk import TOPIC
from tests.broker.talk import Peer, connected
from tests.broker.test_broker_lifecycle import pull_header, send_header
from tests.faults.broker_process import BrokerProcess, broker_process
from tests.faults.shim import Faults

SECONDS = 60.0


def address(broker: BrokerProcess) -> str:
    return f"127.0.0.1:{broker.port}"


async def send(peer: Peer, topic: str) -> int:
    return (await peer.ask(RequestCode.SEND_MESSAGE_V2, send_header(topic), b"x")).code


def test_a_new_topic_on_a_full_disk_is_refused_and_what_is_acknowledged_later_survives_a_kill(
    faults: Faults, tmp_path: Path
) -> None:
    async def fill(broker: BrokerProcess) -> None:
        async with connected(address(broker)) as peer:
            assert await send(peer, "Known") == ResponseCode.SUCCESS
            with faults.rule("fsync", errno.ENOSPC, path="*/config/topics.json*"):
                assert await send(peer, "New") == ResponseCode.SERVICE_NOT_AVAILABLE
                assert await send(peer, "Known") == ResponseCode.SUCCESS
            async with asyncio.timeout(SECONDS):
                while await send(peer, "New") != ResponseCode.SUCCESS:  # noqa: ASYNC110 - as a client tries again
                    await asyncio.sleep(0.05)

    async def read(broker: BrokerProcess) -> None:
        async with connected(address(broker)) as peer:
            for topic in ("Known", "New"):
                pulled = await peer.ask(RequestCode.PULL_MESSAGE, pull_header(0, topic=topic))
                assert pulled.code == ResponseCode.SUCCESS

    store = tmp_path / "store"
    with broker_process(store, env=faults.environment) as broker:
        asyncio.run(fill(broker))
    with broker_process(store) as broker:
        asyncio.run(read(broker))


def test_a_topic_that_was_refused_at_the_last_step_is_in_no_file(faults: Faults, tmp_path: Path) -> None:
    # The new table has its name already when the directory cannot be synced.
    file = tmp_path / "store" / "config" / "topics.json"

    async def ask(broker: BrokerProcess) -> None:
        async with connected(address(broker)) as peer:
            assert await send(peer, "Known") == ResponseCode.SUCCESS
            with faults.rule("fsync", errno.EIO, path="*/config") as rule:
                refused = await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC)
                assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
                assert rule.counts.hit
            async with asyncio.timeout(SECONDS):
                while TOPIC.topic in json.loads(file.read_bytes())["topicConfigTable"]:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)

    with broker_process(tmp_path / "store", env=faults.environment) as broker:
        asyncio.run(ask(broker))


PUTS = """
import sys
from pathlib import Path
from hanabi.errors import StoreError
from hanabi.namesrv.kv_config import KVConfig

kv = KVConfig(Path(sys.argv[1]))
kv.put("N", "k", "old")
try:
    kv.put("N", "k", "refused")
except StoreError:
    sys.exit(9)
"""


def test_a_value_that_a_name_server_refused_is_not_there_after_a_restart(faults: Faults, tmp_path: Path) -> None:
    path = tmp_path / "namesrv" / "kvConfig.json"
    with faults.rule("fsync", errno.EIO, path="*/namesrv", after=1):
        command = [sys.executable, "-c", PUTS, str(path)]
        ended = subprocess.run(command, env={**os.environ, **faults.environment}, check=False)
    assert ended.returncode == 9
    assert KVConfig(path).get("N", "k") == "old"


def test_others_are_served_while_the_sync_of_a_table_hangs(faults: Faults, tmp_path: Path) -> None:
    async def ask(broker: BrokerProcess) -> None:
        async with connected(address(broker)) as admin, connected(address(broker)) as client:
            assert await send(client, "Known") == ResponseCode.SUCCESS
            with faults.rule("fsync", path="*/config*", delay_s=3_600) as rule:
                asked = admin.start(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC)
                await asyncio.to_thread(rule.wait_hit)
                for _ in range(10):
                    assert await send(client, "Known") == ResponseCode.SUCCESS
                assert not asked.done()
            assert (await asked).code == ResponseCode.SUCCESS

    with broker_process(tmp_path / "store", env=faults.environment) as broker:
        asyncio.run(ask(broker))
