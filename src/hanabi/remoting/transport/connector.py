"""Outgoing connections: one to each address, opened at the first request and shared by all callers.

A connection that is lost is not opened again by itself; the next request does that. One on which a request timed out
and nothing else was heard for `silent_peer_seconds` is dropped, as its peer may be gone without a word.
Retrying is the caller's decision, as only it knows whether asking twice is harmless.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Mapping, Set

from hanabi.errors import ConnectError, TransportError
from hanabi.remoting.address import parse_address
from hanabi.remoting.config import RemotingConfig
from hanabi.remoting.connection.dispatch import Handler
from hanabi.remoting.connection.endpoint import Endpoint
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.transport.connecting import open_connection
from hanabi.remoting.transport.tls import TlsConfig, client_context, tls_reason
from hanabi.wire.command import Command
from hanabi.wire.header import Header

CLOSE_SECONDS = 1.0

Fields = Header | Mapping[str, str] | None
Signs = Callable[[Fields, bytes], Mapping[str, str]]


class Connector:
    """Requests to any number of addresses. *handlers* answer what the servers ask us on the same connections.

    *on_close* is called for every connection that ended, on either side. *signs* returns the fields of each request
    with a proof of identity.
    """

    def __init__(
        self,
        handlers: Mapping[int, Handler] | None = None,
        config: RemotingConfig = RemotingConfig(),  # noqa: B008 - frozen
        *,
        tls: TlsConfig | None = None,
        on_close: Callable[[Connection], None] | None = None,
        signs: Signs | None = None,
    ) -> None:
        self._config, self._signs = config, signs
        self._on_close = on_close
        self._endpoint = Endpoint(handlers or {}, config, drops_silent=True, on_close=self._forget)
        self._tls = client_context(tls) if tls is not None else None
        self._connections: dict[str, Connection] = {}
        self._connecting: dict[str, asyncio.Task[Connection]] = {}
        self._closed = False

    @property
    def connections(self) -> Set[Connection]:
        """Those that are open, to look at."""
        return frozenset(self._endpoint.connections)

    async def request(
        self,
        address: str,
        code: int,
        header: Fields = None,
        body: bytes = b"",
        *,
        timeout: float = 3.0,  # noqa: ASYNC109 - see Connection.request
    ) -> Command:
        """Ask *address* and return its answer, whatever its code. The time to connect is part of *timeout*."""
        connection = self._connections.get(address)
        if connection is None or connection.closed:
            loop = asyncio.get_running_loop()
            began = loop.time()
            connection = await self._connected(address, timeout)
            timeout -= loop.time() - began
        if self._signs is not None:
            header = self._signs(header, body)
        return await connection.request(code, header, body, timeout=timeout)

    def ask_at_once(
        self,
        address: str,
        code: int,
        header: Fields,
        body: bytes,
        timeout: float,
        ended: Callable[[Command | TransportError], None],
    ) -> bool:
        """See `Connection.ask_at_once`. False also if there is no connection to *address* yet."""
        connection = self._connections.get(address)
        if self._signs is not None:
            header = self._signs(header, body)
        return connection is not None and connection.ask_at_once(code, header, body, timeout, ended)

    async def send_oneway(
        self,
        address: str,
        code: int,
        header: Fields = None,
        body: bytes = b"",
        *,
        timeout: float = 3.0,  # noqa: ASYNC109 - see Connection.request
    ) -> None:
        """Send a one-way request to *address*. *timeout* is for connecting."""
        connection = self._connections.get(address)
        if connection is None or connection.closed:
            connection = await self._connected(address, timeout)
        if self._signs is not None:
            header = self._signs(header, body)
        connection.send_oneway(code, header, body)

    async def _connected(self, address: str, seconds: float) -> Connection:
        """Return the connection to *address*. Callers that come while it is being opened wait for the same one."""
        if self._closed:
            raise ConnectError(f"{address}: this connector is closed")
        task = self._connecting.get(address)
        if task is None:
            if len(self._endpoint.connections) + len(self._connecting) >= self._config.connections_max:
                raise ConnectError(f"{address}: there are {self._config.connections_max} connections already")
            task = asyncio.create_task(self._connect(address))
            self._connecting[address] = task
            task.add_done_callback(lambda done: self._connect_ended(address, done))
        await asyncio.wait((task,), timeout=seconds)  # a caller that gives up does not stop it for other callers
        if not task.done():
            raise ConnectError(f"{address}: not connected within {seconds:.3g} s")
        if task.cancelled():
            raise ConnectError(f"{address}: this connector is closed")
        return task.result()

    def _connect_ended(self, address: str, task: asyncio.Task[Connection]) -> None:
        del self._connecting[address]
        if not task.cancelled() and task.exception() is None and not (connection := task.result()).closed:
            self._connections[address] = connection

    def _forget(self, connection: Connection) -> None:
        if self._connections.get(connection.peer) is connection:  # and not its successor
            del self._connections[connection.peer]
        if self._on_close is not None:
            self._on_close(connection)

    async def _connect(self, address: str) -> Connection:
        seconds = self._config.connect_timeout_seconds
        try:
            host, port = parse_address(address)
            async with asyncio.timeout(seconds):
                connection = await open_connection(lambda: Connection(self._endpoint, address), host, port, self._tls)
        except TimeoutError as error:
            raise ConnectError(f"{address}: not connected within {seconds:.3g} s") from error
        except OSError as error:
            reason = _reason(error) if self._tls is None else tls_reason(error)
            raise ConnectError(f"{address}: {reason or _reason(error)}") from error
        except ValueError as error:  # not an address
            raise ConnectError(f"{address}: {error}") from error
        return connection

    async def close(self) -> None:
        """Close every connection. Requests that wait for an answer fail at once."""
        self._closed = True
        if connecting := list(self._connecting.values()):
            for task in connecting:
                task.cancel()
            await asyncio.wait(connecting)
        for connection in list(self._endpoint.connections):
            connection.close("this connector is closed")
        await self._endpoint.all_gone(CLOSE_SECONDS)

    def detach(self) -> None:
        """Detach a child of os.fork(): its copies of the sockets lead nowhere, so that the parent's are closed when the
        parent closes them. The loop is the parent's, and nothing else here can be used."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        try:
            for connection in self._endpoint.connections:
                os.dup2(nowhere, connection.descriptor, inheritable=False)
        finally:
            os.close(nowhere)


def _reason(error: OSError) -> str:
    """ "Connection refused", whichever loop says it: asyncio's own message has the address and not the reason."""
    if error.errno and not isinstance(error, ssl.SSLError | socket.gaierror):  # those number their errors otherwise
        return os.strerror(error.errno)
    return str(error)
