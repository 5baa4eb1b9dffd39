"""Apache's programs reach our name server over TLS."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.interop.apache import WITH_TLS, ApacheBroker
from tests.interop.certificate import tls_properties
from tests.interop.jars import ADMIN_4, SERVERS_4
from tests.interop.mqadmin import MqAdmin
from tests.interop.ours import OurNameServer
from tests.interop.sites import CLUSTER


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Ends what a test started."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def admin_tls(apache_jars: None, tmp_path: Path, stack: ExitStack) -> MqAdmin:
    """mqadmin of 4.9.8 that speaks TLS only."""
    admin = MqAdmin(tmp_path / "admin", ADMIN_4, jvm=WITH_TLS)
    stack.callback(admin.close)
    return admin


def name_server(folder: Path, mode: str, stack: ExitStack) -> OurNameServer:
    namesrv = OurNameServer(folder / "namesrv", "--tls-config", str(tls_properties(folder, mode)))
    stack.callback(namesrv.process.kill)
    namesrv.wait_ready()
    return namesrv


def test_a_permissive_port_serves_mqadmin_with_and_without_tls(
    admin_4: MqAdmin, admin_tls: MqAdmin, tmp_path: Path, stack: ExitStack
) -> None:
    address = name_server(tmp_path, "permissive", stack).address
    assert "success" in admin_tls.run(address, "updateKvConfig", "-s", "S", "-k", "k", "-v", "v")
    assert "kvConfigPath" in admin_tls.run(address, "getNamesrvConfig")
    assert "kvConfigPath" in admin_4.run(address, "getNamesrvConfig")


def test_a_broker_registers_over_tls_where_nothing_else_is_accepted(
    admin_4: MqAdmin, admin_tls: MqAdmin, tmp_path: Path, stack: ExitStack
) -> None:
    namesrv = name_server(tmp_path, "enforcing", stack)
    broker = ApacheBroker(
        tmp_path / "broker", SERVERS_4, name="secret", cluster=CLUSTER, namesrv=namesrv.address, jvm=WITH_TLS
    )
    stack.callback(broker.process.kill)
    broker.process.wait_until(
        lambda: f"secret 0 {broker.address}" in " ".join(admin_tls.run(namesrv.address, "clusterList").split()),
        "register over TLS",
    )
    assert "Exception" in admin_4.run(namesrv.address, "clusterList")
