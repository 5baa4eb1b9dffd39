"""The port: sockets are accepted, counted, told apart (TLS or plain), and become connections."""

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any, Final

from hanabi.errors import ConfigError, RemoteProtocolError
from hanabi.grpc.calls.support.method import Method
from hanabi.grpc.serving.certificate import ALPN, own_context
from hanabi.grpc.serving.connection import GrpcConnection
from hanabi.grpc.serving.limits import PortLimits, RequestMemory
from hanabi.remoting.address import format_address, listen_problem
from hanabi.remoting.transport.descriptors import PROCESS, DescriptorBudget
from hanabi.remoting.transport.tls import HANDSHAKE_BYTE, ServerTls, TlsConfig, TlsMode, first_byte, handshake_reason

logger = logging.getLogger(__name__)

BACKLOG: Final = 1024
ACCEPTS_A_TURN: Final = 64
ACCEPT_PAUSE_SECONDS: Final = 1.0


class GrpcServer:
    """Serves *methods* on one address. Without a TLS configuration it makes a certificate of its own."""

    def __init__(
        self,
        methods: Mapping[str, Method],
        limits: PortLimits = PortLimits(),  # noqa: B008 - frozen
        *,
        tls: TlsConfig | None = None,
        descriptors: DescriptorBudget = PROCESS,
    ) -> None:
        self.methods, self.limits = methods, limits
        self.memory = RequestMemory()
        self._tls_config, self._descriptors = tls, descriptors
        self._tls: ServerTls | None = None
        self._own_context: ssl.SSLContext | None = None
        self._listeners: list[socket.socket] = []
        self.connections: set[GrpcConnection] = set()
        self._welcoming: set[asyncio.Task[None]] = set()
        self._checking: asyncio.Task[None] | None = None
        self._undo_count: Any = None
        self._is_empty = asyncio.Event()
        self.refused = 0

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen, and return the address that was bound. A taken port is a ConfigError."""
        loop = asyncio.get_running_loop()
        if self._tls_config is not None and self._tls_config.server_mode is not TlsMode.DISABLED:
            self._tls = ServerTls(self._tls_config, loop.time)
        elif self._tls_config is None:
            self._own_context = await asyncio.to_thread(own_context)
        try:
            found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, _, _, _, address in dict.fromkeys(found):
                if self._listeners:
                    address = (address[0], self._bound()[1], *address[2:])
                self._listeners.append(_listen(family, address))
        except (OSError, UnicodeError) as error:
            self._close_listeners()
            where = format_address((host, port))
            raise ConfigError(f"cannot listen on {where}: {listen_problem(error)}") from error
        self._undo_count = self._descriptors.count_connections(self._count)
        for listener in self._listeners:
            loop.add_reader(listener.fileno(), self._accept, listener)
        self._checking = asyncio.create_task(self._check())
        return self._bound()

    def _bound(self) -> tuple[str, int]:
        host, port = self._listeners[0].getsockname()[:2]
        return str(host), int(port)

    def _count(self) -> int:
        return len(self.connections) + len(self._welcoming)

    async def stop(self, deadline_seconds: float = 5.0) -> None:
        """Accept no more, let calls end, close; at the deadline cut what is left."""
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            loop.remove_reader(listener.fileno())
        self._close_listeners()
        await asyncio.sleep(0)
        tasks = [task for task in (self._checking, *self._welcoming) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in list(self.connections):
            connection.finish("the server shuts down")
        try:
            async with asyncio.timeout(deadline_seconds):
                await self._until_empty()
        except TimeoutError:
            for connection in list(self.connections):
                connection.abort()
            await self._until_empty()
        if self._undo_count is not None:
            self._undo_count()
            self._undo_count = None

    async def _until_empty(self) -> None:
        self._is_empty = asyncio.Event()
        if self.connections:
            await self._is_empty.wait()

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()

    # Connections

    def opened(self, connection: GrpcConnection) -> None:
        """Count a connection."""
        self.connections.add(connection)

    def closed(self, connection: GrpcConnection) -> None:
        """Forget a connection."""
        self.connections.discard(connection)
        if not self.connections:
            self._is_empty.set()

    async def _check(self) -> None:
        while True:
            await asyncio.sleep(self.limits.check_seconds)
            now = time.monotonic()
            for connection in list(self.connections):
                connection.check(now)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTS_A_TURN):
            try:
                client, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause_accepting(listener, error)
                return
            if self._count() >= self.limits.connections_max or not self._descriptors.has_room():
                client.close()
                self.refused += 1
                continue
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = asyncio.create_task(self._welcome(client, format_address(address)))
            self._welcoming.add(task)
            task.add_done_callback(self._welcoming.discard)

    def _pause_accepting(self, listener: socket.socket, error: OSError) -> None:
        logger.error("gRPC: cannot accept connections, trying again in %g s: %s", ACCEPT_PAUSE_SECONDS, error)
        loop = asyncio.get_running_loop()
        loop.remove_reader(listener.fileno())

        def go_on() -> None:
            if listener in self._listeners:
                loop.add_reader(listener.fileno(), self._accept, listener)

        loop.call_later(ACCEPT_PAUSE_SECONDS, go_on)

    async def _welcome(self, client: socket.socket, peer: str) -> None:
        """Make a connection of an accepted socket."""
        loop = asyncio.get_running_loop()
        try:
            context = await self._context_for(client)
        except BaseException as error:
            client.close()
            if not isinstance(error, OSError | RemoteProtocolError):
                raise
            logger.debug("%s: closed: %s", peer, handshake_reason(error))
            return
        seconds = {"ssl_handshake_timeout": self.limits.tls_handshake_seconds} if context is not None else {}
        try:
            await loop.connect_accepted_socket(lambda: GrpcConnection(self, peer), client, ssl=context, **seconds)
        except OSError as error:
            logger.debug("%s: closed: %s", peer, handshake_reason(error))

    async def _context_for(self, client: socket.socket) -> ssl.SSLContext | None:
        """Return TLS for a client that begins with a handshake, None for a plain one."""
        try:
            first = await first_byte(client, self.limits.first_byte_seconds)
        except TimeoutError as error:
            raise RemoteProtocolError("the client sends nothing") from error
        if first is None:
            raise RemoteProtocolError("closed by the client")
        if first != HANDSHAKE_BYTE:
            if self._tls is not None and self._tls.mode is TlsMode.ENFORCING:
                raise RemoteProtocolError("does not speak TLS, and this port takes nothing else")
            return None
        context = self._tls.context() if self._tls is not None else self._own_context
        if context is None:
            raise RemoteProtocolError("asks for TLS, which this port does not have")
        if self._tls is not None:
            context.set_alpn_protocols([ALPN])
        return context


def _listen(family: int, address: Any) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener
