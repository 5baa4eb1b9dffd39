"""The pages for operators are read only, and whoever reads them badly harms nobody else."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hanabi.errors import ConfigError
from hanabi.metrics.http_server import HEAD_BYTES_MAX, HttpServer, Page
from hanabi.metrics.protection import read_protection
from tests.metrics.scraping import ask, get

HOST = "127.0.0.1"
DEADLINE_SECONDS = 60.0


async def small() -> Page:
    return Page(b"hello\n")


async def in_pieces() -> Page:
    return Page([b"hel", b"lo\n"])


async def large() -> Page:
    return Page([b"x" * (1 << 20)] * 64)


async def broken() -> Page:
    raise RuntimeError("no figures today")


PAGES = {"/small": small, "/pieces": in_pieces, "/large": large, "/broken": broken}


@asynccontextmanager
async def serving(**limits: object) -> AsyncIterator[tuple[str, int]]:
    server = HttpServer(PAGES, **limits)  # type: ignore[arg-type]
    address = await server.start(HOST, 0)
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            yield address
    finally:
        await server.stop()


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        ("GET /small HTTP/1.1", 200, b"hello\n"),
        ("GET /small HTTP/1.0", 200, b"hello\n"),
        ("GET /small?name=x HTTP/1.1", 200, b"hello\n"),
        ("GET /pieces HTTP/1.1", 200, b"hello\n"),
        ("HEAD /small HTTP/1.1", 200, b""),
        ("GET /other HTTP/1.1", 404, b"there is nothing here; try /small, /pieces, /large, /broken\n"),
        ("GET /../etc/passwd HTTP/1.1", 404, b"there is nothing here; try /small, /pieces, /large, /broken\n"),
        ("POST /small HTTP/1.1", 405, b"these pages can only be read\n"),
        ("DELETE /small HTTP/1.1", 405, b"these pages can only be read\n"),
        ("GET /broken HTTP/1.1", 500, b"the page could not be made; the log says why\n"),
        ("GET /small", 400, b"this is not an HTTP request that is understood here\n"),
        ("\x00\xff\xfe", 400, b"this is not an HTTP request that is understood here\n"),
        ("GET http://x/small HTTP/1.1", 400, b"this is not an HTTP request that is understood here\n"),
        ("PRI * HTTP/2.0", 400, b"this is not an HTTP request that is understood here\n"),
    ],
)
async def test_a_request_gets_its_page_or_the_reason_why_not(request_line: str, status: int, body: bytes) -> None:
    async with serving() as address:
        answer = await ask(address, request_line.encode("latin-1") + b"\r\nHost: x\r\n\r\n")
        assert (answer.status, answer.body) == (status, body)
        assert answer.headers["Connection"] == "close"
        assert ("Allow" in answer.headers) == (status == 405)
        if request_line.startswith("HEAD"):
            assert answer.headers["Content-Length"] == "6"


async def test_a_request_that_is_too_long_is_refused() -> None:
    async with serving() as address:
        answer = await ask(address, b"GET /small HTTP/1.1\r\nCookie: " + b"x" * HEAD_BYTES_MAX + b"\r\n\r\n")
        assert answer.status == 431
        assert (await get(address, "/small")).status == 200


async def test_a_peer_that_never_finishes_its_request_is_parted_with() -> None:
    async with serving(ask_seconds=0.05) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"GET /small HT")
        assert await nothing_more(reader)
        writer.close()


async def nothing_more(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


async def test_a_peer_that_does_not_read_is_parted_with_and_others_are_served_meanwhile() -> None:
    async with serving(read_seconds=0.2) as address:
        with socket.create_connection(address) as slow:
            slow.sendall(b"GET /large HTTP/1.1\r\n\r\n")
            assert (await get(address, "/small")).body == b"hello\n"
            slow.setblocking(False)
            loop = asyncio.get_running_loop()
            size = 0
            try:
                await asyncio.sleep(0.5)  # longer than it may take to read
                while data := await loop.sock_recv(slow, 1 << 20):
                    size += len(data)
            except ConnectionResetError:
                pass
            assert size < 64 << 20


async def test_there_are_never_more_connections_than_allowed() -> None:
    async with serving(connections_max=3, ask_seconds=2 * DEADLINE_SECONDS) as address:
        silent = [await asyncio.open_connection(*address) for _ in range(3)]
        refused, writer = await asyncio.open_connection(*address)
        assert await nothing_more(refused)
        writer.close()
        for _, each in silent:
            each.close()
            await each.wait_closed()
        while True:  # as soon as the server has noticed
            try:
                answer = await get(address, "/small")
            except (ConnectionResetError, IndexError):
                continue
            assert answer.body == b"hello\n"
            break


async def test_a_taken_port_and_a_host_that_is_none_are_one_sentence() -> None:
    async with serving() as (host, port):
        with pytest.raises(ConfigError, match=f"cannot listen on {host}:{port} for metrics: "):
            await HttpServer(PAGES).start(host, port)
        with pytest.raises(ConfigError, match=r"cannot listen on a\.\.b:0 for metrics: "):
            await HttpServer(PAGES).start("a..b", 0)


TOKEN = "token-of-prometheus"  # noqa: S105


async def shown(address: tuple[str, int], path: str, *headers: str) -> int:
    lines = [f"GET {path} HTTP/1.1", "Host: x", *headers]
    return (await ask(address, ("\r\n".join(lines) + "\r\n\r\n").encode())).status


async def test_a_protected_page_needs_its_token() -> None:
    async with serving(protection=read_protection(None, None, {"HANABI_METRICS_TOKEN": TOKEN})) as address:
        assert await shown(address, "/small", f"Authorization: Bearer {TOKEN}") == 200
        assert await shown(address, "/small", f"authorization: bearer  {TOKEN}") == 200
        for header in (
            "Authorization: Bearer wrong",
            f"Authorization: Bearer {TOKEN}x",
            "Authorization: Bearer",
            "Authorization:",
            f"Authorization: Basic {TOKEN}",
            f"X-Authorization: Bearer {TOKEN}",
        ):
            assert await shown(address, "/small", header) == 401, header
        refused = await get(address, "/small")
        assert (refused.status, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert await shown(address, f"/small?token={TOKEN}") == 401
        assert await shown(address, "/nothing") == 401  # names of pages are not told
        assert await shown(address, "/health") == 404  # open, and not among these pages


@pytest.mark.parametrize(
    ("allowed", "status"), [("127.0.0.1", 200), ("10.0.0.0/8,127.0.0.0/8", 200), ("10.1.2.3", 401)]
)
async def test_a_protected_page_is_shown_to_listed_addresses(allowed: str, status: int) -> None:
    async with serving(protection=read_protection(allowed, None, {})) as address:
        assert await shown(address, "/small") == status


def test_bad_protections_are_errors_that_show_no_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("short\n")
    for allowed, path, environment in (
        ("10.0.0.0/99", None, {}),
        (None, file, {}),
        (None, tmp_path / "absent", {}),
        (None, None, {"HANABI_METRICS_TOKEN": "short"}),
    ):
        with pytest.raises(ConfigError) as refused:
            read_protection(allowed, path, environment)
        assert "short" not in str(refused.value).replace(str(tmp_path), "")
    file.write_text(TOKEN + "\nmore\n")
    protection = read_protection("10.0.0.0/8", file, {})
    assert protection.token == TOKEN.encode()
    assert TOKEN not in repr(protection)
