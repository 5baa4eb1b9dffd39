"""A very small HTTP server for a few pages that are read and never written: GET and HEAD, one request a connection.

It shares the loop with a broker, so everything is bounded: connections, the size of a request, the time a peer takes to
ask and to read. It does not know the pages' content. No TLS: bind it where only operators reach it, or give it a
protection.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final, NamedTuple

from hanabi.errors import ConfigError
from hanabi.metrics.protection import OPEN, Protection
from hanabi.remoting.address import format_address, listen_problem

logger = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 32
HEAD_BYTES_MAX: Final = 8 * 1024
ASK_SECONDS: Final = 5.0  # for the request to be there
READ_SECONDS: Final = 30.0  # for the answer to be taken
BACKLOG: Final = 32
TEXT: Final = "text/plain; charset=utf-8"


class Page(NamedTuple):
    """An answer."""

    body: bytes | Sequence[bytes]
    content_type: str = TEXT
    status: HTTPStatus = HTTPStatus.OK


Pages = Mapping[str, Callable[[], Awaitable[Page]]]


class RefusedError(Exception):
    """A request that gets no page."""

    def __init__(self, status: HTTPStatus, reason: str, *headers: str) -> None:
        super().__init__(reason)
        self.status, self.headers = status, headers


class HttpServer:
    """Serves *pages* by their path. `start`, then `stop`."""

    def __init__(
        self,
        pages: Pages,
        *,
        connections_max: int = CONNECTIONS_MAX,
        ask_seconds: float = ASK_SECONDS,
        read_seconds: float = READ_SECONDS,
        protection: Protection = OPEN,
    ) -> None:
        self._pages, self._protection = pages, protection
        self._connections_max, self._ask_seconds, self._read_seconds = connections_max, ask_seconds, read_seconds
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen, and return the address that was bound. A failure is a ConfigError."""
        where = format_address((host, port))
        try:
            self._server = await asyncio.start_server(
                self._accepted, host or None, port, limit=HEAD_BYTES_MAX, backlog=BACKLOG
            )
        except (OSError, UnicodeError) as error:
            raise ConfigError(f"cannot listen on {where} for metrics: {listen_problem(error)}") from error
        bound_host, bound_port = self._server.sockets[0].getsockname()[:2]
        return bound_host, bound_port

    async def stop(self) -> None:
        """Close all connections, answered or not: a scrape may be lost at the end."""
        if self._server is None:
            return
        self._server.close()
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)
        self._server = None

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._serving) >= self._connections_max:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            try:
                async with asyncio.timeout(self._ask_seconds):
                    head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.LimitOverrunError:
                head = b""
                answer = _refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request is too long")
            else:
                answer = await self._answer(head, writer.get_extra_info("peername"))
            async with asyncio.timeout(self._read_seconds):
                for piece in answer:
                    writer.write(piece)
                    await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:  # slow, or gone
            logger.debug("a reader of metrics was given up: %r", error)
        except Exception:
            logger.exception("a page could not be shown")
        finally:
            writer.transport.abort()  # nothing if it is closed

    async def _answer(self, head: bytes, peer: tuple[str, int] | None) -> list[bytes]:
        try:
            method, path = _request_line(head)
            if not self._protection.allows(peer[0] if peer else "", path, head):
                raise RefusedError(
                    HTTPStatus.UNAUTHORIZED, "this page needs a token, or a listed address", "WWW-Authenticate: Bearer"
                )
            find = self._pages.get(path)
            if find is None:
                known = ", ".join(self._pages)
                raise RefusedError(HTTPStatus.NOT_FOUND, f"there is nothing here; try {known}")
            if method not in ("GET", "HEAD"):
                raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "these pages can only be read", "Allow: GET, HEAD")
            page = await find()
        except RefusedError as error:
            return _refusal(error.status, str(error), *error.headers)
        except Exception:
            logger.exception("page %s failed", path)
            return _refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "the page could not be made; the log says why")
        body = [page.body] if isinstance(page.body, bytes) else page.body
        opening = _head(page.status, page.content_type, sum(map(len, body)))
        return [opening] if method == "HEAD" else [opening, *body]


def _request_line(head: bytes) -> tuple[str, str]:
    """Return method and path of a request, without its query."""
    words = head.split(b"\r\n", 1)[0].split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or not words[1].startswith(b"/"):
        raise RefusedError(HTTPStatus.BAD_REQUEST, "this is not an HTTP request that is understood here")
    return words[0].decode("latin-1"), words[1].split(b"?", 1)[0].decode("latin-1")


def _refusal(status: HTTPStatus, reason: str, *headers: str) -> list[bytes]:
    body = f"{reason}\n".encode()
    return [_head(status, TEXT, len(body), *headers), body]


def _head(status: HTTPStatus, content_type: str, size: int, *headers: str) -> bytes:
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {content_type}",
        f"Content-Length: {size}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        *headers,
        "Connection: close",
    )
    return "".join(f"{line}\r\n" for line in lines).encode("latin-1") + b"\r\n"
