"""TLS between two whole brokers of ours, with certificates on both sides."""

from pathlib import Path

import msgspec
import pytest

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.remoting.transport.tls import ClientAuth, TlsConfig
from hanabi.testing.cluster import HOST, small_store
from hanabi.testing.waiting import eventually
from tests.broker.replica.pairs import NAME, running_name_server, side_of, slave_config
from tests.remoting.certificates import Issued, issue
from tests.store.stores import message


def settings(root: Issued, own: Issued) -> TlsConfig:
    """Return the settings of a broker with the certificate *own*, which trusts *root*."""
    return TlsConfig(
        server_need_client_auth=ClientAuth.REQUIRE,
        server_auth_client=True,
        server_cert_path=str(own.certificate_path),
        server_key_path=str(own.key_path),
        server_trust_cert_path=str(root.certificate_path),
        client_auth_server=True,
        client_trust_cert_path=str(root.certificate_path),
        client_cert_path=str(own.certificate_path),
        client_key_path=str(own.key_path),
    )


async def test_a_slave_with_a_certificate_follows_over_tls_and_one_of_a_stranger_does_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root, stranger = issue(tmp_path, "root"), issue(tmp_path, "stranger")
    trusted = settings(root, issue(tmp_path, "broker", root))
    false = msgspec.structs.replace(
        trusted, client_cert_path=str(stranger.certificate_path), client_key_path=str(stranger.key_path)
    )
    async with running_name_server(tmp_path) as namesrv:
        config = BrokerConfig(broker_name=NAME, namesrv_addr=namesrv, ha_tls_enabled=True)
        quick = {"ha_tls_enabled": True, "reconnect_interval_ms": 50}
        async with (
            Broker(config, small_store(tmp_path / "master"), tls=trusted) as master,
            Broker(slave_config(namesrv, **quick), small_store(tmp_path / "slave"), tls=trusted) as slave,
            Broker(slave_config(namesrv, broker_id=2, **quick), small_store(tmp_path / "false"), tls=false) as other,
        ):
            for broker in (master, slave, other):
                await broker.start(HOST, 0)
            assert master.store.put(message(b"secret")).reason == ""
            await eventually(lambda: slave.store.max_log_offset == master.store.max_log_offset, "it follows")
            await eventually(lambda: side_of(other).slave.state().trouble, "the stranger is not let in")
            assert other.store.max_log_offset == 0
