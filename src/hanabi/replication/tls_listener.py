"""Accepts connections with TLS, and says why a handshake failed: asyncio's own server closes them without a word."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

logger = logging.getLogger(__name__)

HANDSHAKE_SECONDS: Final = 10.0
HANDSHAKES_MAX: Final = 64  # at once; further peers are closed
PAUSE_SECONDS: Final = 1.0  # after the system refused a descriptor

OnFailed = Callable[[Any, Exception], None]  # gets the peer's address and the error


class TlsListener:
    """Serves one listening socket. Call `close` to stop; open connections stay."""

    def __init__(
        self,
        listener: socket.socket,
        context: ssl.SSLContext,
        new_protocol: Callable[[], asyncio.Protocol],
        on_failed: OnFailed,
    ) -> None:
        self._listener, self._context, self._new_protocol, self._on_failed = listener, context, new_protocol, on_failed
        listener.setblocking(False)
        self._handshakes: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.create_task(self._accept())

    def close(self) -> None:
        """Accept no more, and end the handshakes under way."""
        for task in (self._accepting, *self._handshakes):
            task.cancel()
        self._listener.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, address = await loop.sock_accept(self._listener)
            except OSError as error:
                logger.error("cannot accept slaves, retrying in %g s: %s", PAUSE_SECONDS, error)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if len(self._handshakes) >= HANDSHAKES_MAX:
                client.close()
                continue
            task = asyncio.create_task(self._greet(client, address))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _greet(self, client: socket.socket, address: Any) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._new_protocol, client, ssl=self._context, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        except OSError as error:  # includes SSLError and TimeoutError; the transport has closed the socket
            self._on_failed(address, error)
