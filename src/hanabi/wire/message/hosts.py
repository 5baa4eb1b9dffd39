"""A host and a port as records and message ids carry them.

IPv4   address (4 bytes) │ port i32        8 bytes
IPv6   address (16 bytes) │ port i32      20 bytes
"""

import ipaddress
from functools import lru_cache
from typing import Final

from hanabi.errors import MQError, RemoteProtocolError
from hanabi.message import Address

V4_BYTES: Final = 8
V6_BYTES: Final = 20


@lru_cache(maxsize=4096)
def encode_host(host: str, port: int) -> bytes:
    """Encode *host*, a numeric address, and *port*."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed + port.to_bytes(4, "big")
    except (ValueError, OverflowError) as error:
        raise MQError(f"{host!r} port {port} cannot be stored: {error}") from error


@lru_cache(maxsize=4096)
def decode_host(raw: bytes) -> Address:
    """Return the address and port in the 8 or 20 bytes *raw*."""
    if len(raw) not in (V4_BYTES, V6_BYTES):
        raise RemoteProtocolError(f"host of {len(raw)} bytes, must be {V4_BYTES} or {V6_BYTES}")
    return Address(format_ip(raw[:-4]), int.from_bytes(raw[-4:], "big"))


def format_ip(raw: bytes) -> str:
    """Return the 4 or 16 bytes of an address, in figures."""
    return str(ipaddress.ip_address(raw))
