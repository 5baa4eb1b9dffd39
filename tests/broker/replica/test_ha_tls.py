"""TLS on the port for slaves, between two brokers of ours: by the files of the broker, read again when they change."""

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.broker.replica.roles import BrokerRole
from hanabi.remoting.address import parse_address
from hanabi.remoting.transport.tls import ClientAuth, TlsConfig
from hanabi.replication.rules.verdicts import RefusalKind
from hanabi.testing.cluster import HOST, small_store
from tests.broker.replica.masters import QUICK, SEGMENT, ha_address, send
from tests.broker.talk import connected
from tests.remoting.certificates import Issued, issue
from tests.replication.logs import MemoryLog, running_slave, until

CHANGES_SECONDS = 20.0


def tls_of(own: Issued, authority: Issued) -> TlsConfig:
    """A broker that shows its certificate on both sides, and wants to see one."""
    return TlsConfig(
        server_cert_path=str(own.certificate_path),
        server_key_path=str(own.key_path),
        server_trust_cert_path=str(authority.certificate_path),
        server_need_client_auth=ClientAuth.REQUIRE,
        client_cert_path=str(own.certificate_path),
        client_key_path=str(own.key_path),
        client_trust_cert_path=str(authority.certificate_path),
        client_auth_server=True,
    )


@asynccontextmanager
async def running(home: Path, tls: TlsConfig, **settings: Any) -> AsyncIterator[Broker]:
    config = BrokerConfig(broker_name="broker-a", ha_tls_enabled=True, reconnect_interval_ms=50, **settings)
    async with Broker(config, small_store(home), tls=tls) as broker:
        await broker.start(HOST, 0)
        yield broker


async def test_a_slave_with_a_certificate_follows_its_master(tmp_path: Path) -> None:
    authority = issue(tmp_path, "authority")
    master_tls, slave_tls = (tls_of(issue(tmp_path, name, authority), authority) for name in ("master", "slave"))
    async with (
        running(tmp_path / "m", master_tls) as master,
        running(
            tmp_path / "s",
            slave_tls,
            broker_role=BrokerRole.SLAVE,
            broker_id=1,
            ha_master_address=ha_address(master),
        ) as slave,
        connected(master.bound) as peer,
    ):
        await send(peer)
        await until(lambda: slave.store.max_log_offset == master.store.max_log_offset > 0)


async def test_a_slave_without_a_certificate_or_without_tls_gets_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = issue(tmp_path, "authority")
    anonymous = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anonymous.load_verify_locations(authority.certificate_path)
    async with (
        running(tmp_path / "m", tls_of(issue(tmp_path, "master", authority), authority)) as master,
        connected(master.bound) as peer,
    ):
        await send(peer)
        for context in (anonymous, None):
            log = MemoryLog(file_bytes=SEGMENT)
            async with running_slave(log, ha_address(master), QUICK, tls=context) as slave:
                await until(lambda slave=slave: slave.state().trouble)  # type: ignore[misc]
                assert not log.data
        assert not master.master_side.acks.slaves
        refusals = master.master_side.master.refusals
        await until(lambda: refusals[RefusalKind.TLS] >= 2)
        assert set(refusals) == {RefusalKind.TLS}
        lines = [line for line in caplog.messages if "is refused" in line]
        assert len(lines) == 1
        assert "it shows no certificate" in lines[0]


async def test_a_new_certificate_is_shown_to_the_next_slave(tmp_path: Path) -> None:
    authority = issue(tmp_path, "authority")
    own, newer = issue(tmp_path, "master", authority), issue(tmp_path, "newer", authority)
    async with running(tmp_path / "m", tls_of(own, authority)) as master:
        assert await shown(master, authority, own) == own.der
        shutil.copy(newer.certificate_path, own.certificate_path)
        shutil.copy(newer.key_path, own.key_path)
        async with asyncio.timeout(CHANGES_SECONDS):
            while await shown(master, authority, newer) != newer.der:  # noqa: ASYNC110 - read once a second
                await asyncio.sleep(0.1)


async def shown(broker: Broker, authority: Issued, own: Issued) -> bytes:
    """Return the certificate that the port for slaves shows to a peer that shows *own*."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority.certificate_path)
    context.load_cert_chain(own.certificate_path, own.key_path)
    host, port = parse_address(ha_address(broker))
    _, writer = await asyncio.open_connection(host, port, ssl=context)
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    assert isinstance(certificate, bytes)
    return certificate
