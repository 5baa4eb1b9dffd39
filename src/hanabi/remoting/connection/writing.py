"""The bytes that one connection writes, and its peer that may not read them.

Small writes of one loop iteration are coalesced. What was written and not read counts against the peer's own limit,
which the transport enforces, and against the limit of the whole server (`Endpoint.write_allowance`).
"""

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hanabi.remoting.connection.endpoint import Endpoint

JOIN_BYTES_MAX: Final = 64 * 1024  # copying this little is cheaper than handing over the pieces

Piece = bytes | memoryview


class Writer:
    """The writing side of one connection.

    `closed`: nothing is written any more. `resumed` exists while the peer does not read, and is done when it reads
    again or has gone.
    """

    __slots__ = (
        "_endpoint",
        "_largest_write",
        "_loop",
        "_outbox",
        "_outbox_bytes",
        "_transport",
        "closed",
        "resumed",
    )

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, endpoint: "Endpoint") -> None:
        self._transport, self._loop, self._endpoint = transport, loop, endpoint
        self._outbox: list[Piece] = []
        self._outbox_bytes = 0
        self._largest_write = 0  # of those that the peer may not have taken whole
        self.closed = False
        self.resumed: asyncio.Future[None] | None = None
        transport.set_write_buffer_limits(high=endpoint.config.write_buffer_bytes_max)

    def write(self, pieces: list[Piece], size: int) -> None:
        """Write *pieces* in one write. Small ones are joined, which is cheaper; large ones are handed over as is."""
        if self.closed or not size:
            return
        if size <= JOIN_BYTES_MAX:
            self._transport.write(b"".join(pieces))
        else:
            self._largest_write = max(size, self._largest_write if self.unsent_bytes else 0)
            self._transport.writelines(join_small_pieces(pieces))
        endpoint = self._endpoint
        endpoint.write_allowance -= size
        if endpoint.write_allowance < 0:
            endpoint.limit_unsent_soon()

    def write_soon(self, pieces: list[Piece], size: int) -> None:
        """Coalesce with all else that is written so in this loop iteration."""
        if self.closed or not size:
            return
        if not self._outbox_bytes:
            self._loop.call_soon(self.flush)
        self._outbox += pieces
        self._outbox_bytes += size
        if self._outbox_bytes > JOIN_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Write now what `write_soon` has collected."""
        pieces, size = self._outbox, self._outbox_bytes
        if size:
            self._outbox, self._outbox_bytes = [], 0
            self.write(pieces, size)

    def stall(self) -> None:
        """Note that the peer does not read."""
        self.resumed = self._loop.create_future()

    def release(self) -> None:
        """Wake what waits for the peer to read."""
        if self.resumed is not None:
            self.resumed.set_result(None)
            self.resumed = None

    @property
    def unsent_bytes(self) -> int:
        """The bytes that were written and that the peer has not taken yet."""
        return self._transport.get_write_buffer_size()

    @property
    def unsent_memory(self) -> int:
        """The memory that these take: an answer of which a part was sent is still there whole."""
        unsent = self.unsent_bytes
        return max(unsent, self._largest_write) if unsent else 0


def join_small_pieces(pieces: list[Piece]) -> list[Piece]:
    """Return the same bytes in fewer pieces; the large ones stay what they are."""
    result: list[Piece] = []
    small: list[Piece] = []
    for piece in pieces:
        if len(piece) <= JOIN_BYTES_MAX:
            small.append(piece)
            continue
        if small:
            result.append(b"".join(small))
            small = []
        result.append(piece)
    if small:
        result.append(b"".join(small))
    return result
