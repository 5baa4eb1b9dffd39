"""`hanabi serve --grpc-port` and `hanabi serve proxy` as their users see them: ready lines, exit codes."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hanabi.grpc.proto.numbers import Code
from hanabi.remoting.address import parse_address
from tests.grpc.peers import GrpcPeer, new, resource

HANABI = [sys.executable, "-m", "hanabi", "serve"]


async def route_status(address: str, topic: str) -> int:
    peer = await GrpcPeer.open(parse_address(address))
    try:
        reply = await peer.call("QueryRoute", new("QueryRouteRequest", topic=resource(topic)))
        return int(reply.status.code)
    finally:
        await peer.close()


def test_the_port_and_a_proxy_say_that_they_are_ready_serve_and_stop_cleanly(tmp_path: Path) -> None:
    command = [*HANABI, "--home", str(tmp_path / "a"), "--namesrv-port", "0", "--broker-port", "0", "--grpc-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        lines = [server.stdout.readline().split() for _ in range(3)]
        try:
            assert [line[:2] for line in lines] == [["ready", "namesrv"], ["ready", "broker"], ["ready", "grpc"]]
            namesrv, grpc = lines[0][-1], lines[2][-1]
            assert asyncio.run(route_status(grpc, "TBW102")) == Code.OK
            own = [*HANABI, "proxy", "-n", namesrv, "--home", str(tmp_path / "b"), "--host", "127.0.0.1", "--port", "0"]
            with subprocess.Popen(own, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as proxy:
                assert proxy.stdout is not None
                try:
                    ready = proxy.stdout.readline().split()
                    assert ready[:2] == ["ready", "proxy"]
                    assert asyncio.run(route_status(ready[-1], "Nothing")) == Code.TOPIC_NOT_FOUND
                    proxy.send_signal(signal.SIGTERM)
                    assert proxy.wait(60) == 0
                finally:
                    proxy.kill()
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0
        finally:
            server.kill()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["-n", ""], "a proxy needs name servers"),
        (["-n", "nowhere"], "is not host:port"),
        (["-n", "127.0.0.1:1", "--advertise", ""], "--advertise needs a host"),
    ],
)
def test_a_proxy_that_cannot_start_says_why_in_one_sentence(
    arguments: list[str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    command = [*HANABI, "proxy", "--home", str(tmp_path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert reason in line
