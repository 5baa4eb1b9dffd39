"""The dashboard over a large cluster: 10,000 topics of 4 queues and 2,000 groups, all with offsets.

Times at the server are of whole requests over HTTP; CPU times are those of the processes, so they hold on a busy
machine, too.
"""

import gzip
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

from benches.broker_servers import RunningBroker, broker, store_of
from benches.report import publish, table
from benches.servers import OURS
from tests.interop.processes import ServerProcess

TOPICS, QUEUES, GROUPS = 10_000, 4, 2_000
PASSWORD = "a password of the bench"  # noqa: S105
HEAD = ("figure", "measured", "limit", "kept")


def main(*, quick: bool = False) -> None:
    requests, idle_s = (40, 30.0) if quick else (300, 120.0)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        fill(store_of(OURS, home / "broker"))
        with broker(OURS, home / "broker") as server:
            alone = cpu_share(server.pid, idle_s / 2)
            with dashboard(home / "dashboard", server) as (url, pid):
                rows = measure(url, pid, server, requests, idle_s, alone)
    setting = (
        f"{TOPICS:,} topics of {QUEUES} queues, {GROUPS:,} groups with offsets; name server and broker in one process."
    )
    publish("dashboard", "The dashboard over a large cluster", setting, table(HEAD, rows), quick=quick)


def measure(url: str, pid: int, server: RunningBroker, requests: int, idle_s: float, alone: float) -> list[list[str]]:
    process = psutil.Process(pid)
    with httpx.Client(base_url=url, timeout=60, headers={"accept-encoding": "gzip"}) as client:
        login = client.post("/login", data={"name": "admin", "password": PASSWORD})
        assert login.status_code == 303, login.text
        client.get("/topics")  # names come from the name server now, and from the cache later
        before = cpu_of(pid, server.pid)
        topics = percentile([timed(client, f"/topics?page={number % 200 + 1}") for number in range(requests)])
        cpu_ms = (cpu_of(pid, server.pid) - before) / requests * 1000
        search = percentile([timed(client, f"/topics?q=topic-{number:03}", part=True) for number in range(requests)])
        groups = percentile([timed(client, f"/groups?page={number % 40 + 1}") for number in range(requests // 4)])
        weight = {
            path: page_weight(client, path) for path in ("/", "/topics", "/groups/group-0001", "/topics/topic-00001")
        }
    typed = typed_search(url)
    share = max(cpu_share(server.pid, idle_s) - alone, 0.0)
    memory = process.memory_info().rss / 1e6
    heaviest = max(weight, key=lambda path: weight[path])
    return [
        row("topics page, p95", topics, 300, "ms"),
        row("topics page, CPU of dashboard and servers", cpu_ms, 300, "ms"),
        row("search at the server, p95", search, 300, "ms"),
        row("groups page, p95", groups, 300, "ms"),
        ["search in the browser, from the last key", "no chromium", "500 ms", "-"]
        if typed is None
        else row("search in the browser, from the last key", typed, 500, "ms"),
        row("CPU of the broker for an idle dashboard", share * 100, 2, "% of a core"),
        row("memory of the dashboard", memory, 120, "MB"),
        row(f"heaviest page with its files, compressed ({heaviest})", weight[heaviest] / 1000, 100, "kB"),
    ]


def row(name: str, value: float, limit: float, unit: str) -> list[str]:
    return [name, f"{value:.1f} {unit}", f"{limit:g} {unit}", "yes" if value <= limit else "no"]


def fill(store: Path) -> None:
    """Write the tables of a broker that has had many topics and groups for long."""
    config = store / "config"
    config.mkdir(parents=True)
    topics = {
        name: {"topicName": name, "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6, "order": False}
        for name in (f"topic-{number:05}" for number in range(TOPICS))
    }
    groups = {name: {"groupName": name} for name in (f"group-{number:04}" for number in range(GROUPS))}
    offsets = {
        f"topic-{number:05}@group-{number:04}": {str(queue): 0 for queue in range(QUEUES)} for number in range(GROUPS)
    }
    (config / "topics.json").write_text(json.dumps({"topicConfigTable": topics}))
    (config / "subscriptionGroup.json").write_text(json.dumps({"subscriptionGroupTable": groups}))
    (config / "consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))


@contextmanager
def dashboard(home: Path, server: RunningBroker) -> Iterator[tuple[str, int]]:
    """Run the dashboard in a process of its own."""
    home.mkdir()
    (home / "password").write_text(PASSWORD)
    command = [sys.executable, "-m", "hanabi", "dashboard", "-n", server.namesrv, "--home", str(home), "--port", "0"]
    process = ServerProcess(
        "dashboard", [*command, "--password-file", str(home / "password")], home / "log", dict(os.environ)
    )
    try:
        yield process.wait_for_line("ready dashboard ").split()[-1], process.pid
    finally:
        process.kill()


def timed(client: httpx.Client, path: str, *, part: bool = False) -> float:
    """Return the milliseconds of one request."""
    began = time.perf_counter()
    response = client.get(path, headers={"hx-request": "true"} if part else {})
    assert response.status_code == 200, response.text
    return (time.perf_counter() - began) * 1000


def percentile(values: list[float], share: float = 0.95) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def page_weight(client: httpx.Client, path: str) -> int:
    """Return the bytes of a page and of the files that it names, as they are sent."""
    page = client.get(path)
    files = re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text)
    return sum(len(gzip.compress(client.get(each).content)) for each in files) + len(gzip.compress(page.content))


def cpu_share(pid: int, seconds: float) -> float:
    """Return the part of a core that a process uses."""
    before = cpu_of(pid)
    time.sleep(seconds)
    return (cpu_of(pid) - before) / seconds


def cpu_of(*pids: int) -> float:
    """Return the seconds of CPU time that processes have used."""
    return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)


def typed_search(url: str, times: int = 10) -> float | None:
    """Return the 95th percentile of the milliseconds from the last key of a search to the rows of its result; None
    without a browser.
    """
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        return None
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page: Any = browser.new_page(base_url=url)
        page.goto("/login")
        page.get_by_label("Name").fill("admin")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.goto("/topics")
        found = []
        for number in range(times):
            page.get_by_role("searchbox").fill(f"topic-0{number:03}")
            began = time.perf_counter()
            page.get_by_role("searchbox").press("9")
            page.get_by_role("link", name=f"topic-0{number:03}9").wait_for()
            found.append((time.perf_counter() - began) * 1000)
        browser.close()
    return percentile(found)


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
