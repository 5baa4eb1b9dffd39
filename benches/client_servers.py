"""The broker that all clients of the comparison talk to: Apache's, with its gRPC proxy in the same process.

The proxy in local mode is the broker's own process with one more port, so that the gRPC client has no longer way than
the others; an idle proxy costs the others nothing.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benches.broker_servers import APACHE_JVM, FULL_SIZE
from tests.interop.apache import ApacheNameServer, java, java_environment, properties
from tests.interop.jars import PROXY_5, classpath, versions
from tests.interop.probe import knows_broker
from tests.interop.processes import ServerProcess, free_port

APACHE = f"Apache {versions(PROXY_5)}"


@dataclass(frozen=True)
class ClientSite:
    """Addresses by which clients find the broker."""

    namesrv: str
    broker: str
    proxy: str  # gRPC
    pid: int


@contextmanager
def client_site(home: Path) -> Iterator[ClientSite]:
    """Name server, broker and proxy until the end of the block."""
    name_server = ApacheNameServer(home / "namesrv")
    try:
        name_server.wait_ready()
        own = home / "broker"
        port, proxy_port = free_port(beside=(-2, 1)), free_port()
        command = java(
            own,
            classpath(PROXY_5),
            "org.apache.rocketmq.proxy.ProxyStartup",
            "-pc",
            str(_settings(own, name_server.address, port, proxy_port)),
            jvm=APACHE_JVM,
        )
        server = ServerProcess("Apache's broker and proxy", command, own / "console.log", java_environment())
        try:
            server.wait_until(lambda: "rocketmq-proxy startup successfully" in server.output(), "start")
            server.wait_until(lambda: knows_broker(name_server.address, "broker-a"), "register")
            yield ClientSite(name_server.address, f"127.0.0.1:{port}", f"127.0.0.1:{proxy_port}", server.pid)
        finally:
            server.kill()
    finally:
        name_server.process.kill()


def _settings(home: Path, namesrv: str, port: int, proxy_port: int) -> Path:
    """Return the proxy's file, which names the broker's."""
    broker = properties(
        home / "broker.conf",
        {
            "brokerClusterName": "bench",
            "brokerName": "broker-a",
            "brokerId": 0,
            "brokerIP1": "127.0.0.1",
            "listenPort": port,
            "namesrvAddr": namesrv,
            "storePathRootDir": home / "store",
            "storePathCommitLog": home / "store" / "commitlog",
            "mappedFileSizeTimerLog": 1 << 20,
            **FULL_SIZE,
        },
    )
    settings = {
        "rocketMQClusterName": "bench",
        "proxyMode": "LOCAL",
        "grpcServerPort": proxy_port,
        "remotingListenPort": free_port(),
        "localServeAddr": "127.0.0.1",
        "namesrvAddr": namesrv,
        "brokerConfigPath": str(broker),
    }
    path = home / "rmq-proxy.json"
    path.write_text(json.dumps(settings))
    return path
