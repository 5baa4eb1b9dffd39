"""`hanabi controller` with our controller and replicas that are connections."""

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.cli.admin_commands import run
from tests.cli.shapes import check, shape_of
from tests.controller.controllers import ControllerProcess
from tests.controller.fake_broker import FakeBroker


async def answer(address: str, *arguments: str) -> Any:
    result = await asyncio.to_thread(run, *arguments, "-a", address, "--json")
    assert result.returncode == 0, result.stderr
    check(shape_of(arguments), result.stdout)
    return json.loads(result.stdout)


async def test_status_elect_and_clean(tmp_path: Path) -> None:
    controller = ControllerProcess(tmp_path, settings={"electionWaitMillis": 0})
    address = controller.address
    one, two = FakeBroker(address, "h1:1"), FakeBroker(address, "h2:1")
    try:
        assert (await answer(address, "controller", "status"))["brokers"] == []
        await one.join()
        await one.elect()
        await two.join()
        await one.alter([1, 2], master_epoch=1, sync_epoch=1)
        (found,) = (await answer(address, "controller", "status"))["brokers"]
        assert (found["broker"], found["masterId"], found["masterEpoch"]) == ("broker-a", 1, 1)
        assert [each["inSync"] and each["alive"] for each in found["replicas"]] == [True, True]
        shown = await asyncio.to_thread(run, "controller", "status", "broker-a", "-a", address)
        assert f"leader {address}" in shown.stdout
        assert "master" in shown.stdout
        elected = await answer(address, "controller", "elect", "broker-a", "2", "--yes")
        assert (elected["masterId"], elected["master"], elected["masterEpoch"]) == (2, "h2:1", 2)
        living = await asyncio.to_thread(run, "controller", "clean", "broker-a", "1", "-a", address, "--yes")
        assert (living.returncode, "still alive" in living.stderr) == (1, True)
        gone = await answer(address, "controller", "clean", "broker-a", "1", "--living", "--yes")
        assert gone == {"broker": "broker-a", "ids": [1]}
        (left,) = (await answer(address, "controller", "status"))["brokers"]
        assert [each["brokerId"] for each in left["replicas"]] == [2]
    finally:
        await one.close()
        await two.close()
        controller.process.kill()
    silent = await asyncio.to_thread(run, "controller", "status", "-a", address)
    assert (silent.returncode, "no controller can be reached" in silent.stderr) == (1, True)
