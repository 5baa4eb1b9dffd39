"""Requests that one connection sends to its peer, until they are answered."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from itertools import count
from typing import Final

from hanabi.errors import ConnectionLostError, TooManyRequestsError, TransportError
from hanabi.remoting.connection.pending import AnswerTo, PendingRequests
from hanabi.remoting.connection.writing import Writer
from hanabi.wire.command import Command, encode_request
from hanabi.wire.header import Header

logger = logging.getLogger(__name__)

OPAQUE_MASK: Final = 0x7FFF_FFFF

Fields = Header | Mapping[str, str] | None


class OutgoingRequests:
    """The asking side of one connection. *unanswered* is called as `PendingRequests` says."""

    __slots__ = ("_at_once", "_loop", "_lost", "_opaques", "_peer", "_pending", "_pending_max", "_writer")

    def __init__(
        self,
        peer: str,
        loop: asyncio.AbstractEventLoop,
        writer: Writer,
        pending_max: int,
        unanswered: Callable[[float], None],
        *,
        writes_are_cheap: bool,
    ) -> None:
        self._peer, self._loop, self._writer, self._pending_max = peer, loop, writer, pending_max
        self._pending = PendingRequests(loop, peer, unanswered)
        self._opaques = count(1)
        self._at_once = writer.write if writes_are_cheap else writer.write_soon
        self._lost: str | None = None  # why nothing can be sent any more

    def __len__(self) -> int:
        return len(self._pending)

    async def request(self, code: int, header: Fields, body: bytes, timeout: float) -> Command:  # noqa: ASYNC109
        """See `Connection.request`."""
        if len(self._pending) >= self._pending_max:
            raise TooManyRequestsError(f"{self._peer}: {self._pending_max} requests wait for an answer already")
        self._must_be_open()
        opaque = next(self._opaques) & OPAQUE_MASK
        future: asyncio.Future[Command] = self._loop.create_future()
        self._pending.begin(opaque, code, timeout, future)
        try:
            while (resumed := self._writer.resumed) is not None and not future.done():
                await asyncio.wait((resumed, future), return_when=asyncio.FIRST_COMPLETED)
            if not future.done():
                frame = encode_request(code, opaque, header, body)
                self._writer.write_soon([frame], len(frame))
            return await future
        except asyncio.CancelledError:
            self._pending.give_up(opaque)
            raise
        finally:
            self._pending.end(opaque)

    def ask_at_once(
        self,
        code: int,
        header: Fields,
        body: bytes,
        timeout: float,
        ended: Callable[[Command | TransportError], None],
    ) -> bool:
        """See `Connection.ask_at_once`."""
        if self._lost is not None or self._writer.resumed is not None or len(self._pending) >= self._pending_max:
            return False
        opaque = next(self._opaques) & OPAQUE_MASK
        frame = encode_request(code, opaque, header, body)
        self._pending.begin(opaque, code, timeout, AnswerTo(ended))
        self._at_once([frame], len(frame))
        return True

    def send_oneway(self, code: int, header: Fields, body: bytes) -> None:
        """See `Connection.send_oneway`."""
        self._must_be_open()
        if self._writer.resumed is not None:
            unsent = self._writer.unsent_bytes
            raise TooManyRequestsError(f"{self._peer}: does not read, {unsent} bytes wait for it already")
        frame = encode_request(code, next(self._opaques) & OPAQUE_MASK, header, body, oneway=True)
        self._writer.write_soon([frame], len(frame))

    def take(self, response: Command) -> None:
        """Hand *response* to the request that it answers."""
        future = self._pending.end(response.opaque)
        if future is None:
            logger.debug("%s: answer %d comes too late or was not asked for", self._peer, response.opaque)
        elif not future.done():
            future.set_result(response)

    def fail(self, reason: str) -> None:
        """Fail all that wait, and all that come: the connection is lost."""
        self._lost = reason
        self._pending.fail(reason)

    def _must_be_open(self) -> None:
        if self._lost is not None:
            raise ConnectionLostError(f"{self._peer}: {self._lost}")
