"""TLS and plain on our ports, certificates of both sides, and files that change under a running server."""

import asyncio
import os
import shutil
import socket
import ssl
from pathlib import Path

import msgspec
import pytest

from hanabi.errors import ConfigError, ConnectError, RequestTimeoutError, TransportError
from hanabi.remoting.address import format_address
from hanabi.remoting.config import RemotingConfig
from hanabi.remoting.transport.server import RemotingServer
from hanabi.remoting.transport.tls import (
    ClientAuth,
    ServerTls,
    TlsConfig,
    TlsMode,
    client_context,
    server_context,
    tls_config,
)
from hanabi.testing.clock import ManualClock
from hanabi.testing.waiting import eventually
from hanabi.wire.command import encode_request
from tests.remoting.certificates import Issued, issue
from tests.remoting.peers import ECHO, connecting, ends_with, raw_peer, serving, warnings


class Authority:
    """One authority, its server and its client; and a stranger that it did not sign."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = issue(folder, "root")
        self.server = issue(folder, "server", self.root)
        self.client = issue(folder, "client", self.root)
        self.stranger = issue(folder, "stranger")

    def server_settings(self, mode: TlsMode = TlsMode.PERMISSIVE, *, auth: ClientAuth = ClientAuth.NONE) -> TlsConfig:
        return TlsConfig(
            server_mode=mode,
            server_need_client_auth=auth,
            server_cert_path=str(self.server.certificate_path),
            server_key_path=str(self.server.key_path),
            server_trust_cert_path=str(self.root.certificate_path),
        )

    def client_settings(self, certificate: Issued | None = None) -> TlsConfig:
        return TlsConfig(
            client_enable=True,
            client_auth_server=True,
            client_trust_cert_path=str(self.root.certificate_path),
            client_cert_path=str(certificate.certificate_path) if certificate else None,
            client_key_path=str(certificate.key_path) if certificate else None,
        )


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize("mode", TlsMode)
async def test_a_plain_peer_is_served_unless_tls_is_enforced(
    authority: Authority, mode: TlsMode, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tls=authority.server_settings(mode)) as (server, address), connecting() as connector:
        if mode is not TlsMode.ENFORCING:
            assert (await connector.request(address, ECHO, body=b"plain")).body == b"plain"
            return
        await ends_with(TransportError, connector.request(address, ECHO))
        assert not server.connections
        (line,) = warnings(caplog)
        assert "does not speak TLS" in line


@pytest.mark.parametrize("mode", TlsMode)
async def test_a_tls_peer_is_served_unless_tls_is_disabled(
    authority: Authority, mode: TlsMode, caplog: pytest.LogCaptureFixture
) -> None:
    client_tls = authority.client_settings()
    async with (
        serving(tls=authority.server_settings(mode)) as (_, address),
        connecting(tls=client_tls) as connector,
    ):
        if mode is not TlsMode.DISABLED:
            answers = await asyncio.gather(*(connector.request(address, ECHO, body=b"%d" % n) for n in range(20)))
            assert [answer.body for answer in answers] == [b"%d" % n for n in range(20)]
            body = bytes(3_000_000)
            assert (await connector.request(address, ECHO, body=body)).body == body
            assert warnings(caplog) == []
            return
        await ends_with(ConnectError, connector.request(address, ECHO))
        (line,) = warnings(caplog)
        assert "speaks TLS, but this port is plain" in line


async def test_tls_and_plain_share_a_port_and_the_first_byte_may_come_alone(authority: Authority) -> None:
    async with serving(tls=authority.server_settings()) as (_, address), raw_peer(address) as plain:
        request = encode_request(ECHO, 1, None, b"plain")
        plain.send(request[:1])
        await plain.writer.drain()
        async with connecting(tls=authority.client_settings()) as connector:
            assert (await connector.request(address, ECHO, body=b"tls")).body == b"tls"
        plain.send(request[1:])
        assert (await plain.answer()).body == b"plain"


@pytest.mark.parametrize("mode", [TlsMode.PERMISSIVE, TlsMode.ENFORCING])
async def test_a_peer_that_says_nothing_holds_nobody_up_and_is_closed_when_idle(
    authority: Authority, mode: TlsMode, caplog: pytest.LogCaptureFixture
) -> None:
    config = RemotingConfig(idle_seconds=0.5)
    client_tls = authority.client_settings()
    async with (
        serving(config=config, tls=authority.server_settings(mode)) as (_, address),
        raw_peer(address) as silent,
    ):
        async with connecting(tls=client_tls) as connector:
            assert (await connector.request(address, ECHO, body=b"quick")).body == b"quick"
        assert await silent.until_closed() == b""

    (line,) = warnings(caplog)
    assert "idle for 0.5 s" in line


async def test_a_handshake_that_does_not_go_on_is_ended(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    config = RemotingConfig(tls_handshake_seconds=0.5, connections_max=1)
    async with serving(config=config, tls=authority.server_settings()) as (server, address):
        async with raw_peer(address) as slow:
            slow.send(b"\x16\x03\x01")
            await eventually(lambda: server.statistics().accepted == 1)
            assert await slow.until_closed() == b""
        async with connecting(tls=authority.client_settings()) as connector:  # its place is free again
            await connector.request(address, ECHO)

    assert len(warnings(caplog)) == 1


async def test_a_handshake_of_garbage_is_one_log_line(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(tls=authority.server_settings()) as (_, address), raw_peer(address) as peer:
        peer.send(b"\x16" + b"nonsense" * 100)
        await peer.until_closed()
        await eventually(lambda: bool(warnings(caplog)))

    assert len(warnings(caplog)) == 1


async def test_a_server_stops_while_peers_are_silent_or_shake_hands(authority: Authority) -> None:
    async with (
        serving(tls=authority.server_settings()) as (server, address),
        raw_peer(address),
        raw_peer(address) as half,
    ):
        half.send(b"\x16\x03\x01")
        await eventually(lambda: server.statistics().accepted == 2)
        await server.stop(1.0)


async def test_a_server_stops_cleanly_with_tls_peers_connected(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        serving(tls=authority.server_settings()) as (server, address),
        connecting(tls=authority.client_settings()) as connector,
    ):
        await connector.request(address, ECHO)
        began = asyncio.get_running_loop().time()
        await server.stop(50.0)
        assert asyncio.get_running_loop().time() - began < 30.0

    assert warnings(caplog) == []


@pytest.mark.parametrize(
    ("auth", "who", "welcome"),
    [
        (ClientAuth.NONE, "nobody", True),
        (ClientAuth.OPTIONAL, "nobody", True),
        (ClientAuth.OPTIONAL, "client", True),
        (ClientAuth.OPTIONAL, "stranger", False),
        (ClientAuth.REQUIRE, "nobody", False),
        (ClientAuth.REQUIRE, "client", True),
        (ClientAuth.REQUIRE, "stranger", False),
    ],
)
async def test_a_client_certificate_is_asked_for_and_checked(
    authority: Authority, auth: ClientAuth, who: str, welcome: bool
) -> None:
    certificate = {"nobody": None, "client": authority.client, "stranger": authority.stranger}[who]
    server_tls = authority.server_settings(TlsMode.ENFORCING, auth=auth)
    client_tls = authority.client_settings(certificate)
    async with serving(tls=server_tls) as (_, address), connecting(tls=client_tls) as connector:
        if welcome:
            assert (await connector.request(address, ECHO, body=b"hello")).body == b"hello"
        else:
            message = await ends_with(TransportError, connector.request(address, ECHO))
            assert message.startswith(f"{address}: ")


async def test_a_client_refuses_a_server_that_its_authority_did_not_sign(authority: Authority) -> None:
    client_tls = msgspec.structs.replace(
        authority.client_settings(), client_trust_cert_path=str(authority.stranger.certificate_path)
    )
    async with serving(tls=authority.server_settings()) as (_, address), connecting(tls=client_tls) as connector:
        message = await ends_with(ConnectError, connector.request(address, ECHO))
        assert message.startswith(f"{address}: ")
        assert "the server's certificate is not trusted: " in message


async def test_the_time_of_the_handshake_is_part_of_a_requests_timeout(authority: Authority) -> None:
    loop = asyncio.get_running_loop()

    async def hesitate() -> asyncio.Transport:
        client, _ = await loop.sock_accept(listener)
        await asyncio.sleep(0.3)
        transport, _ = await loop.connect_accepted_socket(
            asyncio.Protocol, client, ssl=server_context(authority.server_settings())
        )
        return transport  # and never answer

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        address = format_address(listener.getsockname())
        hesitating = asyncio.create_task(hesitate())
        async with connecting(tls=authority.client_settings()) as connector:
            message = await ends_with(RequestTimeoutError, connector.request(address, ECHO, timeout=2.0))
            assert float(message.split()[-2]) <= 1.7
            (await hesitating).abort()


async def served_certificate(address: str) -> bytes:
    """Return the certificate that a new connection is shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    async with raw_peer(address, context) as peer:
        certificate = peer.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        assert isinstance(certificate, bytes)
        return certificate


def install(issued: Issued, settings: TlsConfig) -> None:
    """Put *issued* where the server of *settings* looks for its certificate."""
    assert settings.server_cert_path is not None
    assert settings.server_key_path is not None
    shutil.copy(issued.certificate_path, settings.server_cert_path)
    shutil.copy(issued.key_path, settings.server_key_path)


async def test_new_connections_are_shown_the_new_certificate_and_old_ones_live_on(
    authority: Authority, tmp_path: Path
) -> None:
    settings = TlsConfig(server_cert_path=str(tmp_path / "server.pem"), server_key_path=str(tmp_path / "server.key"))
    successor = issue(tmp_path, "successor", authority.root)
    install(authority.server, settings)
    async with serving(tls=settings) as (_, address), connecting(tls=authority.client_settings()) as connector:
        await connector.request(address, ECHO)
        assert await served_certificate(address) == authority.server.der
        install(successor, settings)
        while await served_certificate(address) != successor.der:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        assert (await connector.request(address, ECHO, body=b"the old one")).body == b"the old one"


def test_files_are_looked_at_once_a_second_and_broken_ones_change_nothing(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = TlsConfig(server_cert_path=str(tmp_path / "server.pem"), server_key_path=str(tmp_path / "server.key"))
    certificate = tmp_path / "server.pem"
    clock = ManualClock(1_000_000)
    install(authority.server, settings)
    tls = ServerTls(settings, clock.seconds)
    first = tls.context()

    certificate.write_text("half a certif")
    assert tls.context() is first
    assert warnings(caplog) == []  # a second has not passed
    for _ in range(3):
        clock.ms += 1_000
        assert tls.context() is first
    (line,) = warnings(caplog)
    assert "tls.server.certPath" in line

    certificate.unlink()
    clock.ms += 1_000
    assert tls.context() is first

    install(authority.stranger, settings)
    os.utime(certificate, ns=(1, 1))
    clock.ms += 500
    assert tls.context() is first
    clock.ms += 500
    second = tls.context()
    assert second is not first
    clock.ms += 1_000
    assert tls.context() is second


SESAME = "opensesame"


def test_a_key_with_a_password_is_opened_with_it_and_never_asks(authority: Authority, tmp_path: Path) -> None:
    secret = issue(tmp_path, "secret", authority.root, password=SESAME)
    settings = TlsConfig(
        server_cert_path=str(secret.certificate_path),
        server_key_path=str(secret.key_path),
        server_key_password=SESAME,
    )
    server_context(settings)
    for wrong in (None, "closesesame"):
        with pytest.raises(ConfigError, match=r"tls\.server\.keyPath"):
            server_context(msgspec.structs.replace(settings, server_key_password=wrong))


async def test_a_server_does_not_start_with_settings_that_cannot_work(authority: Authority, tmp_path: Path) -> None:
    good = authority.server_settings(auth=ClientAuth.REQUIRE)
    bad = {
        "certPath": msgspec.structs.replace(good, server_cert_path=None),
        "keyPath": msgspec.structs.replace(good, server_key_path=str(tmp_path / "missing.key")),
        "trustCertPath": msgspec.structs.replace(good, server_trust_cert_path=None),
        f"trustCertPath {authority.server.key_path}": msgspec.structs.replace(
            good, server_trust_cert_path=str(authority.server.key_path)
        ),
    }
    for key, settings in bad.items():
        assert key in await ends_with(ConfigError, RemotingServer({}, tls=settings).start("127.0.0.1", 0))


def test_the_settings_have_the_names_of_tls_properties() -> None:
    config = tls_config(
        {
            "tls.test.mode.enable": "false",
            "tls.server.mode": "Enforcing",
            "tls.server.need.client.auth": "require",
            "tls.server.keyPath": "/k",
            "tls.server.keyPassword": "  ",
            "tls.server.certPath": "/c",
            "tls.server.authClient": "true",
            "tls.server.trustCertPath": "/t",
            "tls.enable": "true",
            "tls.client.authServer": "false",
        }
    )
    assert config == TlsConfig(
        server_mode=TlsMode.ENFORCING,
        server_need_client_auth=ClientAuth.REQUIRE,
        server_key_path="/k",
        server_cert_path="/c",
        server_auth_client=True,
        server_trust_cert_path="/t",
        client_enable=True,
    )
    with pytest.raises(ConfigError, match=r"tls\.server\.mode"):
        tls_config({"tls.server.mode": "sometimes"})


def test_a_client_without_one_trusted_file_checks_the_servers_name(authority: Authority) -> None:
    assert client_context(TlsConfig()) is None
    unchecked = client_context(TlsConfig(client_enable=True))
    assert unchecked is not None
    assert unchecked.verify_mode is ssl.CERT_NONE
    by_file = client_context(authority.client_settings())
    assert by_file is not None
    assert (by_file.verify_mode, by_file.check_hostname) == (ssl.CERT_REQUIRED, False)
    by_system = client_context(TlsConfig(client_enable=True, client_auth_server=True))
    assert by_system is not None
    assert (by_system.verify_mode, by_system.check_hostname) == (ssl.CERT_REQUIRED, True)


@pytest.mark.parametrize(
    ("mode", "enable", "expected"),
    [
        ("enforcing", None, True),
        ("enforcing", "false", False),
        ("permissive", None, False),
        ("permissive", "true", True),
    ],
)
def test_a_server_that_takes_tls_only_opens_its_own_connections_with_tls(
    mode: str, enable: str | None, expected: bool
) -> None:
    properties = {"tls.server.mode": mode} | ({} if enable is None else {"tls.enable": enable})
    assert tls_config(properties).client_enable is expected


async def test_each_mismatch_of_tls_says_what_to_look_at(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """Both loops word these failures differently, or not at all; both sides must say the same with either."""
    trusting = authority.client_settings()
    wrong = msgspec.structs.replace(trusting, client_trust_cert_path=str(authority.stranger.certificate_path))
    demanding = authority.server_settings(TlsMode.ENFORCING, auth=ClientAuth.REQUIRE)
    enforcing = authority.server_settings(TlsMode.ENFORCING)
    cases = (
        (enforcing, None, "does the port take TLS only", "does not speak TLS"),
        (None, trusting, "does the port speak TLS", "this port is plain"),
        (enforcing, wrong, "the server's certificate is not trusted", "trust our certificate"),
        (demanding, trusting, "client certificate (tls.client.certPath)", "it shows no certificate"),
    )
    for server, client, told, logged in cases:
        caplog.clear()
        async with serving(tls=server) as (_, address), connecting(tls=client) as connector:
            assert told in await ends_with(TransportError, connector.request(address, ECHO))
            await eventually(lambda: bool(warnings(caplog)))
            assert logged in warnings(caplog)[-1]
