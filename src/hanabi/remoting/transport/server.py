"""Listening: sockets are accepted, counted, told apart (TLS or plain), and become connections.

A server knows its table of handlers and its limits, not what is served. We accept ourselves, and not by the loop's
`create_server`, so that one connection too many costs an accept and a close, and the first byte can choose TLS.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Mapping, Set
from typing import Any

import msgspec

from hanabi.errors import RemoteProtocolError
from hanabi.memory import memory_bytes
from hanabi.remoting.address import format_address
from hanabi.remoting.config import RemotingConfig
from hanabi.remoting.connection.dispatch import FastPath, Handler
from hanabi.remoting.connection.endpoint import Endpoint
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.transport.descriptors import PROCESS, DescriptorBudget
from hanabi.remoting.transport.memory import within_memory
from hanabi.remoting.transport.tls import HANDSHAKE_BYTE, ServerTls, TlsConfig, TlsMode, first_byte, handshake_reason

logger = logging.getLogger(__name__)

FEW_CONNECTIONS = 1_000  # fewer are worth telling of
BACKLOG = 1024  # as Netty's in RocketMQ
ACCEPTS_A_TURN = 64  # then those that are connected have their turn
ACCEPT_PAUSE_SECONDS = 1.0  # after the system refused us another descriptor
REFUSAL_LOG_SECONDS = 10.0


class ServerStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of one server since its start."""

    connections: int  # open at this moment
    accepted: int
    refused: int  # because there were too many
    requests: int
    protocol_errors: int


class RemotingServer:
    """Serves *handlers* on one address. `on_close` hears of every connection that is gone, after it is gone."""

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        config: RemotingConfig = RemotingConfig(),  # noqa: B008 - frozen
        *,
        tls: TlsConfig | None = None,
        on_close: Callable[[Connection], None] | None = None,
        descriptors: DescriptorBudget = PROCESS,
    ) -> None:
        self._memory_bytes = memory_bytes()
        self._config = within_memory(config, self._memory_bytes)
        self._has_little_memory = self._config != config
        self._descriptors = descriptors
        self._stop_counting: Callable[[], None] | None = None
        self._connections_max = config.connections_max
        self._endpoint = Endpoint(handlers, self._config, on_open=self._opened, on_close=on_close)
        self._tls_config = tls
        self._tls: ServerTls | None = None
        self._listeners: list[socket.socket] = []
        self._welcoming: dict[Connection, asyncio.Task[None]] = {}  # accepted, not yet open
        self._silent: set[Connection] = set()  # of those, the ones whose first byte we wait for
        self._accepted = self._refused = 0
        self._refused_unlogged = 0
        self._refusal_logged = float("-inf")

    def use_fast_path(self, fast_path: FastPath | None) -> None:
        """Set the fast path. Frames that it declines go to the handlers."""
        self._endpoint.fast_path = fast_path

    @property
    def connections(self) -> Set[Connection]:
        """Those that are open, to look at."""
        return frozenset(self._endpoint.connections)

    def statistics(self) -> ServerStatistics:
        return ServerStatistics(
            connections=len(self._endpoint.connections),
            accepted=self._accepted,
            refused=self._refused,
            requests=self._endpoint.requests,
            protocol_errors=self._endpoint.protocol_errors,
        )

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen, and return the address that was bound: port 0 means any. A taken port is an OSError."""
        loop = asyncio.get_running_loop()
        self._connections_max = self._descriptors.connections_within(self._config.connections_max)
        if self._connections_max < self._config.connections_max:
            logger.log(
                logging.INFO if self._connections_max < FEW_CONNECTIONS else logging.DEBUG,
                "at most %d connections, not %d: the system allows no more open files",
                self._connections_max,
                self._config.connections_max,
            )
        if self._has_little_memory:
            logger.info(
                "%d MB of memory: peers may fill %d MB of it with incomplete frames, and as much with unread answers",
                self._memory_bytes >> 20,
                self._config.read_buffer_total_bytes_max >> 20,
            )
        if self._tls_config is not None and self._tls_config.server_mode is not TlsMode.DISABLED:
            self._tls = ServerTls(self._tls_config, loop.time)
        found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, _, _, _, address in dict.fromkeys(found):
                if self._listeners:  # a name with several addresses: the same port on each
                    address = (address[0], self._bound()[1], *address[2:])
                self._listeners.append(_listen(family, address))
        except OSError:
            self._close_listeners()
            raise
        self._stop_counting = self._descriptors.count_connections(self._count)
        for listener in self._listeners:
            loop.add_reader(listener.fileno(), self._accept, listener)
        return self._bound()

    def _count(self) -> int:
        return len(self._endpoint.connections) + len(self._welcoming)

    def _bound(self) -> tuple[str, int]:
        host, port = self._listeners[0].getsockname()[:2]
        return host, port

    async def stop(self, deadline_seconds: float = 5.0) -> None:
        """Accept no more, answer what was asked, close; at the deadline, cut what is left."""
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            loop.remove_reader(listener.fileno())
        self._close_listeners()
        await self._end_welcomes(deadline_seconds)
        for connection in list(self._endpoint.connections):
            connection.finish("the server shuts down")
        await self._endpoint.all_gone(deadline_seconds)
        if self._stop_counting is not None:
            self._stop_counting()
            self._stop_counting = None

    async def _end_welcomes(self, deadline_seconds: float) -> None:
        """Close peers that have sent nothing yet. One being connected is let in first: cut off then, uvloop would close
        the transport and never tell its connection."""
        await asyncio.sleep(0)  # every welcome has begun: one cancelled before would leave its socket open
        for connection in self._silent:
            self._welcoming[connection].cancel()
        if welcoming := list(self._welcoming.values()):
            _, late = await asyncio.wait(welcoming, timeout=deadline_seconds)
            for task in late:
                task.cancel()

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTS_A_TURN):
            try:
                client, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # out of descriptors or memory: waiting is all we can do
                self._pause_accepting(listener, error)
                return
            refusal = self._why_refused()
            if refusal is not None:
                client.close()
                self._count_refusal(refusal)
                continue
            self._accepted += 1
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(self._endpoint, format_address(address))
            self._welcoming[connection] = asyncio.create_task(self._welcome(client, connection))

    def _pause_accepting(self, listener: socket.socket, error: OSError) -> None:
        logger.error("cannot accept connections, trying again in %g s: %s", ACCEPT_PAUSE_SECONDS, error)
        loop = asyncio.get_running_loop()
        loop.remove_reader(listener.fileno())

        def go_on() -> None:
            if listener in self._listeners:
                loop.add_reader(listener.fileno(), self._accept, listener)

        loop.call_later(ACCEPT_PAUSE_SECONDS, go_on)

    def _why_refused(self) -> str | None:
        """Return why no further connection is possible; None if one is."""
        if self._count() >= self._connections_max:
            return f"limit of {self._connections_max} connections reached"
        if not self._descriptors.has_room():
            return f"{self._count()} connections here, and what is left of open files (ulimit -n) is kept for the store"
        return None

    def _count_refusal(self, reason: str) -> None:
        self._refused += 1
        self._refused_unlogged += 1
        now = asyncio.get_running_loop().time()
        if now - self._refusal_logged >= REFUSAL_LOG_SECONDS:
            logger.warning("%s, %d refused", reason, self._refused_unlogged)
            self._refusal_logged, self._refused_unlogged = now, 0

    def _opened(self, connection: Connection) -> None:
        self._welcoming.pop(connection, None)

    async def _welcome(self, client: socket.socket, connection: Connection) -> None:
        """Make an open *connection* of an accepted socket."""
        loop = asyncio.get_running_loop()
        self._silent.add(connection)
        try:
            context = await self._context_for(client)
        except BaseException as error:
            self._welcoming.pop(connection, None)
            client.close()
            if not isinstance(error, OSError | RemoteProtocolError):  # cancelled, as we shut down; or our own fault
                raise
            self._count_bad_opening(connection, error)
            return
        finally:
            self._silent.discard(connection)
        handshake = {
            "ssl_handshake_timeout": self._config.tls_handshake_seconds,
            "ssl_shutdown_timeout": self._config.stalled_peer_seconds,
        }
        try:
            await loop.connect_accepted_socket(
                lambda: connection, client, ssl=context, **(handshake if context is not None else {})
            )
        except OSError as error:  # SSLError is one; the transport has closed the socket
            self._count_bad_opening(connection, error)
        finally:
            self._welcoming.pop(connection, None)

    def _count_bad_opening(self, connection: Connection, error: Exception) -> None:
        self._endpoint.protocol_errors += 1
        logger.warning("%s: closed: %s", connection.peer, handshake_reason(error))

    async def _context_for(self, client: socket.socket) -> ssl.SSLContext | None:
        """TLS for a peer that begins with a handshake, None for a plain one; an error for one that we do not want."""
        if self._tls is None:
            return None
        seconds = self._config.idle_seconds
        try:
            first = await first_byte(client, seconds)
        except TimeoutError as error:
            raise RemoteProtocolError(f"idle for {seconds:g} s") from error
        if first == HANDSHAKE_BYTE:
            return self._tls.context()
        if first is not None and self._tls.mode is TlsMode.ENFORCING:
            raise RemoteProtocolError("does not speak TLS, and this port takes nothing else")
        return None


def _listen(family: int, address: Any) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:  # 0.0.0.0 and :: are two listeners, each with its own addresses
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener
