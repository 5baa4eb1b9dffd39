"""An attacker, with one unprivileged account and with none, tries each request code at each port of a protected
cluster: nothing changes, no foreign message is read, no secret is told."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.client.config import Credentials
from hanabi.controller.config import ControllerConfig
from hanabi.controller.controller import Controller
from hanabi.errors import ConfigError
from hanabi.metrics.port import MetricsPort
from hanabi.metrics.protection import read_protection
from hanabi.namesrv.config import NamesrvConfig
from hanabi.namesrv.name_server import NameServer
from hanabi.remoting.address import format_address
from hanabi.replication.wire import encode_report
from hanabi.testing.cluster import small_store
from hanabi.wire.codes import RequestCode as Code
from hanabi.wire.codes import ResponseCode
from tests.broker.replica.masters import ha_address
from tests.broker.talk import Peer
from tests.broker.test_access_control import (
    APP,
    ATTACKER,
    HARMLESS,
    HEARTBEAT,
    OPERATOR,
    SEND,
    asked,
    each_header,
    rules,
    send_to,
)
from tests.metrics.scraping import ask, get

HOST, ELSEWHERE = "127.0.0.1", "192.0.2.7"  # an address that no test has
TREASURE = b"treasure: a message of another account"
TOKEN = "secret-of-prometheus"  # noqa: S105
BODY = b'{"clientId":"c","clientID":"c","consumerGroup":"victims","mqSet":[]}'
START_TRIES = 20


class Doors:
    """A protected cluster, and the addresses of its ports by name."""

    def __init__(self, name_server: NameServer, controller: Controller, broker: Broker, home: Path) -> None:
        self.name_server, self.controller, self.broker, self._home = name_server, controller, broker, home
        self.ports: dict[str, str] = {}
        self.metrics = HOST, 0

    async def state(self) -> tuple[object, ...]:
        """Return what an attacker might change: of the broker, of the name server, of the controller."""
        broker, operator = self.broker, await Peer.connect(self.ports["namesrv"])
        reads = [
            (await asked(operator, code, each_header(code), OPERATOR, b"")).body
            for code in (
                Code.GET_BROKER_CLUSTER_INFO,
                Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
                Code.GET_NAMESRV_CONFIG,
                Code.GET_KVLIST_BY_NAMESPACE,
            )
        ]
        await operator.close()
        files = sorted((self._home / "controller").rglob("*"))
        return (
            broker.tables.topics.table(),
            broker.tables.groups.table(),
            broker.tables.offsets.table(),
            broker.settings.broker,
            broker.store.max_log_offset,
            broker.access_control and broker.access_control.files.rules,
            reads,
            [(path.name, hashlib.sha256(path.read_bytes()).digest()) for path in files if path.is_file()],
        )


@asynccontextmanager
async def protected(home: Path) -> AsyncIterator[Doors]:
    folder = str(rules(home))
    closed: dict[str, Any] = {"write_protection_enable": True, "acl_folder": folder}
    async with AsyncExitStack() as stack:
        name_server = await stack.enter_async_context(NameServer(NamesrvConfig(**closed), home / "namesrv"))
        namesrv = format_address(await name_server.start(HOST, 0))
        controller = await stack.enter_async_context(Controller(ControllerConfig(**closed), home / "controller"))
        elector = format_address(await controller.start(HOST, 0))
        config = BrokerConfig(
            broker_name="broker-a",
            namesrv_addr=namesrv,
            acl_enabled=True,
            acl_folder=folder,
            fast_port_enabled=True,
            guess_delay_ms=0,
            allowed_peers=ELSEWHERE,
            inner_credentials='{"accessKey":"operator","secretKey":"secret-of-operator"}',
        )
        broker, address = await started(config, home / "broker", stack)
        await broker.registration.until_registered()
        doors = Doors(name_server, controller, broker, home)
        assert len(broker.servers) == 2
        fast = format_address((HOST, int(address.rpartition(":")[2]) - 2))
        doors.ports = {"broker": address, "fast port": fast, "namesrv": namesrv, "controller": elector}
        port = MetricsPort(protection=read_protection(None, None, {"HANABI_METRICS_TOKEN": TOKEN}))
        doors.metrics = await port.start(HOST, 0)
        stack.push_async_callback(port.stop)
        port.broker_started(broker)
        operator = await Peer.connect(address)
        for topic in ("Secrets", "Own"):
            assert (await asked(operator, SEND, send_to(topic), OPERATOR, TREASURE)).code == 0
        await operator.close()
        await broker.registration.settled()
        yield doors


async def started(config: BrokerConfig, home: Path, stack: AsyncExitStack) -> tuple[Broker, str]:
    """Start a broker with its fast port, which is two below the other: that one may be taken."""
    for _ in range(START_TRIES):
        broker = Broker(config, small_store(home))
        try:
            address = format_address(await broker.start(HOST, 0))
        except ConfigError:
            await broker.stop()
            continue
        stack.push_async_callback(broker.stop)
        return broker, address
    raise AssertionError(f"no two free ports in {START_TRIES} tries")


@pytest.mark.parametrize("access", [ATTACKER, None], ids=["unprivileged", "unsigned"])
async def test_each_code_at_each_port_changes_and_tells_nothing(tmp_path: Path, access: Credentials | None) -> None:
    async with protected(tmp_path) as doors:
        before = await doors.state()
        answered = dict.fromkeys(doors.ports, 0)
        for name, address in doors.ports.items():
            peer = await Peer.connect(address)
            for code in Code:
                body = HEARTBEAT if code is Code.HEART_BEAT else BODY
                answer = await asked(peer, code, each_header(code), access, body)
                told = bytes(answer.body) + repr(dict(answer.fields())).encode() + (answer.remark or "").encode()
                assert TREASURE not in told, (name, code.name)
                assert b"secret-of" not in told, (name, code.name)
                if name in ("broker", "fast port") and not (access is not None and code in HARMLESS):
                    assert answer.code != ResponseCode.SUCCESS, (name, code.name)
                answered[name] += answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            await peer.close()
        assert all(count > 10 for count in answered.values()), answered  # each port has handlers
        assert await doors.state() == before


async def test_the_port_for_slaves_sends_nothing_to_a_peer_that_is_not_listed(tmp_path: Path) -> None:
    async with protected(tmp_path) as doors:
        host, _, number = ha_address(doors.broker).rpartition(":")
        for sent in (encode_report(0), b"\0" * 8, b"GET / HTTP/1.1\r\n\r\n"):
            reader, writer = await asyncio.open_connection(host, int(number))
            writer.write(sent)
            async with asyncio.timeout(60):
                assert await reader.read() == b""
            writer.close()


async def test_the_port_for_operators_tells_nothing_without_its_token(tmp_path: Path) -> None:
    async with protected(tmp_path) as doors:
        for path in ("/metrics", "/ready", "/", "/health", "/config"):
            answer = await get(doors.metrics, path)
            assert (answer.status, b"Secrets" in answer.body) == (200 if path == "/health" else 401, False)
        shown = await ask(doors.metrics, f"GET /metrics HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        assert b'topic="Secrets"' in shown.body
        assert b"secret-of" not in shown.body


async def test_the_owner_of_an_account_works_while_it_is_attacked(tmp_path: Path) -> None:
    async with protected(tmp_path) as doors:
        attacker, owner = await Peer.connect(doors.ports["broker"]), await Peer.connect(doors.ports["broker"])
        wrong = Credentials(APP.access_key, "guessed-secret")
        for _ in range(50):
            assert (await asked(attacker, SEND, send_to("Orders"), wrong)).code == ResponseCode.NO_PERMISSION
        assert (await asked(owner, SEND, send_to("Orders"), APP)).code == 0
        await attacker.close()
        await owner.close()
