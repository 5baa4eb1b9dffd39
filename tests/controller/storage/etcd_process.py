"""Debian's etcd, one or three members, on this machine."""

import os
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.interop.processes import ServerProcess, free_port


def need_etcd() -> None:
    """Skip without etcd, except where CI has installed it."""
    if shutil.which("etcd") is None and not os.environ.get("HANABI_ETCD_REQUIRED"):
        pytest.skip("etcd is not installed (apt install etcd-server)")


class Etcd:
    """One member; `start` also starts a stopped one again, with its data."""

    def __init__(
        self,
        home: Path,
        name: str,
        client: int,
        peer: int,
        cluster: str,
        scheme: str = "http",
        options: Sequence[str] = (),
    ) -> None:
        self.home, self.client = home, client
        url, peer_url = f"{scheme}://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
        self._command = [
            *("etcd", "--name", name, "--data-dir", str(home / "data"), "--initial-cluster", cluster),
            *("--listen-client-urls", url, "--advertise-client-urls", url),
            *("--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url),
            *("--logger", "zap", "--log-level", "error", "--heartbeat-interval", "100", "--election-timeout", "1000"),
            *options,
        ]
        self.process = self.start()

    def start(self) -> ServerProcess:
        self.process = ServerProcess("etcd", self._command, self.home / "console.log")
        return self.process

    def kill(self) -> None:
        self.process.kill()

    def wait_ready(self) -> None:
        self.process.wait_until(self._listens, "listen")

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.client)) == 0


def etcd_cluster(home: Path, count: int, *, scheme: str = "http", options: Sequence[str] = ()) -> list[Etcd]:
    """*count* members that know each other."""
    ports = [(free_port(), free_port()) for _ in range(count)]
    cluster = ",".join(f"e{number}=http://127.0.0.1:{peer}" for number, (_, peer) in enumerate(ports))
    members = [
        Etcd(home / f"e{n}", f"e{n}", client, peer, cluster, scheme, options) for n, (client, peer) in enumerate(ports)
    ]
    for member in members:
        member.wait_ready()
    return members


def state_url(members: list[Etcd]) -> str:
    return "etcd://" + ",".join(f"127.0.0.1:{member.client}" for member in members)
