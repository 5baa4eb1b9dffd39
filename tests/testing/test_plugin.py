"""The pytest plugin as a project that uses Hanabi has it: alone, in a process of its own."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLUGIN = "hanabi.testing.plugin"

ORDERS = """
import asyncio, sys, time
import hanabi
from hanabi import aio
from hanabi.testing.waiting import eventually, wait_until

def test_topics_are_created_on_demand_and_delays_pass_at_once(hanabi_cluster):
    in_an_hour_ms = int(time.time() * 1000) + 3_600_000
    with hanabi.Producer("g", namesrv=hanabi_cluster.namesrv) as producer:
        producer.send(hanabi.Message("Orders", b"now"))
        producer.send(hanabi.Message("Orders", b"in ten minutes", delay_level=14))
        producer.send(hanabi.Message("Orders", b"in an hour", deliver_time_ms=in_an_hour_ms))
    def bodies():
        return sorted(message.body for message in hanabi_cluster.messages("Orders"))
    assert bodies() == [b"now"]
    hanabi_cluster.clock.advance(minutes=10, seconds=1)
    wait_until(lambda: bodies() == [b"in ten minutes", b"now"], bodies)
    hanabi_cluster.clock.advance(hours=1)
    wait_until(lambda: bodies() == [b"in an hour", b"in ten minutes", b"now"], bodies)

def test_each_test_has_a_cluster_of_its_own_and_asyncio_works(hanabi_cluster):
    assert hanabi_cluster.messages("Orders") == []
    async def story():
        received = []
        consumer = aio.PushConsumer("c", namesrv=hanabi_cluster.namesrv, consume_from="first")
        consumer.subscribe("Orders")
        @consumer.listener
        async def take(messages):
            received.extend(messages)
        async with consumer, aio.Producer("g", namesrv=hanabi_cluster.namesrv) as producer:
            await producer.send(hanabi.Message("Orders", b"hello"))
            await eventually(lambda: [message.body for message in received] == [b"hello"])
    hanabi_cluster.create_topic("Orders", queues=1)
    asyncio.run(story())

def test_one(hanabi_session_cluster):
    test_one.address = hanabi_session_cluster.namesrv

def test_two(hanabi_session_cluster):
    assert test_one.address == hanabi_session_cluster.namesrv
"""

WITHOUT = """
import sys

def test_nothing_of_hanabi_was_imported_for_tests_that_do_not_ask_for_it():
    names = sorted(name for name in sys.modules if name.partition(".")[0] in ("hanabi", "msgspec", "uvloop"))
    assert names == ["hanabi", "hanabi._version", "hanabi.testing", "hanabi.testing.plugin"]
"""


def run_pytest(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run *text* as the tests of a project that has only this plugin, with warnings as errors."""
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    environment = {**os.environ, "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", PLUGIN, *options, "test_it.py"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_project_tests_its_producers_and_consumers_with_the_fixtures(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, ORDERS)
    assert "4 passed" in done.stdout, done.stdout


def test_the_plugin_costs_no_import_where_no_test_asks_for_a_cluster(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, WITHOUT)
    assert "1 passed" in done.stdout, done.stdout


def test_a_project_may_name_the_plugin_though_pytest_has_loaded_it(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(f"pytest_plugins = [{PLUGIN!r}]\n")
    done = run_pytest(tmp_path, "def test_it(): pass\n")
    assert "1 passed" in done.stdout, done.stdout


def test_the_entry_point_has_the_name_of_its_module() -> None:
    """Under another name, `-p` with the module's name would register the plugin twice, which pytest refuses."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {PLUGIN: PLUGIN}


def test_hanabi_can_be_used_without_pytest() -> None:
    program = "import sys; sys.modules['pytest'] = None; import hanabi.testing.embedded; hanabi.Producer"
    subprocess.run([sys.executable, "-c", program], check=True)
