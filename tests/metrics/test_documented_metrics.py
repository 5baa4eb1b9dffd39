"""docs/operations.md names every metric that there is, with its type and its labels, and no other."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import hanabi.aio
from hanabi.controller.config import ControllerConfig
from hanabi.controller.controller import Controller
from hanabi.message import Message
from hanabi.metrics.port import MetricsPort
from hanabi.remoting.address import format_address
from hanabi.testing.waiting import eventually
from tests.broker.replica.masters import mute_slave, refused_slave
from tests.controller.fake_broker import FakeBroker
from tests.metrics.scraping import Figures, scrape
from tests.metrics.test_port import many_queues, world

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "operations.md"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "hanabi.json"
USED = re.compile(r"\b(?:hanabi|process)_[a-z_]+")


async def everything(home: Path) -> Figures:
    """Return a scrape in which every family has a sample."""
    rules = home / "conf"
    rules.mkdir()
    (rules / "plain_acl.yml").write_text("globalWhiteRemoteAddresses: [127.0.0.1]\n")
    settings: dict[str, Any] = {
        "acl_enabled": True,
        "acl_folder": str(rules),
        "account_quotas": '{"app":{"connections":1}}',
    }
    async with world(home, series_max=1, **settings) as running:
        assert running.broker.access_control is not None
        meter = running.broker.access_control.metering.of("app")
        assert meter is not None
        meter.delayed["connections"] += 1
        consumer = hanabi.aio.PushConsumer("billing", namesrv=running.namesrv)
        consumer.subscribe("Orders")
        consumer.listener(lambda messages: None)
        async with hanabi.aio.Producer("shop", namesrv=running.namesrv) as producer:
            await producer.send(Message("Orders", b"x"))
            await producer.send(Message("Orders", b"later", delay_level=18))
        await running.broker.registration.settled()
        popper = hanabi.aio.SimpleConsumer("poppers", namesrv=running.namesrv)
        popper.subscribe("Orders")
        async with popper:
            assert await popper.receive(1)  # and not acknowledged
        async with consumer:
            await eventually(lambda: running.broker.tables.consumers.find_group("billing") is not None)
            many_queues(running, 2, 2)
            running.broker.tables.stats.send_back("billing", "Orders")
            controlled = controller_with_broker(home / "controlled", running.port)
            async with refused_slave(running.broker), mute_slave(running.broker), controlled:
                return await scrape(running.metrics)


@asynccontextmanager
async def controller_with_broker(home: Path, port: MetricsPort) -> AsyncIterator[None]:
    """Run a controller that has elected a master."""
    async with Controller(ControllerConfig(), home, around=port.controller_times.around) as controller:
        broker = FakeBroker(format_address(await controller.start("127.0.0.1", 0)), "h1:1")
        try:
            await broker.join()
            await broker.elect()
            await controller.scan()
            port.controller_started(controller)
            yield
        finally:
            await broker.close()


def rows(figures: Figures) -> list[str]:
    """Return the table as it should be."""
    found = []
    for name, family in figures.families.items():
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        first = ("server", "request", "code", "group", "topic", "queue")
        in_order: list[str] = [label for label in first if label in labels]
        in_order += sorted(labels - set(in_order))
        full = f"{name}_total" if family.type == "counter" else name
        found.append(f"| `{full}` | {family.type} | {', '.join(in_order)} | {family.documentation} |")
    return found


async def test_the_page_has_every_metric_and_no_other(tmp_path: Path) -> None:
    written = DOCUMENT.read_text().split("<!-- families -->\n")[1].split("\n\n")[0].splitlines()[2:]
    assert written == rows(await everything(tmp_path))


def test_alerts_and_dashboard_ask_for_metrics_that_there_are(tmp_path: Path) -> None:
    written = DOCUMENT.read_text().split("<!-- families -->\n")[1].split("\n\n")[0]
    known = dict(re.findall(r"\| `(\w+)` \| (\w+) \|", written))
    known |= {f"{name}_{part}": kind for name, kind in known.items() for part in ("bucket", "count", "sum")}
    for file in (ALERTS, DASHBOARD):
        used = set(USED.findall(file.read_text()))
        assert used
        assert used <= known.keys(), file.name
