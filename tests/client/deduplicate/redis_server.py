"""A real Redis for tests: Debian's package redis-server, started on a socket of its own and ended after the tests."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

SECONDS = 60.0


class RedisMissing(Exception):
    """There is no redis-server on this machine."""


@contextmanager
def redis_server(home: Path) -> Iterator[str]:
    """Yield its address. RedisMissing if there is none."""
    program = shutil.which("redis-server")
    if program is None:
        raise RedisMissing("redis-server is not installed (Debian: apt-get install redis-server)")
    path = home / "redis.sock"
    command = [
        program,
        "--port",
        "0",
        "--unixsocket",
        str(path),
        "--dir",
        str(home),
        "--save",
        "",
        "--appendonly",
        "no",
    ]
    with (home / "redis.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        url = f"unix://{path}"
        _wait(url, process, home / "redis.log")
        yield url
    finally:
        process.terminate()
        process.wait(SECONDS)


def _wait(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + SECONDS
    with redis.Redis.from_url(url) as client:
        while not _answers(client):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, "Redis does not answer"
            time.sleep(0.02)


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
