"""One connection to each address, shared, opened again when it is needed."""

import asyncio
import socket

import pytest

from hanabi.errors import ConnectError, ConnectionLostError
from hanabi.remoting.address import format_address
from hanabi.remoting.config import RemotingConfig
from hanabi.testing.waiting import eventually
from tests.interop.processes import free_port
from tests.remoting.peers import ECHO, WAIT, Gate, connecting, ends_with, serving


async def test_callers_share_one_connection_even_while_it_is_being_made() -> None:
    async with serving() as (server, address), connecting() as connector:
        await asyncio.gather(*(connector.request(address, ECHO) for _ in range(50)))
        await connector.request(address, ECHO)
        assert server.statistics().accepted == 1


async def test_after_a_loss_the_next_request_connects_again() -> None:
    async with serving() as (server, address), connecting() as connector:
        for _ in range(3):
            await connector.request(address, ECHO)
            for connection in server.connections:
                connection.close("the test wants it")
            await eventually(lambda: not server.connections)
        assert server.statistics().accepted == 3


async def test_a_host_name_is_an_address_too() -> None:
    async with serving() as (_, address), connecting() as connector:
        await connector.request(address.replace("127.0.0.1", "localhost"), ECHO)


async def test_no_connection_is_an_error_that_names_address_and_reason() -> None:
    address = f"127.0.0.1:{free_port()}"
    async with connecting() as connector:
        message = await ends_with(ConnectError, connector.request(address, ECHO))
        assert message == f"{address}: Connection refused"
        assert "not host:port" in await ends_with(ConnectError, connector.request("nonsense", ECHO))
        assert "port" in await ends_with(ConnectError, connector.send_oneway("host:x", ECHO))


def full_listener() -> tuple[socket.socket, list[socket.socket]]:
    """Return a listener that answers no more connection attempts: its queue is full and nobody accepts."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    waiting = []
    for _ in range(3):
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex(listener.getsockname())
        waiting.append(client)
    return listener, waiting


async def test_the_time_to_connect_is_part_of_the_timeout() -> None:
    listener, waiting = full_listener()
    address = format_address(listener.getsockname())
    try:
        async with connecting() as connector:
            message = await ends_with(ConnectError, connector.request(address, ECHO, timeout=0.05))
            assert message == f"{address}: not connected within 0.05 s"
        async with connecting(config=RemotingConfig(connect_timeout_seconds=0.06)) as connector:
            message = await ends_with(ConnectError, connector.request(address, ECHO, timeout=5))
            assert message == f"{address}: not connected within 0.06 s"
    finally:
        for opened in (listener, *waiting):
            opened.close()


async def test_a_caller_that_gives_up_does_not_stop_the_others() -> None:
    async with serving() as (_, address), connecting() as connector:
        impatient = asyncio.create_task(connector.request(address, ECHO))
        patient = asyncio.create_task(connector.request(address, ECHO, body=b"patient"))
        await asyncio.sleep(0)
        impatient.cancel()
        assert (await patient).body == b"patient"
        assert impatient.cancelled() or impatient.done()


async def test_closing_fails_what_is_pending_at_once_and_refuses_the_rest() -> None:
    gate = Gate()
    async with serving(gate.handlers()) as (server, address), connecting() as connector:
        pending = asyncio.create_task(connector.request(address, WAIT, timeout=60))
        await eventually(lambda: gate.waiting == 1)
        await connector.close()
        assert "this connector is closed" in await ends_with(ConnectionLostError, pending)
        assert "this connector is closed" in await ends_with(ConnectError, connector.request(address, ECHO))
        await eventually(lambda: not server.connections)


async def test_closing_ends_what_is_still_connecting() -> None:
    listener, waiting = full_listener()
    try:
        async with connecting() as connector:
            pending = asyncio.create_task(connector.request(format_address(listener.getsockname()), ECHO, timeout=60))
            await asyncio.sleep(0.01)
            await connector.close()
            assert "this connector is closed" in await ends_with(ConnectError, pending)
    finally:
        for opened in (listener, *waiting):
            opened.close()


async def test_the_number_of_connections_is_bounded() -> None:
    config = RemotingConfig(connections_max=1)
    async with (
        serving() as (_, first),
        serving() as (_, second),
        connecting(config=config) as connector,
    ):
        await connector.request(first, ECHO)
        message = await ends_with(ConnectError, connector.request(second, ECHO))
        assert message == f"{second}: there are 1 connections already"


async def test_large_bodies_go_both_ways() -> None:
    async with serving() as (_, address), connecting() as connector:
        bodies = [bytes([n]) * (3 * 1024 * 1024 + n) for n in range(4)]
        answers = await asyncio.gather(*(connector.request(address, ECHO, body=body) for body in bodies))
        assert [answer.body for answer in answers] == bodies


@pytest.mark.parametrize("form", ["asyncio", "uvloop"])
def test_run_uses_the_loop_that_the_environment_asks_for(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from hanabi.remoting.loop import run as run_main

    monkeypatch.setenv("HANABI_LOOP", form)

    async def main() -> str:
        return type(asyncio.get_running_loop()).__module__.split(".")[0]

    assert run_main(main()) == form
