"""Protection of writes: each code of a name server and of a controller, by address, certificate and signature."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hanabi.access.demands import (
    CONTROLLER_READS,
    NAME_SERVER_READS,
    controller_demands_nothing,
    name_server_demands_nothing,
)
from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.client.config import Credentials
from hanabi.controller.config import ControllerConfig
from hanabi.controller.controller import Controller
from hanabi.errors import ConfigError
from hanabi.namesrv.config import NamesrvConfig, embedded_config, read_config
from hanabi.namesrv.name_server import NameServer
from hanabi.remoting.transport.tls import ClientAuth, TlsConfig, TlsMode
from hanabi.testing.cluster import small_store
from hanabi.testing.waiting import eventually
from hanabi.wire.codes import RequestCode as Code
from hanabi.wire.codes import ResponseCode
from hanabi.wire.header import header_fields
from hanabi.wire.headers.namesrv import GetRouteHeader, PutKVConfigHeader
from hanabi.wire.signature import ACCESS_KEY, SIGNATURE, signature
from tests.broker.talk import Peer
from tests.remoting.certificates import Issued, issue

RULES = """
accounts:
- accessKey: operator
  secretKey: secret-of-operator
  admin: true
- accessKey: orders-app
  secretKey: secret-of-orders
"""
OPERATOR = Credentials("operator", "secret-of-operator")
ELSEWHERE = "192.0.2.7"  # an address that no test has


@asynccontextmanager
async def name_server(
    home: Path, tls: TlsConfig | None = None, **settings: Any
) -> AsyncIterator[tuple[NameServer, tuple[str, int]]]:
    config = NamesrvConfig(write_protection_enable=True, **settings)
    async with NameServer(config, home / "home", tls=tls) as server:
        yield server, await server.start("127.0.0.1", 0)


def accounts(home: Path) -> str:
    (home / "plain_acl.yml").write_text(RULES)
    return str(home)


def put(access: Credentials | None = None) -> dict[str, str]:
    fields = header_fields(PutKVConfigHeader(namespace="N", key="k", value="v"))
    if access is None:
        return fields
    fields[ACCESS_KEY] = access.access_key
    return {**fields, SIGNATURE: signature(fields, b"", access.secret_key)}


async def test_each_write_is_refused_and_each_read_is_answered(tmp_path: Path) -> None:
    async with name_server(tmp_path, write_allowed_peers=ELSEWHERE) as (_, address):
        peer = await Peer.connect(address)
        for code in Code:
            answer = await peer.ask(code, {})
            if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                continue
            if name_server_demands_nothing(code):
                assert answer.code != ResponseCode.NO_PERMISSION, code.name
            else:
                # A bad header is an error before it is looked at by the gate, and does nothing either.
                assert answer.code in (ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_ERROR), code.name
        refused = await peer.ask(Code.PUT_KV_CONFIG, put())
        assert refused.code == ResponseCode.NO_PERMISSION
        assert refused.remark == "PUT_KV_CONFIG is not allowed from 127.0.0.1: see writeAllowedPeers"
        assert (await peer.ask(Code.GET_ROUTEINFO_BY_TOPIC, GetRouteHeader(topic="T"))).code == 17
        await peer.close()


async def test_a_listed_address_may_write(tmp_path: Path) -> None:
    async with name_server(tmp_path, write_allowed_peers=f"{ELSEWHERE}, 127.0.0.0/8") as (_, address):
        peer = await Peer.connect(address)
        assert (await peer.ask(Code.PUT_KV_CONFIG, put())).code == ResponseCode.SUCCESS
        await peer.close()


@pytest.mark.parametrize(
    ("access", "remark"),
    [
        (OPERATOR, None),
        (None, "No accessKey is configured"),
        (Credentials("operator", "wrong"), "Check signature failed for accessKey=operator"),
        (
            Credentials("orders-app", "secret-of-orders"),
            "Need admin permission for request code=100, but accessKey=orders-app is not",
        ),
    ],
)
async def test_a_signature_of_an_administrator_is_a_write_permission(
    tmp_path: Path, access: Credentials | None, remark: str | None
) -> None:
    async with name_server(tmp_path, acl_folder=accounts(tmp_path)) as (_, address):
        peer = await Peer.connect(address)
        assert (await peer.ask(Code.PUT_KV_CONFIG, put(access))).remark == remark
        await peer.close()


async def test_a_broker_of_ours_registers_by_its_signature(tmp_path: Path) -> None:
    async with name_server(tmp_path, acl_folder=accounts(tmp_path)) as (server, (host, port)):
        for name, inner in (("unsigned", ""), ("signed", '{"accessKey":"operator","secretKey":"secret-of-operator"}')):
            config = BrokerConfig(broker_name=name, namesrv_addr=f"{host}:{port}", inner_credentials=inner)
            async with Broker(config, small_store(tmp_path / name)) as broker:
                await broker.start("127.0.0.1", 0)
                if inner:
                    await eventually(lambda: "signed" in str(server.routes.cluster_info()), "the registration")
        assert "unsigned" not in str(server.routes.cluster_info())


async def test_a_client_certificate_is_a_write_permission(tmp_path: Path) -> None:
    authority = issue(tmp_path, "authority")
    own = issue(tmp_path, "localhost", by=authority)
    tls = TlsConfig(
        server_mode=TlsMode.PERMISSIVE,
        server_cert_path=str(own.certificate_path),
        server_key_path=str(own.key_path),
        server_trust_cert_path=str(authority.certificate_path),
        server_auth_client=True,
        server_need_client_auth=ClientAuth.OPTIONAL,
    )
    async with name_server(tmp_path, tls, write_allowed_certificates="broker-a") as (_, address):
        for name, code in (
            ("broker-a", ResponseCode.SUCCESS),
            ("stranger", ResponseCode.NO_PERMISSION),
            (None, ResponseCode.NO_PERMISSION),
        ):
            issued = issue(tmp_path, name, by=authority) if name is not None else None
            peer = await Peer.connect(address, ssl=context(authority, issued))
            assert (await peer.ask(Code.PUT_KV_CONFIG, put())).code == code
            await peer.close()
        plain = await Peer.connect(address)
        assert (await plain.ask(Code.PUT_KV_CONFIG, put())).code == ResponseCode.NO_PERMISSION
        await plain.close()


def context(authority: Issued, own: Issued | None) -> ssl.SSLContext:
    found = ssl.create_default_context(cafile=str(authority.certificate_path))
    found.check_hostname = False
    if own is not None:
        found.load_cert_chain(str(own.certificate_path), str(own.key_path))
    return found


async def test_protection_that_would_refuse_each_write_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="writeProtectionEnable=true needs one of writeAllowedPeers"):
        NameServer(NamesrvConfig(write_protection_enable=True), tmp_path)
    with pytest.raises(ConfigError, match=r"writeAllowedPeers: '10\.0\.0' is neither an address nor a network"):
        NameServer(NamesrvConfig(write_protection_enable=True, write_allowed_peers="10.0.0"), tmp_path)


def test_the_keys_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "namesrv.conf"
    path.write_text("writeProtectionEnable=true\nwriteAllowedPeers=10.0.0.0/8\naclFolder=/etc/acl\n")
    config = read_config(path)
    assert (config.write_protection_enable, config.write_allowed_peers, config.acl_folder) == (
        True,
        "10.0.0.0/8",
        "/etc/acl",
    )


async def test_beside_a_broker_the_addresses_of_the_process_may_write_unless_others_are_listed(tmp_path: Path) -> None:
    on, listed = {"writeProtectionEnable": "true"}, {"writeAllowedPeers": ELSEWHERE}
    assert embedded_config(on, "::", 0).write_allowed_peers == "127.0.0.1, ::1"
    assert embedded_config(on, "10.1.2.3", 0).write_allowed_peers == "127.0.0.1, ::1, 10.1.2.3"
    assert embedded_config(on, "localhost", 0).write_allowed_peers == "127.0.0.1, ::1"
    assert embedded_config(on | listed, "10.1.2.3", 0).write_allowed_peers == ELSEWHERE
    assert embedded_config({}, "10.1.2.3", 7) == NamesrvConfig(listen_port=7)
    with pytest.raises(ConfigError, match="writeProtectionEnable"):
        embedded_config({"writeProtectionEnable": "perhaps"}, "127.0.0.1", 0)
    async with NameServer(embedded_config(on, "127.0.0.1", 0), tmp_path) as server:
        peer = await Peer.connect(await server.start("127.0.0.1", 0))
        assert (await peer.ask(Code.PUT_KV_CONFIG, put())).code == 0
        await peer.close()


async def test_each_write_to_a_controller_is_refused(tmp_path: Path) -> None:
    config = ControllerConfig(write_protection_enable=True, write_allowed_peers=ELSEWHERE)
    async with Controller(config, tmp_path) as controller:
        peer = await Peer.connect(await controller.start("127.0.0.1", 0))
        answered: set[int] = set()
        for code in Code:
            answer = await peer.ask(code, {})
            if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                continue
            answered.add(code)
            if not controller_demands_nothing(code):
                assert answer.code in (ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_ERROR), code.name
        assert answered > CONTROLLER_READS
        assert (await peer.ask(Code.UPDATE_CONTROLLER_CONFIG)).code == ResponseCode.NO_PERMISSION
        await peer.close()


def test_reads_of_a_name_server_do_not_include_a_write() -> None:
    assert not NAME_SERVER_READS & {Code.REGISTER_BROKER, Code.PUT_KV_CONFIG, Code.DELETE_TOPIC_IN_NAMESRV}
