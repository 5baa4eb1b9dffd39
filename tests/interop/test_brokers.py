"""Apache's brokers live with our name server, and are forgotten by it when they end."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.apache import ApacheBroker
from tests.interop.jars import ALL_5, SERVERS_4
from tests.interop.ours import OurNameServer
from tests.interop.probe import knows_broker, routes_to
from tests.interop.processes import ServerProcess
from tests.interop.sites import CLUSTER, Site

# Far below the 120 s after which a silent broker is forgotten: its end itself must have been noticed. A broker that
# is asked to stop closes its store before it says goodbye.
NOTICED_S = 60


@pytest.fixture(scope="module")
def namesrv(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurNameServer]:
    """Yield a name server of ours, without brokers."""
    server = OurNameServer(tmp_path_factory.mktemp("lonely") / "namesrv")
    try:
        server.wait_ready()
        yield server
    finally:
        server.process.kill()


def test_apaches_brokers_register_without_a_complaint(both_sites: tuple[Site, Site]) -> None:
    _, ours = both_sites
    for broker in ours.brokers:
        assert broker.logged()
        assert broker.complaints() == []


@pytest.mark.parametrize("end", [ServerProcess.terminate, ServerProcess.kill], ids=["stopped", "killed"])
@pytest.mark.parametrize("jar_set", [SERVERS_4, ALL_5])
def test_a_broker_that_ends_is_forgotten_at_once(
    namesrv: OurNameServer, tmp_path: Path, jar_set: str, end: Callable[[ServerProcess], object]
) -> None:
    broker = ApacheBroker(tmp_path, jar_set, name="mortal", cluster=CLUSTER, namesrv=namesrv.address)
    try:
        broker.wait_ready()
        assert routes_to(namesrv.address, "TBW102", "mortal")
        end(broker.process)
        namesrv.process.wait_until(lambda: not knows_broker(namesrv.address, "mortal"), "forget it", NOTICED_S)
        assert not routes_to(namesrv.address, "TBW102", "mortal")
    finally:
        broker.process.kill()
