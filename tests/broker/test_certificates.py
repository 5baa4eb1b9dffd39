"""Client certificates that name accounts: no signature is needed, and a signature of another account is refused."""

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import hanabi
from hanabi.aio import Producer
from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig, read_broker_config
from hanabi.client.config import ClientConfig, Credentials
from hanabi.errors import ConfigError, MQError
from hanabi.namesrv.config import NamesrvConfig
from hanabi.namesrv.name_server import NameServer
from hanabi.remoting.address import format_address
from hanabi.remoting.transport.tls import ClientAuth, TlsConfig, TlsMode
from hanabi.testing.cluster import small_store
from hanabi.wire.codes import RequestCode
from tests.broker.talk import Peer
from tests.broker.test_access_control import APP, ATTACKER, PULL, SEND, asked, pull_from, rules, send_to
from tests.broker.test_policy_access import INIT, make_user
from tests.remoting.certificates import Issued, issue


class Site:
    """An authority, a broker whose clients may show certificates, and connections with each of these."""

    def __init__(self, home: Path) -> None:
        self.authority = issue(home, "authority")
        self.server = issue(home, "server", self.authority)
        self.folder = home
        self.address, self.namesrv = "", ""
        self.peers: list[Peer] = []

    def tls(self, own: Issued | None = None) -> TlsConfig:
        return TlsConfig(
            server_mode=TlsMode.ENFORCING,
            server_need_client_auth=ClientAuth.OPTIONAL,
            server_cert_path=str(self.server.certificate_path),
            server_key_path=str(self.server.key_path),
            server_trust_cert_path=str(self.authority.certificate_path),
            client_enable=True,
            client_auth_server=True,
            client_trust_cert_path=str(self.authority.certificate_path),
            client_cert_path=str(own.certificate_path) if own else None,
            client_key_path=str(own.key_path) if own else None,
        )

    async def peer(self, name: str | None, by: Issued | None = None) -> Peer:
        """Connect, with a certificate of this name."""
        context = ssl.create_default_context(cafile=str(self.authority.certificate_path))
        if name is not None:
            own = issue(self.folder, name, by or self.authority)
            context.load_cert_chain(own.certificate_path, own.key_path)
        self.peers.append(await Peer.connect(self.address, context))
        return self.peers[-1]


@asynccontextmanager
async def certified(home: Path, **settings: Any) -> AsyncIterator[Site]:
    site = Site(home)
    async with NameServer(NamesrvConfig(), home / "namesrv", tls=site.tls()) as name_server:
        site.namesrv = format_address(await name_server.start("127.0.0.1", 0))
        config = BrokerConfig(broker_name="broker-a", namesrv_addr=site.namesrv, certificate_accounts=True, **settings)
        async with Broker(config, small_store(home / "broker"), tls=site.tls()) as broker:
            site.address = format_address(await broker.start("127.0.0.1", 0))
            await broker.registration.until_registered()
            yield site
            for peer in site.peers:
                await peer.close()


BY_USERS: dict[str, Any] = {"authentication_enabled": True, "authorization_enabled": True, "init_user": INIT}


def by_accounts(home: Path) -> dict[str, Any]:
    return {"acl_enabled": True, "acl_folder": str(rules(home))}


async def test_a_certificate_names_the_account_and_its_rights_count(tmp_path: Path) -> None:
    async with certified(tmp_path, **by_accounts(tmp_path)) as site:
        app = await site.peer("orders-app")
        for _ in range(3):  # the later ones by the fast path
            assert (await asked(app, SEND, send_to("Orders"), None)).code == 0
        assert (await asked(app, PULL, pull_from("Orders", "readers"), None, b"")).code == 0
        refused = await asked(app, SEND, send_to("Own"), None)
        assert (refused.code, refused.remark) == (16, "No default permission for topic:Own")
        assert (await asked(app, RequestCode.GET_BROKER_CONFIG, None, None)).code == 16
        operator = await site.peer("operator")
        assert (await asked(operator, RequestCode.GET_BROKER_CONFIG, None, None)).code == 0


async def test_certificate_and_signature_must_agree(tmp_path: Path) -> None:
    async with certified(tmp_path, **by_accounts(tmp_path)) as site:
        app = await site.peer("orders-app")
        for _ in range(3):
            assert (await asked(app, SEND, send_to("Orders"), APP)).code == 0
        refused = await asked(app, SEND, send_to("Own"), ATTACKER)  # its own topic, and rightly signed
        assert refused.code == 16
        assert refused.remark == "the client certificate is of account orders-app, the request of attacker"
        wrong = await asked(app, SEND, send_to("Orders"), Credentials("orders-app", "wrong-secret"))
        assert (wrong.code, wrong.remark) == (16, "Check signature failed for accessKey=orders-app")


async def test_without_a_certificate_of_an_account_the_signature_counts(tmp_path: Path) -> None:
    async with certified(tmp_path, **by_accounts(tmp_path)) as site:
        for name in (None, "machine-7"):
            peer = await site.peer(name)
            assert (await asked(peer, SEND, send_to("Orders"), None)).remark == "No accessKey is configured"
            assert (await asked(peer, SEND, send_to("Orders"), APP)).code == 0


async def test_a_certificate_of_another_authority_is_no_identity(tmp_path: Path) -> None:
    async with certified(tmp_path, **by_accounts(tmp_path)) as site:
        other = issue(tmp_path, "another-authority")
        with pytest.raises((OSError, EOFError, MQError)):  # noqa: PT012 - refused at the handshake or at the first read
            peer = await site.peer("operator", other)
            await asked(peer, RequestCode.GET_BROKER_CONFIG, None, None)


async def test_certificates_name_no_account_unless_the_key_says_so(tmp_path: Path) -> None:
    async with certified(tmp_path, **by_accounts(tmp_path)) as site:
        config = BrokerConfig(broker_name="broker-b", **by_accounts(tmp_path))
        async with Broker(config, small_store(tmp_path / "b"), tls=site.tls()) as broker:
            site.address = format_address(await broker.start("127.0.0.1", 0))
            operator = await site.peer("operator")
            assert (await asked(operator, RequestCode.GET_BROKER_CONFIG, None, None)).code == 16


async def test_users_of_5_are_named_by_certificates_too(tmp_path: Path) -> None:
    async with certified(tmp_path, **BY_USERS) as site:
        operator = await site.peer("operator")
        assert (await asked(operator, RequestCode.GET_BROKER_CONFIG, None, None)).code == 0
        await make_user(operator, APP, ("Topic:Orders", "Pub"))
        app = await site.peer("orders-app")
        for _ in range(3):
            assert (await asked(app, SEND, send_to("Orders"), None)).code == 0
        assert (await asked(app, SEND, send_to("Own"), None)).code == 16
        assert (await asked(app, SEND, send_to("Orders"), ATTACKER)).code == 16


async def test_our_client_sends_with_a_certificate_in_place_of_credentials(tmp_path: Path) -> None:
    async with certified(tmp_path, **by_accounts(tmp_path)) as site:
        own = issue(tmp_path, "orders-app", site.authority)
        config = ClientConfig(namesrv=site.namesrv, tls=site.tls(own))
        async with Producer("senders", config=config, retries=0) as producer:
            await producer.send(hanabi.Message("Orders", b"x"))
            with pytest.raises(MQError, match="topic:Own"):
                await producer.send(hanabi.Message("Own", b"x"))
        signed = msgspec.structs.replace(config, access=ATTACKER)
        async with Producer("senders", config=signed, retries=0) as producer:
            with pytest.raises(MQError, match="the client certificate is of account orders-app"):
                await producer.send(hanabi.Message("Own", b"x"))


def test_the_key_needs_access_control(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("certificateAccountsEnable=true\n")
    with pytest.raises(ConfigError, match="needs aclEnable"):
        read_broker_config(path)


async def test_the_audit_log_names_the_certificate(tmp_path: Path) -> None:
    async with certified(tmp_path, **by_accounts(tmp_path)) as site:
        app = await site.peer("orders-app")
        assert (await asked(app, SEND, send_to("Own"), None)).code == 16
    lines = [json.loads(line) for line in (tmp_path / "broker" / "audit" / "audit.log").read_text().splitlines()]
    assert [(line["certificate"], line.get("account")) for line in lines] == [(["orders-app", "127.0.0.1"], None)]
