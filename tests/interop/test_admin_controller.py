"""`hanabi controller` with Apache's controller of 5.3."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from hanabi.wire.codes import RequestCode
from hanabi.wire.header import NoHeader
from hanabi.wire.headers.v5.controller import GetControllerMetadataReplyHeader
from tests.cli.admin_commands import run
from tests.cli.shapes import check, shape_of
from tests.controller.fake_broker import FakeBroker
from tests.interop.apache import ApacheController

pytestmark = pytest.mark.usefixtures("apache_jars")


async def answer(address: str, *arguments: str) -> Any:
    result = await asyncio.to_thread(run, *arguments, "-a", address, "--json")
    assert result.returncode == 0, result.stderr
    check(shape_of(arguments), result.stdout)
    return json.loads(result.stdout)


async def leads(broker: FakeBroker) -> bool:
    reply = await broker.ask(RequestCode.CONTROLLER_GET_METADATA_INFO, NoHeader())
    return bool(reply.header(GetControllerMetadataReplyHeader).controller_leader_address)


async def test_status_elect_and_clean_work_with_apaches_controller(tmp_path: Path) -> None:
    controller = ApacheController(tmp_path)
    try:
        await asyncio.to_thread(controller.wait_ready)
        one, two = FakeBroker(controller.address, "h1:1"), FakeBroker(controller.address, "h2:1")
        for _ in range(300):
            if await leads(one):
                break
            await asyncio.sleep(0.1)
        await one.join()
        await one.elect()
        await two.join()
        assert (await one.alter([1, 2], master_epoch=1, sync_epoch=1)).code == 0
        state = await answer(controller.address, "controller", "status", "broker-a")
        (found,) = state["brokers"]
        assert (state["leader"], found["masterId"], found["masterEpoch"]) == (controller.address, 1, 1)
        assert [each["inSync"] for each in found["replicas"]] == [True, True]
        elected = await answer(controller.address, "controller", "elect", "broker-a", "2", "-c", "c", "--yes")
        assert (elected["masterId"], elected["masterEpoch"]) == (2, 2)
        await one.close()
        gone = await answer(controller.address, "controller", "clean", "broker-a", "1", "-c", "c", "--yes")
        assert gone == {"broker": "broker-a", "ids": [1]}
        await two.close()
    finally:
        controller.process.kill()
