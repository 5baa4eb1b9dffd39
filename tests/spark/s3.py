"""An S3 on this machine (moto's), and what Spark needs to use it by Hadoop's S3A."""

import os
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.interop.jars import classpath
from tests.interop.processes import ServerProcess, free_port

JARS = "s3a-3"
PACKAGES = ("moto[s3]", "flask", "flask-cors")  # moto[server] has three times as much, for Amazon's other services
BUCKET = "archives"
INSTALL_TIMEOUT_S = 600
_SERVER = Path(__file__).parent / "s3_server.py"


@dataclass(frozen=True)
class S3:
    """`files` is the URL of a bucket, without a slash at its end."""

    address: str
    settings: dict[str, str]
    files: str = f"s3a://{BUCKET}"

    def names(self, prefix: str) -> list[str]:
        """Return the first thousand objects below it, asked without Hadoop."""
        with urllib.request.urlopen(f"{self.address}/{BUCKET}?list-type=2&prefix={prefix}") as answer:
            return re.findall("<Key>([^<]*)</Key>", answer.read().decode())


@contextmanager
def s3(home: Path) -> Iterator[S3]:
    """Ready, with an empty bucket; ended in any case. Nobody checks who asks."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, "--target", str(home / "moto"), *PACKAGES], check=True, timeout=INSTALL_TIMEOUT_S)
    port = free_port()
    env = {**os.environ, "PYTHONPATH": str(home / "moto")}
    process = ServerProcess("moto", [sys.executable, str(_SERVER), str(port)], home / "moto.log", env)
    try:
        process.wait_until(partial(_listens, port), "listen")
        address = f"http://127.0.0.1:{port}"
        urllib.request.urlopen(urllib.request.Request(f"{address}/{BUCKET}", method="PUT")).close()
        yield S3(address, _settings(address))
    finally:
        process.kill()


def _settings(address: str) -> dict[str, str]:
    """Return the settings of a Spark session."""
    jars = sorted(Path(classpath(JARS).removesuffix("*")).glob("*.jar"))
    given = {
        "endpoint": address,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": "anybody",
        "secret.key": "anything",
    }
    return {
        "spark.jars": ",".join(map(str, jars)),
        **{f"spark.hadoop.fs.s3a.{name}": value for name, value in given.items()},
    }


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
