"""Decompression of bodies without extra packages: Arrow is always installed and supports zstd and lz4."""

from importlib.util import find_spec
from typing import Final

import pyarrow as pa

from hanabi.errors import RemoteProtocolError
from hanabi.wire.message import sysflag
from hanabi.wire.message.compression import BODY_BYTES_MAX, CompressionType, decompress

_PACKAGES: Final = {CompressionType.ZSTD: ("zstd", "zstandard"), CompressionType.LZ4: ("lz4", "lz4")}
_BY_ARROW: Final[dict[int, str]] = {
    int(number): codec for number, (codec, package) in _PACKAGES.items() if find_spec(package) is None
}


def unpack(body: bytes, sys_flag: int, body_bytes_max: int = BODY_BYTES_MAX) -> bytes:
    """Decompress as `decompress`; use Arrow if the codec's package is not installed. Raises RemoteProtocolError."""
    codec = _BY_ARROW.get(sysflag.compression_number(sys_flag)) if sys_flag & sysflag.COMPRESSED else None
    return decompress(body, sys_flag, body_bytes_max) if codec is None else unpack_by_arrow(body, codec, body_bytes_max)


def unpack_by_arrow(body: bytes, codec: str, body_bytes_max: int) -> bytes:
    """Return the content of *body*, a frame of *codec*."""
    try:
        plain: bytes = pa.CompressedInputStream(pa.BufferReader(body), codec).read(body_bytes_max + 1)
    except OSError as error:  # also raised for truncated input
        raise RemoteProtocolError(f"bad {codec} body: {error}") from error
    if not body:
        raise RemoteProtocolError(f"bad {codec} body: it is empty")
    if len(plain) > body_bytes_max:
        raise RemoteProtocolError(f"compressed body of {len(body)} bytes unpacks to more than {body_bytes_max}")
    return plain
