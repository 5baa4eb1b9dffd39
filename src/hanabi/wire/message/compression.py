"""Compressed bodies: zlib always; lz4 and zstd where their packages are installed.

The system flag has the type. The formats are those of Java's Deflater, LZ4FrameOutputStream and
ZstdOutputStream.
"""

import zlib
from enum import IntEnum
from typing import Final

from hanabi.errors import MQError, RemoteProtocolError
from hanabi.wire.message import sysflag

LEVEL_DEFAULT: Final = 5
# A few bytes can unpack to gigabytes. Java's clients send at most 4 MiB by default.
BODY_BYTES_MAX: Final = 64 * 1024 * 1024
_ZSTD_WINDOW_BYTES_MAX: Final = 8 * 1024 * 1024  # what RFC 8878 asks decoders to support; no level below 20 needs more


class CompressionType(IntEnum):
    """The compression of a body; the numbers are Java's."""

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3


def compress(body: bytes, compression: CompressionType = CompressionType.ZLIB, level: int = LEVEL_DEFAULT) -> bytes:
    """Compress *body*. The caller sets the system flag with `sysflag.with_compression`."""
    if compression is CompressionType.ZLIB:
        return zlib.compress(body, level)
    if compression is CompressionType.ZSTD:
        try:
            import zstandard
        except ImportError as error:
            raise _missing("zstd") from error
        return zstandard.ZstdCompressor(level=level).compress(body)
    try:
        import lz4.frame
    except ImportError as error:
        raise _missing("lz4") from error
    # Java's LZ4FrameInputStream reads only blocks that do not refer to each other, and its writer has no levels.
    packed: bytes = lz4.frame.compress(body, block_linked=False)
    return packed


def decompress(body: bytes, sys_flag: int, body_bytes_max: int = BODY_BYTES_MAX) -> bytes:
    """Return the body as it was before it was compressed; the same when *sys_flag* says that it never was."""
    if not sys_flag & sysflag.COMPRESSED:
        return body
    number = sysflag.compression_number(sys_flag) or CompressionType.ZLIB  # 0: clients older than the choice
    if number == CompressionType.ZLIB:
        plain = _unzlib(body, body_bytes_max)
    elif number == CompressionType.LZ4:
        plain = _unlz4(body, body_bytes_max)
    elif number == CompressionType.ZSTD:
        plain = _unzstd(body, body_bytes_max)
    else:
        raise RemoteProtocolError(f"body compressed in an unknown way: {number}")
    if len(plain) > body_bytes_max:
        raise RemoteProtocolError(f"compressed body of {len(body)} bytes unpacks to more than {body_bytes_max}")
    return plain


# Each of these gives at most one byte more than it may, so that the caller sees that there was more.


def _unzlib(body: bytes, limit: int) -> bytes:
    reader = zlib.decompressobj()
    try:
        plain = reader.decompress(body, limit + 1)
    except zlib.error as error:
        raise RemoteProtocolError(f"bad zlib body: {error}") from error
    if not reader.eof and len(plain) <= limit:
        raise RemoteProtocolError(f"bad zlib body: cut off after {len(body)} bytes")
    return plain


def _unlz4(body: bytes, limit: int) -> bytes:
    try:
        import lz4.frame
    except ImportError as error:
        raise _missing("lz4") from error
    reader = lz4.frame.LZ4FrameDecompressor()
    try:
        plain: bytes = reader.decompress(body, limit + 1)
    except RuntimeError as error:  # the package has no error class of its own
        raise RemoteProtocolError(f"bad lz4 body: {error}") from error
    if len(plain) <= limit and (not reader.eof or reader.unused_data):
        raise RemoteProtocolError("bad lz4 body: it is not exactly one frame")
    return plain


def _unzstd(body: bytes, limit: int) -> bytes:
    try:
        import zstandard
    except ImportError as error:
        raise _missing("zstd") from error
    unpacker = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
    try:
        plain = unpacker.stream_reader(body).read(limit + 1)
        if len(plain) > limit:
            return plain
        # That reader can be bounded but accepts a truncated frame; this one rejects it, and the size is known now.
        frame = unpacker.decompressobj()
        frame.decompress(body)
    except zstandard.ZstdError as error:
        raise RemoteProtocolError(f"bad zstd body: {error}") from error
    if not frame.eof or frame.unused_data:
        raise RemoteProtocolError("bad zstd body: it is not exactly one frame")
    return plain


def _missing(name: str) -> MQError:
    return MQError(f"{name} is not installed; it comes with: pip install '.[{name}]' in a clone of Hanabi")
