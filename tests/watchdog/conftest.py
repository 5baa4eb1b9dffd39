"""All inputs sent to one server process, once for all tests of this folder."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from hanabi.wire.codes import request_name
from tests.watchdog.broker_inputs import BROKER_INPUTS
from tests.watchdog.large_home import build_home
from tests.watchdog.namesrv_inputs import NAMESRV_INPUTS
from tests.watchdog.watch import Servers, watching

Outcomes = Mapping[str, float | Exception]  # name of the input -> the longest stall, or why there is no answer


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    folder = tmp_path_factory.mktemp("watchdog")
    build_home(folder / "home")
    servers = Servers(folder, folder / "home")
    try:
        return asyncio.run(_send_all(folder, servers))
    finally:
        servers.kill()  # what it would save now is of no use


async def _send_all(folder: Path, servers: Servers) -> Outcomes:
    found: dict[str, float | Exception] = {}
    async with watching(folder, servers) as watch:
        for address, table in ((servers.broker, BROKER_INPUTS), (servers.namesrv, NAMESRV_INPUTS)):
            for code, worst in table.items():
                try:
                    found[request_name(code)] = await watch.stall_s(code, worst, address)
                except (AssertionError, OSError, EOFError, TimeoutError) as error:
                    found[request_name(code)] = error
    return found
