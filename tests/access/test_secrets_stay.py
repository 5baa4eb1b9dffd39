"""A walk for secrets: servers with known ones answer each request code and each command of each user, and then no
answer, log line, audit line, metric or shown setting has one of them."""

import asyncio
import json
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hanabi.client.config import Credentials
from hanabi.wire.codes import RequestCode as Code
from tests.broker.talk import Peer
from tests.broker.test_access_control import HEARTBEAT, asked, each_header
from tests.cli.admin_commands import run
from tests.controller.controllers import ControllerProcess
from tests.interop.processes import ServerProcess
from tests.serving import QUICK

MARK = "walk-secret"  # in each secret
OPERATOR = Credentials("operator", f"{MARK}-of-operator")
APP = Credentials("orders-app", f"{MARK}-of-orders")
WRONG = Credentials("orders-app", f"{MARK}-that-is-wrong")
INNER = Credentials("inner-broker", f"{MARK}-of-inner")
TOKEN = f"{MARK}-of-prometheus"
# Super users may read passwords of users: `mqadmin copyUser` needs them.
SHOWS_PASSWORDS = {Code.AUTH_GET_USER, Code.AUTH_LIST_USER}
ACCOUNTS = f"""
accounts:
- accessKey: operator
  secretKey: {OPERATOR.secret_key}
  previousSecretKey: {MARK}-before
  admin: true
- accessKey: orders-app
  secretKey: ${{file:orders.secret}}
  defaultTopicPerm: PUB|SUB
- accessKey: inner-broker
  secretKey: {INNER.secret_key}
  admin: true
"""


class Walk:
    """Running servers, and all that they and the commands said."""

    def __init__(self, home: Path, stack: ExitStack) -> None:
        self.home = home
        folder = home / "conf"
        folder.mkdir(parents=True)
        (folder / "orders.secret").write_text(APP.secret_key + "\n")
        rules = ACCOUNTS.replace("${file:orders.secret}", f"${{file:{folder / 'orders.secret'}}}")
        (folder / "plain_acl.yml").write_text(rules)
        settings = QUICK | {
            "brokerName": "broker-a",
            "aclEnable": "true",
            "aclFolder": folder,
            "authenticationEnabled": "true",
            "authorizationEnabled": "true",
            "migrateAuthFromV1Enabled": "true",
            "initAuthenticationUser": json.dumps({"username": "root-user", "password": f"{MARK}-of-root"}),
            "innerClientAuthenticationCredentials": json.dumps(
                {"accessKey": INNER.access_key, "secretKey": INNER.secret_key}
            ),
            "wrongSignatureDelayMaxMillis": 0,
        }
        self.config = home / "broker.conf"
        self.config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self.token = home / "token"
        self.token.write_text(TOKEN)
        ports = ["--namesrv-port", "0", "--broker-port", "0", "--metrics-port", "0"]
        command = [sys.executable, "-m", "hanabi", "serve", "-c", str(self.config), "--home", str(home / "data")]
        command += [*ports, "--metrics-token-file", str(self.token), "--log-level", "debug"]
        process = ServerProcess("hanabi serve", command, home / "console.log")
        stack.callback(process.kill)
        self.namesrv = process.wait_for_line("ready namesrv ").split()[-1]
        self.broker = process.wait_for_line("ready broker ").split()[-1]
        self.metrics = process.wait_for_line("ready metrics ").split()[-1]
        closed: dict[str, object] = {"writeProtectionEnable": "true", "aclFolder": folder}
        controller = ControllerProcess(home / "controller", settings=closed)
        stack.callback(controller.process.kill)
        self.controller = controller.address

    async def ask_all(self, address: str, access: Credentials | None) -> str:
        """Send each code; return all answers as one text."""
        told: list[str] = []
        peer = await Peer.connect(address)
        for code in Code:
            if access is OPERATOR and code in SHOWS_PASSWORDS:
                continue
            body = HEARTBEAT if code is Code.HEART_BEAT else b'{"clientId":"c","mqSet":[]}'
            answer = await asked(peer, code, each_header(code), access, body)
            told.append(f"{code.name} {answer.remark} {dict(answer.fields())} {bytes(answer.body)!r}")
        await peer.close()
        return "\n".join(told)

    def written(self) -> Iterator[tuple[str, str]]:
        """Yield each log, audit and console file."""
        for path in self.home.rglob("*.log*"):
            if path.is_file():
                yield str(path), path.read_text(errors="replace")


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    with ExitStack() as stack:
        yield Walk(tmp_path_factory.mktemp("secrets"), stack)


@pytest.mark.parametrize("access", [OPERATOR, APP, WRONG, None], ids=["operator", "app", "wrong", "unsigned"])
def test_no_answer_to_any_code_has_a_secret(walk: Walk, access: Credentials | None) -> None:
    for address in (walk.broker, walk.namesrv, walk.controller):
        told = asyncio.run(walk.ask_all(address, access))
        assert told.count("\n") > 100
        assert MARK not in told, [line for line in told.splitlines() if MARK in line]


COMMANDS = (
    ("user", "list"),
    ("user", "show", "orders-app"),
    ("user", "show", "root-user", "--json"),
    ("user", "create", "new-user", "--password-file", "PASSWORD"),
    ("user", "update", "new-user", "--password-file", "PASSWORD", "--keep-old"),
    ("user", "create", "new-account", "--account", "--password-file", "PASSWORD", "--topic", "Orders=PUB"),
    ("user", "delete", "new-user", "--yes"),
    ("acl", "list"),
    ("acl", "show", "orders-app", "--json"),
    ("acl", "create", "orders-app", "Topic:Orders", "-a", "pub"),
    ("acl", "explain", "orders-app", "--topic", "Orders", "--action", "pub"),
    ("acl", "check", "RULES"),
    ("broker", "config"),
    ("broker", "config", "--json"),
    ("broker", "config", 'accountQuotas={"x":{"connections":1}}', "--yes"),
    ("broker", "config", 'initAuthenticationUser={"username":"x","password":"y"}', "--yes"),
    ("broker", "status"),
    ("broker", "replication"),
    ("namesrv", "config"),
    ("cluster", "list"),
    ("topic", "list"),
    ("topic", "create", "Orders", "--queues", "1"),
    ("group", "list"),
    ("stats",),
    ("doctor",),
    ("send", "Orders", "hello"),
)


@pytest.mark.parametrize(
    "access",
    [
        pytest.param(OPERATOR, id="operator"),
        pytest.param(APP, id="app", marks=pytest.mark.slow),
        pytest.param(WRONG, id="wrong", marks=pytest.mark.slow),
    ],
)
def test_no_command_of_any_user_shows_a_secret(walk: Walk, access: Credentials, tmp_path: Path) -> None:
    credentials = tmp_path / "tools.yml"
    credentials.write_text(f"accessKey: {access.access_key}\nsecretKey: {access.secret_key}\n")
    password = tmp_path / "password"
    password.write_text(f"{MARK}-of-new-user\n")
    given = {"PASSWORD": str(password), "RULES": str(walk.home / "conf" / "plain_acl.yml")}
    succeeded = 0
    for command in COMMANDS:
        words = [given.get(word, word) for word in command]
        options = [] if "check" in command else ["-n", walk.namesrv, "--access-key", f"file:{credentials}"]
        done = run(*words, *options)
        assert MARK not in done.stdout + done.stderr, command
        succeeded += done.returncode == 0
    if access is OPERATOR:
        assert succeeded >= len(COMMANDS) - 2, succeeded


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_shown_settings_have_no_secret(walk: Walk, form: tuple[str, ...]) -> None:
    done = run("serve", "broker", "-c", str(walk.config), "--metrics-token-file", str(walk.token), "--config", *form)
    assert done.returncode == 0, done.stderr
    assert "initAuthenticationUser" in done.stdout
    assert MARK not in done.stdout + done.stderr


def test_no_metric_has_a_secret(walk: Walk) -> None:
    request = urllib.request.Request(f"http://{walk.metrics}/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request, timeout=60) as page:
        text = page.read().decode()
    assert "hanabi_access_refused_total" in text
    assert MARK not in text


def test_no_log_and_no_audit_line_has_a_secret(walk: Walk) -> None:
    """The last test: the files have what all others caused."""
    asyncio.run(walk.ask_all(walk.broker, WRONG))
    files = dict(walk.written())
    assert any("audit" in name for name in files), files.keys()
    assert any("console" in name for name in files), files.keys()
    for name, text in files.items():
        assert MARK not in text, (name, [line for line in text.splitlines() if MARK in line][:3])
