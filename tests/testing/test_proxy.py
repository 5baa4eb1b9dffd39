"""The proxy passes everything as it is; it cuts, refuses, delays, stalls, swallows and half-closes when told to."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hanabi.testing.proxy import Proxy
from hanabi.testing.threads import in_thread

DEADLINE_S = 60.0


@asynccontextmanager
async def echo_behind_a_proxy() -> AsyncIterator[Proxy]:
    connections: set[asyncio.Task[None] | None] = set()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(asyncio.current_task())
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass  # the proxy hung up
        finally:
            writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    proxy = Proxy(server.sockets[0].getsockname())
    await proxy.start()
    try:
        async with asyncio.timeout(DEADLINE_S):
            yield proxy
    finally:
        await proxy.stop()
        server.close()
        await server.wait_closed()
        if connections:
            await asyncio.wait([task for task in connections if task is not None])


async def connect(proxy: Proxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", proxy.port)


async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes = b"hello") -> bytes:
    writer.write(data)
    return await reader.readexactly(len(data))


async def test_bytes_pass_as_they_are() -> None:
    async with echo_behind_a_proxy() as proxy:
        reader, writer = await connect(proxy)
        data = bytes(range(256)) * 8_000
        assert await answered(reader, writer, data) == data
        writer.close()


async def test_a_cut_ends_connections_and_new_ones_can_be_made() -> None:
    async with echo_behind_a_proxy() as proxy:
        reader, writer = await connect(proxy)
        await answered(reader, writer)
        proxy.cut()
        with pytest.raises(OSError, match="reset"):
            await reader.read(1)
        writer.close()
        reader, writer = await connect(proxy)
        assert await answered(reader, writer) == b"hello"
        writer.close()


async def test_while_it_refuses_no_bytes_pass() -> None:
    async with echo_behind_a_proxy() as proxy:
        proxy.refusing = True
        reader, writer = await connect(proxy)
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await answered(reader, writer)
        writer.close()


async def test_a_delay_is_there_and_back_and_does_not_change_the_order() -> None:
    async with echo_behind_a_proxy() as proxy:
        reader, writer = await connect(proxy)
        proxy.latency_s = 0.05
        began = time.monotonic()
        for number in range(10):
            writer.write(b"%d" % number)
            await writer.drain()
        assert await reader.readexactly(10) == b"0123456789"
        assert time.monotonic() - began >= 0.1
        writer.close()


async def test_while_it_stalls_the_connection_stays_and_nothing_passes() -> None:
    async with echo_behind_a_proxy() as proxy:
        reader, writer = await connect(proxy)
        await answered(reader, writer)
        proxy.stall()
        writer.write(b"late")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await reader.read(1)
        proxy.go_on()
        assert await reader.readexactly(4) == b"late"
        writer.close()


async def test_a_swallowed_connection_stays_open_and_loses_everything_while_new_ones_work() -> None:
    async with echo_behind_a_proxy() as proxy:
        reader, writer = await connect(proxy)
        await answered(reader, writer)
        proxy.swallow()
        writer.write(b"lost")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await reader.read(1)
        new_reader, new_writer = await connect(proxy)
        assert await answered(new_reader, new_writer) == b"hello"
        assert not writer.is_closing()
        writer.close()
        new_writer.close()


async def test_a_half_close_ends_the_answers_and_not_the_requests() -> None:
    async with echo_behind_a_proxy() as proxy:
        reader, writer = await connect(proxy)
        await answered(reader, writer)
        proxy.half_close()
        assert await reader.read(1) == b""
        writer.write(b"nobody answers this")
        await writer.drain()
        writer.close()


async def test_the_end_of_one_direction_reaches_the_other_side_and_the_answer_still_comes_back() -> None:
    async with echo_behind_a_proxy() as proxy:
        reader, writer = await connect(proxy)
        writer.write(b"last words")
        writer.write_eof()
        assert await reader.read() == b"last words"
        writer.close()


async def test_the_next_connections_can_be_cut_in_the_middle_of_an_answer() -> None:
    async with echo_behind_a_proxy() as proxy:
        proxy.cut_after([3])
        reader, writer = await connect(proxy)
        writer.write(b"hello")
        assert await reader.readexactly(3) == b"hel"
        with pytest.raises(OSError, match="reset"):
            await reader.read(1)
        writer.close()
        assert proxy.cuts == 1
        reader, writer = await connect(proxy)
        assert await answered(reader, writer) == b"hello"
        writer.close()


def test_a_test_that_blocks_has_the_proxy_in_a_thread() -> None:
    with (
        in_thread(echo_behind_a_proxy()) as running,
        socket.create_connection(("127.0.0.1", running.it.port), timeout=DEADLINE_S) as client,
    ):
        client.sendall(b"hello")
        assert client.recv(5) == b"hello"
        running.do(Proxy.cut)
        with pytest.raises(OSError, match="reset"):
            client.recv(1)
