"""A controller as its users see it: alone, or inside a name server; its metrics; what is refused."""

import asyncio
import json
import sys
from pathlib import Path

from tests.cli.admin_commands import run
from tests.cli.commands import refused
from tests.controller.fake_broker import FakeBroker
from tests.interop.processes import ServerProcess
from tests.metrics.scraping import get, scrape


def split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


async def scraped_with(metrics: tuple[str, int], line: str) -> str:
    """Return the first scrape that has *line*."""
    for _ in range(1200):
        if line in (text := (await scrape(metrics)).text):
            return text
        await asyncio.sleep(0.05)
    raise AssertionError(f"{line} did not appear: {text}")


async def test_a_name_server_with_a_controller_serves_both_and_shows_their_metrics(tmp_path: Path) -> None:
    config = tmp_path / "namesrv.conf"
    config.write_text(
        "enableControllerInNamesrv=true\ncontrollerListenPort=0\nelectionWaitMillis=0\nscanInactiveMasterInterval=100\n"
    )
    words = ["serve", "namesrv", "-c", str(config), "--home", str(tmp_path / "home"), "--host", "127.0.0.1"]
    command = [sys.executable, "-m", "hanabi", *words, "--port", "0", "--metrics-port", "0"]
    process = ServerProcess("name server", command, tmp_path / "console.log")
    try:
        await asyncio.to_thread(process.wait_for_line, "ready metrics ")
        namesrv = process.wait_for_line("ready namesrv ").split()[-1]
        controller = process.wait_for_line("ready controller ").split()[-1]
        metrics = split(process.wait_for_line("ready metrics ").split()[-1])
        assert namesrv != controller
        assert json.loads((await get(metrics, "/ready")).body)["checks"] == {"namesrv": "ok", "controller": "ok"}
        broker = FakeBroker(controller, "h1:1")
        await broker.join()
        assert (await broker.elect()).code == 0
        text = await scraped_with(metrics, 'hanabi_controller_replicas_alive{broker="broker-a"} 1')
        for line in (
            "hanabi_controller_leads 1",
            "hanabi_controller_has_leader 1",
            "hanabi_controller_elections_total 1",
            "hanabi_controller_state_failures_total 0",
            'hanabi_controller_master{broker="broker-a"} 1',
            'hanabi_controller_replicas_in_sync{broker="broker-a"} 1',
            'hanabi_requests_total{server="controller"}',
        ):
            assert f"\n{line}" in text, line
        await broker.close()
        process.terminate()
        assert await asyncio.to_thread(process.wait_ended) == 0
        assert "has no effect" not in process.output()
        assert (tmp_path / "home" / "controller" / "brokers.json").exists()
    finally:
        process.kill()


def test_options_of_a_controller_need_one_in_the_name_server(tmp_path: Path) -> None:
    words = ("serve", "namesrv", "--home", str(tmp_path), "--state", "etcd://127.0.0.1:9")
    assert refused(run(*words), 2) == "--state of a name server goes with --controller"
    shown = run("serve", "namesrv", "--home", str(tmp_path), "--controller", "--controller-port", "7", "--config")
    assert shown.returncode == 0, shown.stderr
    assert "controller  listenPort" in shown.stdout
