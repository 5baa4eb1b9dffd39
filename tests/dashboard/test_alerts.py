"""Alerts: what begins one, what ends one, what is posted where, and what never leaves."""

import asyncio
import ipaddress
import json
import logging
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hanabi.admin.brokers import BrokerSummary
from hanabi.admin.replication_report import BrokerReplication, SlaveReplication, SlaveState
from hanabi.dashboard.alerts.config import Webhook, read_config
from hanabi.dashboard.alerts.egress import NotPosted, is_open, post
from hanabi.dashboard.alerts.rules import PROMETHEUS, Finding, LetterCounts, Limits, Rule, findings
from hanabi.dashboard.alerts.state import ACTIVE_MAX, Alert, AlertBook
from hanabi.dashboard.alerts.webhook import WAITING_MAX, Poster, payload
from hanabi.dashboard.cluster.board import BrokerRow
from hanabi.dashboard.history.sampler import Round
from hanabi.dashboard.history.series import GroupLag
from hanabi.dashboard.security.roles import Role
from hanabi.errors import ConfigError
from hanabi.testing.proxied import proxied_cluster
from hanabi.testing.waiting import eventually
from tests.dashboard.browsing import dashboard

NOW = 1_700_000_000_000
LOOPBACK = [ipaddress.ip_network("127.0.0.0/8")]


def row(**more: Any) -> BrokerRow:
    summary = BrokerSummary(cluster="c", broker="b", broker_id=0, address="h:1", disk_used=more.pop("disk", 0.5))
    return BrokerRow(summary=summary, seen_ms=NOW, **more)


def slave(**more: Any) -> list[BrokerReplication]:
    found = SlaveReplication(broker_id=1, address="h:2", **more)
    return [BrokerReplication(cluster="c", broker="b", slaves=[found])]


def rules_found(round_: Round, limits: Limits | None = None) -> list[tuple[str, str]]:
    found, _ = findings(round_, limits or Limits(), LetterCounts())
    return [(str(finding.rule), finding.subject) for finding in found]


def behind(seconds: float) -> GroupLag:
    return GroupLag(messages=7, oldest_ms=NOW - int(seconds * 1000))


def test_each_rule_has_a_limit_and_can_be_turned_off() -> None:
    quiet = Round(at_ms=NOW, brokers=[row()], lags={"g": behind(599)}, replication=slave(state=SlaveState.IN_SYNC))
    assert rules_found(quiet) == []
    silent, full = row(silent_since_ms=NOW - 60_000, problem="no answer"), row(disk=0.81)
    assert rules_found(Round(at_ms=NOW, brokers=[silent, full])) == [("silent", "b at h:1"), ("disk", "b at h:1")]
    assert rules_found(Round(at_ms=NOW, brokers=[row(silent_since_ms=NOW - 59_000)])) == []
    late = Round(at_ms=NOW, brokers=[], lags={"g": behind(601), "CID_RMQ_SYS_TRANS": behind(9999)})
    assert rules_found(late) == [("lag", "g")]
    assert rules_found(late, Limits(groups={"g": 700.0})) == []
    assert rules_found(late, Limits(groups={"g": None})) == []
    assert rules_found(Round(at_ms=NOW, brokers=[], lags={"g": GroupLag(messages=9)})) == []  # its age is not known
    gone = slave(state=SlaveState.NOT_CONNECTED)
    slow = slave(state=SlaveState.BEHIND, lag_seconds=61.0)
    for replication in (gone, slow):
        assert rules_found(Round(at_ms=NOW, brokers=[], replication=replication)) == [
            ("replication", "b, slave 1 at h:2")
        ]
    off = Limits(lag_seconds=None, silent_seconds=None, disk_used=None, dead_letters=None, replication_seconds=None)
    everything = Round(
        at_ms=NOW, brokers=[silent, full], lags={"g": behind(9999)}, replication=gone, dead_letters={"g": 5}
    )
    assert rules_found(everything, off) == []


def test_dead_letters_alert_when_new_ones_come_and_not_for_those_of_yesterday() -> None:
    letters = LetterCounts()

    def new(minute: int, **counts: int) -> list[str]:
        round_ = Round(at_ms=NOW + minute * 60_000, brokers=[], dead_letters=counts)
        return [finding.sentence for finding in findings(round_, Limits(), letters)[0]]

    assert new(0, g=500) == []  # the dashboard started now
    assert new(1, g=502) == ["Group g got 2 new dead letters within ten minutes"]
    assert new(2, g=502, fresh=3)[1] == "Group fresh got 3 new dead letters within ten minutes"
    assert new(20, g=502, fresh=3) == []


def test_an_alert_begins_once_and_ends_only_when_its_rule_was_judged_again() -> None:
    book = AlertBook()
    lag = Finding(rule=Rule.LAG, subject="g", severity="warning", sentence="late", value=700, limit=600)
    everything = frozenset(Rule)
    assert [alert.state for alert in book.note([lag], everything, 1)] == ["firing"]
    assert book.note([msgspec.structs.replace(lag, value=800)], everything, 2) == []
    assert (book.active[0].since_ms, book.active[0].finding.value) == (1, 800)
    assert book.note([], frozenset({Rule.DISK}), 3) == []  # lags were not asked for in this round
    assert [(alert.state, alert.ended_ms) for alert in book.note([], everything, 4)] == [("resolved", 4)]
    assert (book.active, len(book.ended)) == ([], 1)
    many = [msgspec.structs.replace(lag, subject=str(number)) for number in range(ACTIVE_MAX + 5)]
    book.note(many, everything, 5)
    assert (len(book.active), book.left_out) == (ACTIVE_MAX, 5)


def test_prometheus_has_the_same_rules_with_the_same_limits() -> None:
    text = (Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yml").read_text()
    rules = {
        match[1]: match[2] for match in re.finditer(r"- alert: (\w+)\n(.*?)(?=\n      - alert|\Z)", text, re.DOTALL)
    }
    limits = Limits()
    assert set(PROMETHEUS) == set(Rule)
    expected = {
        Rule.LAG: f"[{limits.lag_seconds:g}s]",
        Rule.SILENT: f"for: {limits.silent_seconds or 0:g}s".replace("60s", "1m"),
        Rule.DISK: f"> {limits.disk_used:g}",
        Rule.DEAD_LETTERS: "[10m])) > 0",
        Rule.REPLICATION: f"> {limits.replication_seconds:g}",
    }
    for rule, part in expected.items():
        assert part in rules[PROMETHEUS[rule]], rule


class Hook:
    """A webhook on this machine: what it received, and what it answers."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/secret-path?token=secret"
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[str | None] = []
        self.answers = [200]


@contextmanager
def hook() -> Iterator[Hook]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            made.bodies.append(json.loads(body))
            made.headers.append(self.headers["authorization"])
            status = made.answers.pop(0) if len(made.answers) > 1 else made.answers[0]
            self.send_response(status)
            if status == 302:
                self.send_header("location", "http://127.0.0.1:1/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Hook(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def alert(subject: str = "g") -> Alert:
    finding = Finding(rule=Rule.LAG, subject=subject, severity="warning", sentence="late", value=700, limit=600)
    return Alert(finding=finding, since_ms=1)


@contextmanager
def running(poster: Poster) -> Iterator[None]:
    task = asyncio.get_running_loop().create_task(poster.run())
    try:
        yield
    finally:
        task.cancel()


async def test_an_alert_is_posted_and_posted_again_after_an_error() -> None:
    with hook() as target:
        target.answers = [500, 429, 200]
        wanted = Webhook(url=target.url, headers={"Authorization": "Bearer x"}, allow=["127.0.0.0/8"])
        poster = Poster(wanted, retry_after_s=(0.01, 0.01, 0.01))
        with running(poster):
            poster.put([alert()])
            await eventually(lambda: poster.posted == 1)
        assert len(target.bodies) == 3
        assert target.headers == ["Bearer x"] * 3
        assert target.bodies[0] == payload(alert())
        assert target.bodies[0]["text"] == "[firing] late"
        assert (poster.dropped, poster.problem) == (0, "")


async def test_a_refusal_and_a_redirect_are_not_tried_again_and_no_secret_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with hook() as target, caplog.at_level(logging.WARNING):
        poster = Poster(Webhook(url=target.url, allow=["127.0.0.0/8"]), retry_after_s=(0.01,))
        with running(poster):
            for answer, count in ((403, 1), (302, 2)):
                target.answers = [answer]
                poster.put([alert()])
                await eventually(lambda count=count: poster.dropped == count)  # type: ignore[misc]
        assert len(target.bodies) == 2
        assert "redirects are not followed" in poster.problem
    assert "secret" not in caplog.text
    assert "127.0.0.1" in caplog.text


async def test_the_queue_is_bounded_and_without_a_webhook_nothing_waits() -> None:
    poster = Poster(Webhook(url="http://127.0.0.1:1/"))
    poster.put([alert(str(number)) for number in range(WAITING_MAX + 3)])
    assert poster.dropped == 3
    silent = Poster(None)
    silent.put([alert()])
    assert silent.dropped == 0


REFUSED = (
    "127.0.0.1", "10.1.2.3", "192.168.1.1", "169.254.169.254", "::1", "fe80::1%eth0", "fd00::1",
    "::ffff:127.0.0.1", "224.0.0.1", "100.64.0.1",
)  # fmt: skip


def test_addresses_that_are_not_public_are_refused_unless_allowed() -> None:
    for address in REFUSED:
        assert not is_open(address, []), address
    assert is_open("93.184.216.34", [])
    assert is_open("2606:4700::1111", [])
    assert is_open("10.1.2.3", [ipaddress.ip_network("10.0.0.0/8")])
    assert not is_open("10.1.2.3", [ipaddress.ip_network("fd00::/8")])


def test_no_connection_is_made_to_an_address_that_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        for host in ("127.0.0.1", "localhost"):
            with pytest.raises(NotPosted, match="not a public address"):
                post(f"http://{host}:{listener.getsockname()[1]}/", b"{}", {}, [], 5)
        with pytest.raises(TimeoutError):
            listener.accept()


def test_a_webhook_that_never_answers_takes_its_time_limit_and_not_more() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(NotPosted) as raised:
        post(f"http://127.0.0.1:{listener.getsockname()[1]}/", b"{}", {}, LOOPBACK, 0.2)
    assert raised.value.again


BAD_FILES = [
    ("limits: {lag: 5}", "unknown field"),
    ("limits: {lag_seconds: often}", "lag_seconds"),
    ("webhook: {url: 'file:///etc/passwd'}", "webhook.url must be"),
    ("webhook: {url: 'http://h/${NO_SUCH_VARIABLE_HERE}'}", "no environment variable"),
    ("webhook: {url: 'http://h/', headers: {Host: x}}", "cannot be sent"),
    ('webhook: {url: "http://h/", headers: {A: "x\\r\\nB: y"}}', "cannot be sent"),
    ("webhook: {url: 'http://h/', allow: [everything]}", "webhook.allow"),
    ("webhook: {url: 'http://h/', seconds: 0}", "webhook.seconds"),
    ("[1, 2]", "--alerts"),
    ("a: [", "--alerts"),
]


@pytest.mark.parametrize(("text", "part"), BAD_FILES)
def test_a_bad_file_of_alerts_is_told_in_a_sentence(tmp_path: Path, text: str, part: str) -> None:
    (tmp_path / "alerts.yml").write_text(text)
    with pytest.raises(ConfigError, match=re.escape(part)):
        read_config(tmp_path / "alerts.yml")


def test_secrets_of_the_webhook_come_from_the_environment_and_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_TOKEN", "s3cret")
    (tmp_path / "alerts.yml").write_text("webhook: {url: 'https://u:p@hooks.example:8443/${HOOK_TOKEN}?a=b'}")
    found = read_config(tmp_path / "alerts.yml").webhook
    assert found is not None
    assert found.url.endswith("/s3cret?a=b")
    assert found.shown == "https://hooks.example:8443/…"
    assert read_config(None).limits == Limits()


async def test_a_broker_that_hangs_is_an_alert_on_the_page_and_at_the_webhook_until_it_answers(tmp_path: Path) -> None:
    with hook() as target:
        file = tmp_path / "alerts.yml"
        file.write_text(
            f"limits: {{silent_seconds: 0.001}}\nwebhook: {{url: '{target.url}', allow: ['127.0.0.0/8']}}\n"
        )
        async with (
            proxied_cluster(tmp_path) as cluster,
            dashboard(tmp_path, cluster.namesrv, timeout_s=0.5, page_seconds=5.0, alerts_file=file) as site,
        ):
            browser = await site.as_role(Role.READER)

            async def sampled(until: Callable[[], bool]) -> str:
                async with asyncio.timeout(60):
                    while not until():
                        site.parts.cluster.collector.forget()
                        await site.parts.sampler.sample()
                return (await browser.get("/alerts")).text

            book = site.parts.watch.book
            assert "No alert." in await sampled(lambda: site.parts.watch.judged_ms is not None)
            cluster.hang("broker-b")
            with running(site.parts.watch.poster):
                page = await sampled(lambda: bool(book.active))
                assert "Broker broker-b at" in page
                assert "critical" in page
                assert "secret" not in page
                assert 'class="badge">1<' in (await browser.get("/topics")).text
                cluster.wake("broker-b")
                assert "No alert." in await sampled(lambda: not book.active)
                await eventually(lambda: len(target.bodies) == 2)
            assert [(body["rule"], body["state"]) for body in target.bodies] == [
                ("silent", "firing"),
                ("silent", "resolved"),
            ]
