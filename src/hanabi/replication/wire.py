"""Encoding of a replication connection. There is no handshake, no magic number and no version.

    slave -> master    int64 offset                             first: the position it asks for; then: what it holds
    master -> slave    int64 offset, int32 size, size bytes     raw bytes of the commit log; size 0 is a heartbeat

Integers are big-endian. A piece ends anywhere, also within a message, but never crosses a file of the log.
Agrees with HAConnection and HAClient (4.9), DefaultHAConnection and DefaultHAClient (5.x).
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from hanabi.errors import RemoteProtocolError

_REPORT: Final = struct.Struct(">q")
_HEADER: Final = struct.Struct(">qi")
REPORT_BYTES: Final = _REPORT.size
HEADER_BYTES: Final = _HEADER.size
PIECE_BYTES_MAX: Final = (4 << 20) - HEADER_BYTES  # the read buffer of Apache's slaves: no master sends more
_OFFSET_MAX: Final = 2**63 - 1

encode_report = _REPORT.pack
"""Encode the offset up to which a slave holds the log."""

encode_header = _HEADER.pack
"""Encode the header of a piece: its offset and its size. Size 0 is a heartbeat."""


class ReportParser:
    """Parser of one slave's reports from a fragmented stream. Keeps at most seven bytes."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> tuple[int, ...]:
        """Return the reports that *data* completes, in order."""
        if self._rest:
            data = self._rest + data
        count, rest = divmod(len(data), REPORT_BYTES)
        self._rest = data[len(data) - rest :]
        return struct.unpack_from(f">{count}q", data)


class Piece(NamedTuple):
    """Bytes of the master's log that begin at *offset*; without bytes, a heartbeat."""

    offset: int
    data: memoryview


class PieceParser:
    """Parser of a master's pieces from a fragmented stream. Keeps at most eleven bytes.

    A piece that arrives in parts is returned in parts, each with its own offset: a slave appends them as they come, so
    the size that a master claims costs no memory.
    """

    def __init__(self) -> None:
        self._head = b""
        self._offset = 0
        self._left = 0

    def feed(self, data: bytes | memoryview) -> Iterator[Piece]:
        """Yield the pieces in *data*, without a copy. Raise RemoteProtocolError if it cannot come from a master."""
        view = memoryview(data)
        while view:
            if not self._left:
                view = self._take_header(view)
                if not self._left:
                    if not self._head:
                        yield Piece(self._offset, view[:0])
                    continue
            part, view = view[: self._left], view[self._left :]
            if part:
                offset = self._offset
                self._offset, self._left = offset + len(part), self._left - len(part)
                yield Piece(offset, part)

    def _take_header(self, view: memoryview) -> memoryview:
        """Read a header from *view* and earlier bytes; return the rest. Keep the bytes if there are too few."""
        missing = HEADER_BYTES - len(self._head)
        self._head += view[:missing]
        if len(self._head) == HEADER_BYTES:
            self._offset, self._left = _checked(*_HEADER.unpack(self._head))
            self._head = b""
        return view[missing:]


def _checked(offset: int, size: int) -> tuple[int, int]:
    if not 0 <= size <= PIECE_BYTES_MAX:
        raise RemoteProtocolError(f"a piece of {size} bytes, but a master sends at most {PIECE_BYTES_MAX}")
    if not 0 <= offset <= _OFFSET_MAX - size:
        raise RemoteProtocolError(f"a piece at offset {offset}, where no log can be")
    return offset, size
