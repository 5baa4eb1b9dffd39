"""Outgoing connections."""

import asyncio
import contextlib
import socket
import threading

import pytest

from hanabi.remoting.transport.connecting import open_connection


async def test_a_cancelled_lookup_of_an_unknown_host_leaves_no_unhandled_error() -> None:
    loop = asyncio.get_running_loop()
    for at in range(5):
        connecting = asyncio.ensure_future(open_connection(asyncio.Protocol, f"no-such-{at}.invalid", 9, None))
        await asyncio.sleep(0)
        connecting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await connecting
    with pytest.raises(socket.gaierror):  # the lookups before it have ended by then
        await loop.getaddrinfo("no-such-host.invalid", 9)
    await asyncio.sleep(0.05)


async def test_a_host_that_refuses_is_told_by_its_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        await open_connection(asyncio.Protocol, "localhost", port, None)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_an_address_in_figures_is_connected_to_without_a_thread(host: str) -> None:
    async def connect() -> None:
        with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
            before = threading.active_count()
            await open_connection(asyncio.Protocol, host, listener.getsockname()[1], None)
            assert threading.active_count() == before

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(connect())
