"""A connection that dies without a word is found out and replaced; a peer that is only slow keeps its connection."""

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from hanabi.errors import RequestTimeoutError, TransportError
from hanabi.remoting.address import parse_address
from hanabi.remoting.config import RemotingConfig
from hanabi.remoting.connection.endpoint import Endpoint
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.transport.connector import Connector
from hanabi.remoting.transport.server import RemotingServer
from hanabi.testing.proxy import Proxy
from hanabi.testing.threads import in_thread
from hanabi.testing.waiting import eventually
from hanabi.wire.codes import RequestCode
from tests.remoting.peers import (
    ECHO,
    WAIT,
    Gate,
    MemoryTransport,
    connecting,
    ends_with,
    raw_peer,
    serving,
)

QUICK = RemotingConfig(silent_peer_seconds=0.2)


@asynccontextmanager
async def behind_a_proxy(config: RemotingConfig = QUICK) -> AsyncIterator[tuple[RemotingServer, Proxy, Connector]]:
    gate = Gate()
    async with (
        serving(gate.handlers()) as (server, address),
        Proxy(parse_address(address)) as proxy,
        connecting(config=config) as connector,
    ):
        yield server, proxy, connector


async def test_after_a_timeout_in_which_nothing_was_heard_the_next_request_has_a_new_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with behind_a_proxy() as (server, proxy, connector):
        await connector.request(proxy.address, ECHO)
        proxy.swallow()
        await ends_with(RequestTimeoutError, connector.request(proxy.address, ECHO, timeout=0.3))
        await eventually(lambda: any("dropped: no answer" in message for message in caplog.messages))
        assert (await connector.request(proxy.address, ECHO, body=b"again")).body == b"again"
        assert server.statistics().accepted == 2


async def test_requests_that_wait_on_a_dead_connection_hear_of_it_when_the_first_has_timed_out() -> None:
    async with behind_a_proxy() as (_, proxy, connector):
        await connector.request(proxy.address, ECHO)
        proxy.swallow()
        patient = asyncio.create_task(connector.request(proxy.address, ECHO, timeout=3_600))
        await ends_with(RequestTimeoutError, connector.request(proxy.address, ECHO, timeout=0.3))
        with pytest.raises(Exception, match="no answer"):
            await patient


async def test_short_timeouts_add_up_before_a_connection_counts_as_dead() -> None:
    async with behind_a_proxy(RemotingConfig(silent_peer_seconds=0.5)) as (server, proxy, connector):
        await connector.request(proxy.address, ECHO)
        proxy.swallow()
        tries = 0
        while server.statistics().accepted == 1:
            tries += 1
            with suppress(TransportError):
                await connector.request(proxy.address, ECHO, timeout=0.05)
        assert tries > 2


async def test_a_caller_that_gives_up_counts_as_a_timeout() -> None:
    async with behind_a_proxy() as (server, proxy, connector):
        await connector.request(proxy.address, ECHO)
        proxy.swallow()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await connector.request(proxy.address, ECHO, timeout=3_600)
        await eventually(lambda: not connector.connections)
        await connector.request(proxy.address, ECHO)
        assert server.statistics().accepted == 2


@pytest.mark.parametrize("code", [RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE])
async def test_a_pull_that_its_caller_gives_up_does_not_cost_the_connection(code: RequestCode) -> None:
    # A broker holds pulls, and says nothing meanwhile: a consumer that shuts down gives them up.
    gate = Gate()
    handlers = {**gate.handlers(), int(code): gate.handlers()[WAIT]}
    async with serving(handlers) as (server, address), connecting(config=QUICK) as connector:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.4):
                await connector.request(address, code, timeout=3_600)
        await connector.request(address, ECHO)
        assert server.statistics().accepted == 1
        gate.open.set()


@pytest.mark.timing(reason="the peer must answer within the silence of 0.2 s")
async def test_a_peer_that_answers_others_keeps_its_connection_though_one_request_times_out() -> None:
    async with behind_a_proxy() as (server, proxy, connector):
        waiting = asyncio.create_task(connector.request(proxy.address, WAIT, timeout=0.6))
        while not waiting.done():
            await connector.request(proxy.address, ECHO)
            await asyncio.sleep(0.02)
        await ends_with(RequestTimeoutError, waiting)
        await asyncio.sleep(0.2)
        await connector.request(proxy.address, ECHO)
        assert server.statistics().accepted == 1


async def test_a_server_does_not_drop_a_client_that_leaves_a_question_unanswered() -> None:
    """Clients of other languages ignore requests that they do not know."""
    async with serving(config=QUICK) as (server, address), raw_peer(address) as client:
        client.ask(ECHO)
        await client.answer()
        (connection,) = server.connections
        await ends_with(RequestTimeoutError, connection.request(ECHO, timeout=0.3))
        await asyncio.sleep(0.2)
        client.ask(ECHO)
        await client.answer()


# Our own writes are no sign of life


@pytest.mark.parametrize("write", ["oneway", "request"])
async def test_what_we_write_does_not_keep_a_silent_peer_from_being_idle(write: str) -> None:
    config = RemotingConfig()
    endpoint = Endpoint({}, config)
    connection = Connection(endpoint, "silent")
    connection.connection_made(MemoryTransport())
    heard = asyncio.get_running_loop().time()
    await asyncio.sleep(0.05)
    if write == "oneway":
        connection.send_oneway(ECHO)
    else:
        connection.ask_at_once(ECHO, None, b"", 0.01, lambda _: None)
    await asyncio.sleep(0.03)  # written, and the request's time is over
    endpoint.sweep(heard + config.idle_seconds + 0.02)
    assert connection.closed
    connection.connection_lost(None)


async def test_a_connection_that_waits_for_an_answer_is_not_idle() -> None:
    config = RemotingConfig()
    endpoint = Endpoint({}, config)
    connection = Connection(endpoint, "slow")
    connection.connection_made(MemoryTransport())
    asking = asyncio.create_task(connection.request(ECHO, timeout=10 * config.idle_seconds))
    await asyncio.sleep(0)
    endpoint.sweep(asyncio.get_running_loop().time() + config.idle_seconds + 1)
    assert not connection.closed
    connection.connection_lost(None)
    with pytest.raises(Exception, match="closed by the peer"):
        await asking


# What the system does for us


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux")
async def test_both_sides_let_the_system_find_out_about_dead_peers() -> None:
    config = RemotingConfig(idle_seconds=40.0)
    async with serving(config=config) as (server, address), connecting(config=config) as connector:
        await connector.request(address, ECHO)
        for side in (*server.connections, *connector.connections):
            with socket.socket(fileno=os.dup(side.descriptor)) as own:
                assert own.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 20
                assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 4
                assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 5
                assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 40_000


async def test_an_answer_that_waits_in_the_socket_while_the_loop_is_busy_is_a_sign_of_life() -> None:
    gate = Gate()
    with in_thread(serving(gate.handlers())) as running:
        server, address = running.it
        async with connecting(config=QUICK) as connector:
            asking = asyncio.create_task(connector.request(address, WAIT, timeout=0.3))
            await eventually(lambda: gate.waiting == 1)
            running.do(lambda _: gate.open.set())
            time.sleep(0.5)  # noqa: ASYNC251 - the loop is busy while the answer arrives
            await asyncio.wait((asking,))
            asking.exception()  # uvloop looks at its timers first
            await connector.request(address, ECHO)
            assert server.statistics().accepted == 1
