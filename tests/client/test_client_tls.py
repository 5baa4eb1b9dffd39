"""A client reaches a cluster where nothing but TLS is accepted."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.client.cluster.core import Core
from hanabi.client.config import ClientConfig
from hanabi.errors import ConnectError, MQError
from hanabi.namesrv.config import NamesrvConfig
from hanabi.namesrv.name_server import NameServer
from hanabi.remoting.address import format_address
from hanabi.remoting.transport.tls import TlsConfig, TlsMode
from hanabi.testing.cluster import HOST, small_store
from tests.remoting.certificates import Issued, issue


@asynccontextmanager
async def enforcing(home: Path, certificate: Issued) -> AsyncIterator[str]:
    """Yield a name server and a broker that speak TLS only."""
    tls = TlsConfig(
        server_mode=TlsMode.ENFORCING,
        server_cert_path=str(certificate.certificate_path),
        server_key_path=str(certificate.key_path),
        client_enable=True,
    )
    async with NameServer(NamesrvConfig(), home / "namesrv", tls=tls) as name_server:
        namesrv = format_address(await name_server.start(HOST, 0))
        config = BrokerConfig(broker_name="broker-a", namesrv_addr=namesrv)
        async with Broker(config, small_store(home / "broker"), tls=tls) as broker:
            await broker.start(HOST, 0)
            await broker.registration.until_registered()
            yield namesrv


async def test_a_client_that_trusts_the_certificate_is_served_and_others_say_why_not(tmp_path: Path) -> None:
    async def queues(namesrv: str, tls: TlsConfig | None) -> int:
        core = await Core.acquire(ClientConfig(namesrv=namesrv, tls=tls, request_timeout_s=2.0))
        try:
            route = await core.routes.find("TBW102")
            (queue, *_) = route.write_queues
            address = route.master_of(queue.broker_name)
            assert address is not None
            return await core.api.get_max_offset(address, queue)
        finally:
            await core.release()

    authority, stranger = issue(tmp_path, "authority"), issue(tmp_path, "stranger")
    trusting = TlsConfig(client_auth_server=True, client_trust_cert_path=str(authority.certificate_path))
    mistaken = TlsConfig(client_auth_server=True, client_trust_cert_path=str(stranger.certificate_path))
    async with enforcing(tmp_path, issue(tmp_path, "server", by=authority)) as namesrv:
        assert await queues(namesrv, trusting) == 0
        assert await queues(namesrv, TlsConfig()) == 0  # encrypted, whoever it is: Java's default
        with pytest.raises(ConnectError, match=f"(?i){namesrv}.*certificate"):
            await queues(namesrv, mistaken)
        with pytest.raises(MQError, match=namesrv):
            await queues(namesrv, None)
