"""A Spark Connect server in a process of its own."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.interop.processes import ServerProcess, free_port
from tests.spark.conftest import QUICK_START
from tests.spark.standalone import BIN, environment

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def connect_server(home: Path) -> Iterator[str]:
    """Yield where it is, for `--remote`; ended in any case."""
    port = free_port()
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.extraJavaOptions": f"{QUICK_START} -Dderby.system.home={home}",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.ui.enabled": "false",
    }
    confs = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    command = [str(BIN / "spark-submit"), "--class", SERVER, "--master", "local[2]", *confs, "spark-internal"]
    env = environment(home) | {"SPARK_DAEMON_MEMORY": "1g"}  # which spark.driver.memory is not for this class
    server = ServerProcess("Spark Connect", command, home / "console.log", env)
    try:
        server.wait_until(lambda: is_open(port), "listen", timeout_s=300)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.kill()
