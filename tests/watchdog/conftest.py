"""All inputs sent to one server process, once for all tests of this folder."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from hanabi.wire.bodies.heartbeat import SubscriptionData
from hanabi.wire.codes import RequestCode, request_name
from hanabi.wire.command import encode_request
from tests.watchdog.broker_inputs import BROKER_INPUTS, consumer, heartbeat
from tests.watchdog.large_home import build_home, topic_name
from tests.watchdog.namesrv_inputs import NAMESRV_INPUTS
from tests.watchdog.watch import Servers, watching

HEARTBEATS: Final = "18,000 heartbeats at once"
SAVING: Final = "saving 800,000 offsets"
STORM_CONNECTIONS: Final = 300
Outcomes = Mapping[str, float | Exception]  # name of the input -> the longest stall, or why there is no answer


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    folder = tmp_path_factory.mktemp("watchdog")
    build_home(folder / "home")
    first_offsets = (folder / "home" / "config" / "consumerOffset.json").stat().st_ino
    servers = Servers(folder, folder / "home")
    try:
        return asyncio.run(_send_all(folder, servers, first_offsets))
    finally:
        servers.kill()  # what it would save now is of no use


def _heartbeats() -> list[bytes]:
    """Return what each connection sends at once: sixty clients, in ten groups of five topics each."""
    topics = [SubscriptionData(topic=topic_name(number), sub_string="*") for number in range(5)]
    bodies = [heartbeat(f"c{number}", [consumer(f"storm{number % 10}", topics)], ["storm"]) for number in range(60)]
    return [encode_request(RequestCode.HEART_BEAT, number, None, body) for number, body in enumerate(bodies)]


async def _send_all(folder: Path, servers: Servers, first_offsets: int) -> Outcomes:
    found: dict[str, float | Exception] = {}
    async with watching(folder, servers) as watch:
        # Everything is new to a broker that has just started, so its first save writes all offsets.
        file = folder / "home" / "config" / "consumerOffset.json"
        found[SAVING] = await watch.stall_until_s(lambda: file.stat().st_ino != first_offsets)
        for address, table in ((servers.broker, BROKER_INPUTS), (servers.namesrv, NAMESRV_INPUTS)):
            for code, worst in table.items():
                try:
                    found[request_name(code)] = await watch.stall_s(code, worst, address)
                except (AssertionError, OSError, EOFError, TimeoutError) as error:
                    found[request_name(code)] = error
        found[HEARTBEATS] = await watch.storm_s(_heartbeats(), STORM_CONNECTIONS)
    return found
