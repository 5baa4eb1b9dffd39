"""Framing: a stream of bytes, cut into frames.

    ┌──────────────┬─────────────────────────────┐
    │ length (u32) │ length bytes: one command   │
    └──────────────┴─────────────────────────────┘

The limit is on the whole frame, prefix included, as in Java's NettyDecoder.
"""

import struct

from hanabi.errors import RemoteProtocolError

FRAME_BYTES_MAX = 16 * 1024 * 1024
_LENGTH = struct.Struct(">I")
_PREFIX_BYTES = _LENGTH.size


class FrameDecoder:
    """Cuts a stream of bytes into frames. Knows nothing of sockets or event loops."""

    __slots__ = ("_buffer", "_limit", "_wanted")

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._buffer = bytearray()
        self._limit = frame_bytes_max
        self._wanted = _PREFIX_BYTES  # nothing can be complete before this many bytes are buffered

    @property
    def buffered_bytes(self) -> int:
        """The number of bytes that wait for the rest of their frame."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """Take received bytes; return the frames now complete, without their length prefix.

        Frames that came before one over the limit are returned; `check` raises for that one, and so does the next feed.
        """
        data = self.joined(data)
        frames: list[bytes] = []
        start, available = 0, len(data)
        while (body := start + _PREFIX_BYTES) <= available:
            (size,) = _LENGTH.unpack_from(data, start)
            end = body + size
            if end - start > self._limit:  # hostile, or we lost our place: never try to buffer it
                if not frames:
                    raise self._over_limit(end - start)
                break
            if end > available:
                self._wanted = end - start
                break
            frames.append(data[body:end])
            start = end
        if start < available:
            self._buffer += data[start:] if start else data
        return frames

    def joined(self, data: bytes) -> bytes:
        """Return the buffered bytes and *data* in one piece that begins with a frame, for a caller that parses frames
        itself; the caller feeds back the rest. Empty while no frame is complete: the bytes are kept here."""
        buffer = self._buffer
        if not buffer:
            return data
        buffer += data
        if len(buffer) < self._wanted:
            return b""
        data = bytes(buffer)
        buffer.clear()
        self._wanted = _PREFIX_BYTES
        return data

    def check(self) -> None:
        """Raise if the frame that has begun is over the limit: it will never be complete."""
        if len(self._buffer) >= _PREFIX_BYTES:
            size = _PREFIX_BYTES + _LENGTH.unpack_from(self._buffer)[0]
            if size > self._limit:
                raise self._over_limit(size)

    def _over_limit(self, size: int) -> RemoteProtocolError:
        return RemoteProtocolError(f"frame of {size} bytes, limit {self._limit}")


def encode_frame(content: bytes) -> bytes:
    """Return *content* with its length before it."""
    return _LENGTH.pack(len(content)) + content
